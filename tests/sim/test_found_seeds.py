"""Does the simulator see? Each planted bug breaks a law in the seed that `make sim` found, and
without the bug that seed holds.
"""

import pytest
from tools import hunt

from tests.sim.bug import violation
from tests.sim.planted import PLANTED

FOUND = hunt.read()


@pytest.mark.parametrize("name", PLANTED)
def test_the_seed_that_was_found_fails_with_the_bug_and_holds_without(name: str) -> None:
    assert name in FOUND, f"make sim has not found {name} yet"
    broken = violation(PLANTED[name].scenario(FOUND[name].seed), *PLANTED[name].swaps)
    assert broken.law == FOUND[name].law, broken


def test_found_names_only_what_is_planted() -> None:
    assert set(FOUND) <= set(PLANTED)
    assert PLANTED
