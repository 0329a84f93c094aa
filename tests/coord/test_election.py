"""Which protocol a generation speaks: one that all speak, and of these the one that most like
best.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.coord.classic.live_state import select_protocol


@pytest.mark.parametrize(
    ("ballots", "elected"),
    [
        ([["range"]], "range"),
        ([["sticky", "range"], ["range", "sticky"], ["sticky", "range"]], "sticky"),
        ([["sticky", "range"], ["range", "sticky"]], "range"),  # a tie: the first by name
        (
            [
                ["roundrobin", "sticky", "range"],
                ["sticky", "range"],
                ["range", "sticky"],
                ["sticky", "range"],
            ],
            "sticky",
        ),
        # most like another best, which one does not speak
        ([["new", "old"], ["new", "old"], ["old"]], "old"),
        # each votes for its best of those that all speak
        ([["x", "b", "a"], ["y", "b", "a"]], "b"),
    ],
)
def test_the_vote_of(ballots: list[list[str]], elected: str) -> None:
    assert select_protocol(ballots) == elected


@given(
    st.lists(st.permutations(["range", "sticky", "roundrobin", "mine"]), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_vote_does_not_depend_on_who_joined_first(
    ballots: list[list[str]], chance: random.Random
) -> None:
    elected = select_protocol(ballots)
    chance.shuffle(ballots)
    assert select_protocol(ballots) == elected
