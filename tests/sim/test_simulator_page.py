"""The page of the simulator tells every fault and every law, and the histories that pages show are
those that one sees.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.sim.checks.consumer_laws import GROUP_LAWS
from apportion.sim.kernel.scenario import FAULTS
from tests.sim.laws import TLA, WATCHED_LAWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "simulator.md").read_text()
ROWS = dict(re.findall(r"^\| `([a-z-]+)` \|.*?\|(.*)$", PAGE, re.MULTILINE))


def test_every_fault_and_every_law_has_its_row() -> None:
    assert list(ROWS) == [*FAULTS, *GROUP_LAWS, *WATCHED_LAWS]
    assert re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", PAGE, re.MULTILINE)[: len(FAULTS)] == list(
        FAULTS.items()
    )


def test_every_name_of_the_tla_sketch_stands_beside_its_laws() -> None:
    stand_for = {
        law: {name for name, laws in TLA.items() if law in laws.split(", ")}
        for law in ROWS
        if law not in FAULTS
    }
    assert {law: set(re.findall(r"\w+", ROWS[law])) for law in stand_for} == stand_for


@pytest.mark.parametrize("page", ["docs/simulator.md"])
def test_a_page_shows_the_history_that_its_command_prints(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown: Any = re.search(
        r"```console\n\$ apportion (sim --seed .*)\n((?:.*\n)*?)```", (ROOT / page).read_text()
    )
    printed = CliRunner().invoke(app, shown[1].split()).stdout
    lines = "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
    first, _, last = shown[2].partition("...\n")
    assert lines.startswith(first), lines
    assert lines.endswith(last), lines
