"""The page of the simulator tells every fault and every law."""

import re
from pathlib import Path

from apportion.sim.laws import GROUP_LAWS, TLA, WATCHED_LAWS
from apportion.sim.scenario import FAULTS

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
ROWS = dict(re.findall(r"^\| `([a-z-]+)` \|.*?\|(.*)$", PAGE, re.MULTILINE))


def test_every_fault_and_every_law_has_its_row():
    assert list(ROWS) == [*FAULTS, *GROUP_LAWS, *WATCHED_LAWS]
    assert re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", PAGE, re.MULTILINE)[: len(FAULTS)] == list(FAULTS.items())


def test_every_name_of_the_tla_sketch_stands_beside_its_laws():
    stand_for = {law: {name for name, laws in TLA.items() if law in laws.split(", ")} for law in ROWS if law not in FAULTS}
    assert {law: set(re.findall(r"\w+", ROWS[law])) for law in stand_for} == stand_for
