"""Every planted bug is where its guard is. A tiny example shows what those change that no test of
the part itself sees.
"""

import re
from inspect import isfunction, signature
from pathlib import Path

import pytest

from tests.sim.planted import PLANTED
from tests.sim.planted_examples import EXAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "guards.md"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_takes_the_place_of_something_that_is_asked_the_same(name: str) -> None:
    for target, attribute, faulty in PLANTED[name].swaps:
        right = getattr(target, attribute)
        assert right is not faulty
        if isfunction(right):
            assert list(signature(right).parameters) == list(signature(faulty).parameters)
        elif isinstance(right, dict):
            assert right.keys() == faulty.keys()
        else:
            assert type(right) is type(faulty)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_planted_bug_changes_what_happens(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    example, right, wrong = EXAMPLES[name]
    assert example() == right
    PLANTED[name].plant(monkeypatch)
    assert example() == wrong
    monkeypatch.undo()
    assert example() == right


def test_the_page_of_the_guards_names_every_planted_bug() -> None:
    assert re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE) == list(PLANTED)
