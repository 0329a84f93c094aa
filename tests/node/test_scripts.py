"""Short stories told to a real node, `scripts/*.txt`; `script_player.py` has the steps."""

from pathlib import Path

import pytest

from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.coord.shard import HANDLERS, HANDLERS_BY_GROUP
from tests.node.script_player import ScriptPlayer
from tests.scripted import cases_of, check

HOME = Path(__file__).parent / "scripts"
CASES = [
    pytest.param(script, title, id=f"{script.stem}: {title}")
    for script in sorted(HOME.glob("*.txt"))
    for title in cases_of(script)
]


@pytest.mark.parametrize(("script", "title"), CASES)
def test_a_case_goes_as_it_is_told(
    script: Path, title: str, request: pytest.FixtureRequest
) -> None:
    check(script, ScriptPlayer().play, request, title)


def test_every_api_that_names_a_group_is_refused_before_find_coordinator() -> None:
    lines = (HOME / "without-coordinator.txt").read_text().splitlines()
    named = {line.split()[1] for line in lines if line.startswith("first ")}
    apis = {kind.__name__.removesuffix("Request") for kind in GROUP_ERROR_RESPONSES}
    assert named == apis | {"FindCoordinator"}
    assert HANDLERS.keys() | HANDLERS_BY_GROUP.keys() == GROUP_ERROR_RESPONSES.keys()
