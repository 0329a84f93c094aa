"""Stories told to a real shard, `scripts/*.txt`, and short ones in `scripts/cases/*.txt`, where
foo has three partitions; `script_player.py` says what a step may be.
"""

from pathlib import Path

import pytest

from tests.coord.script_player import ScriptPlayer
from tests.coord.shard_driver import topics
from tests.scripted import cases_of, check

HOME = Path(__file__).parent / "scripts"
SCRIPTS = sorted(HOME.glob("*.txt"))
CASES = [
    pytest.param(script, title, id=f"{script.stem}: {title}")
    for script in sorted(HOME.glob("cases/*.txt"))
    for title in cases_of(script)
]
assert SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_story_goes_as_it_is_told(script: Path, request: pytest.FixtureRequest) -> None:
    check(script, ScriptPlayer(topics()).play, request)


@pytest.mark.parametrize(("script", "title"), CASES)
def test_a_case_goes_as_it_is_told(
    script: Path, title: str, request: pytest.FixtureRequest
) -> None:
    check(script, ScriptPlayer(topics(foo=3)).play, request, title)
