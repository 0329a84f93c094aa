"""OwnershipClaims of any generation come to one owner, one former owner, or nobody."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.claims import OwnershipClaims, resolve_claims


def claims_of(claims: list[tuple[int, list[int]]]) -> OwnershipClaims:
    """said: of each member (generation, partitions)."""
    starts = np.cumsum([0, *(len(partitions) for _, partitions in claims)])
    return OwnershipClaims(
        starts.astype(np.int32),
        np.array([partition for _, partitions in claims for partition in partitions], np.int32),
        np.array([generation for generation, _ in claims], np.int32),
    )


def outcome(
    claims: list[tuple[int, list[int]]], partitions: int
) -> tuple[list[int], list[int], list[bool]]:
    return tuple(side.tolist() for side in resolve_claims(claims_of(claims), partitions))


def by_hand(
    claims: list[tuple[int, list[int]]], partitions: int
) -> tuple[list[int], list[int], list[bool]]:
    owner, former, claimed = [], [], []
    for partition in range(partitions):
        rivals = sorted(
            (-generation, member)
            for member, (generation, theirs) in enumerate(claims)
            if partition in theirs
        )
        tied = len(rivals) > 1 and rivals[0][0] == rivals[1][0]
        owner.append(rivals[0][1] if rivals and not tied else -1)
        former.append(rivals[1][1] if len(rivals) > 1 and not tied else -1)
        claimed.append(bool(rivals))
    return owner, former, claimed


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 3), st.lists(st.integers(0, 5), max_size=8)), max_size=5))
def test_each_partition_is_settled_by_its_highest_generation(
    claims: list[tuple[int, list[int]]],
) -> None:
    assert outcome(claims, 6) == by_hand(claims, 6)


def test_two_of_one_generation_both_lose_what_they_claim() -> None:
    assert outcome([(4, [0, 1]), (4, [1, 2])], 4) == (
        [0, -1, 1, -1],
        [-1, -1, -1, -1],
        [True, True, True, False],
    )


def test_the_higher_generation_keeps_and_the_other_is_remembered() -> None:
    assert outcome([(4, [0]), (5, [0]), (-1, [0])], 1) == ([1], [0], [True])


def test_the_claim_of_an_old_generation_counts_where_nobody_contradicts() -> None:
    assert outcome([(7, [0]), (2, [1]), (-1, [2])], 3) == (
        [0, 1, 2],
        [-1, -1, -1],
        [True, True, True],
    )


def test_the_lowest_and_the_highest_generation_are_only_numbers() -> None:
    assert outcome([(-(2**31), [0]), (2**31 - 1, [0])], 1) == ([1], [0], [True])


def test_a_member_that_says_the_same_twice_is_no_rival_of_itself() -> None:
    assert outcome([(3, [0, 0, 1, 0])], 2) == ([0, 0], [-1, -1], [True, True])


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_claim_to_a_partition_that_is_none_is_refused(partition: int) -> None:
    with pytest.raises(
        ValueError, match=f"a member claims partition {partition}, but there are 2, counted from 0"
    ):
        outcome([(1, [0]), (1, [partition])], 2)
