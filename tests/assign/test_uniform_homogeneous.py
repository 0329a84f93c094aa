"""`uniform` for equal subscriptions: equal shares, fewest moves, against brute force."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.uniform import uniform_homogeneous


def vector(numbers: list[int]) -> npt.NDArray[Any]:
    return np.array(numbers, np.int32)


def sizes_of(owner: Sequence[int], members: int) -> list[int]:
    return [list(owner).count(member) for member in range(members)]


def moves_of(before: list[int], after: Sequence[int]) -> int:
    return sum(was != -1 and was != now for was, now in zip(before, after, strict=True))


def fewest_moves_of_all_assignments(before: list[int], members: int) -> int:
    """By trying every assignment there is."""
    equal = (
        after
        for after in product(range(members), repeat=len(before))
        if max(sizes_of(after, members)) - min(sizes_of(after, members)) <= 1
    )
    return min(moves_of(before, after) for after in equal)


def fewest_moves_of_all_shares(before: list[int], members: int) -> int:
    """By trying every choice of the members with the larger share."""
    share, larger = divmod(len(before), members)
    sizes = sizes_of(before, members)
    kept = (
        sum(min(size, share + (member in chosen)) for member, size in enumerate(sizes))
        for chosen in combinations(range(members), larger)
    )
    return sum(sizes) - max(kept)


@st.composite
def groups(draw: st.DrawFn, most_members: int, most_partitions: int) -> tuple[list[int], int]:
    """(owner of each partition, members), owners often lopsided."""
    members = draw(st.integers(1, most_members))
    owner = st.one_of(st.integers(-1, members - 1), st.sampled_from([-1, 0]))
    return draw(st.lists(owner, max_size=most_partitions)), members


@settings(max_examples=150, deadline=None)
@given(groups(3, 6))
def test_sizes_differ_by_at_most_one_and_no_equal_assignment_moves_fewer(
    group: tuple[list[int], int],
) -> None:
    before, members = group
    after = uniform_homogeneous(vector(before), members).tolist()
    assert len(after) == len(before)
    assert sum(sizes_of(after, members)) == len(before)
    assert max(sizes_of(after, members)) - min(sizes_of(after, members)) <= 1
    assert moves_of(before, after) == fewest_moves_of_all_assignments(before, members)


@settings(max_examples=300, deadline=None)
@given(groups(7, 40))
def test_no_choice_of_the_larger_shares_moves_fewer(group: tuple[list[int], int]) -> None:
    before, members = group
    after = uniform_homogeneous(vector(before), members).tolist()
    assert sorted(sizes_of(after, members)) == sorted(
        (len(before) + member) // members for member in range(members)
    )
    assert moves_of(before, after) == fewest_moves_of_all_shares(before, members)


@settings(max_examples=100, deadline=None)
@given(groups(7, 40))
def test_nothing_moves_when_nothing_changed(group: tuple[list[int], int]) -> None:
    before, members = group
    once = uniform_homogeneous(vector(before), members)
    assert uniform_homogeneous(once, members).tolist() == once.tolist()


@settings(max_examples=50, deadline=None)
@given(groups(7, 40))
def test_the_input_stays_as_it_was_and_the_answer_is_always_the_same(
    group: tuple[list[int], int],
) -> None:
    before, members = group
    owner = vector(before)
    first, second = uniform_homogeneous(owner, members), uniform_homogeneous(owner, members)
    assert owner.tolist() == before
    assert first.tolist() == second.tolist()
    assert first.dtype == np.int32


def test_the_partitions_of_a_topic_go_round_the_members() -> None:
    assert uniform_homogeneous(vector([-1] * 8), 3).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]


def test_a_member_that_joins_takes_the_last_partitions_of_the_others() -> None:
    assert uniform_homogeneous(vector([0, 1, 0, 1, 0, 1]), 3).tolist() == [0, 1, 0, 1, 2, 2]


def test_the_larger_shares_stay_with_those_who_have_them() -> None:
    assert uniform_homogeneous(vector([2, 2, 1, 0, -1]), 3).tolist() == [2, 2, 1, 0, 0]


def test_without_members_nobody_owns_anything() -> None:
    assert uniform_homogeneous(vector([-1, -1]), 0).tolist() == [-1, -1]


def test_without_partitions_there_is_nothing_to_own() -> None:
    assert uniform_homogeneous(vector([]), 3).tolist() == []


@pytest.mark.parametrize("members", [1_000, 70_000])  # below and above what 16 bits can number
def test_a_large_group_that_doubles_moves_half(members: int) -> None:
    before = np.random.default_rng(1).permutation(np.arange(4 * members, dtype=np.int32) % members)
    after = uniform_homogeneous(before, 2 * members)
    assert np.bincount(after, minlength=2 * members).tolist() == [2] * (2 * members)
    assert (after != before).sum() == 2 * members


@pytest.mark.parametrize(
    ("owner", "says"),
    [([0, 3], "partition 1 is owned by member 3"), ([-2], "partition 0 is owned by member -2")],
)
def test_an_owner_that_is_no_member_is_refused(owner: list[int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        uniform_homogeneous(vector(owner), 3)
