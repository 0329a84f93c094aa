"""The assignor by weight: a small largest share, few moves, and nothing without a reason."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.assign.subscriptions import Subscriptions, Vector
from apportion.assign.weighted import is_worth_it, weighted

Group = tuple[list[int], list[int], Subscriptions, list[int]]


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False, most: int = 12) -> Group:
    """Owners, starts, subscriptions and weights; alike: all members subscribe to all topics."""
    sizes = draw(st.lists(st.integers(0, most // 3), min_size=1, max_size=3))
    starts = np.concatenate(([0], np.cumsum(sizes))).tolist()
    members, topics = draw(st.integers(0 if not alike else 1, 4)), range(len(sizes))
    chosen = [
        list(topics) if alike else draw(st.lists(st.sampled_from(topics), unique=True))
        for _ in range(members)
    ]
    count = starts[-1]
    owner = draw(st.lists(st.integers(-1, members - 1), min_size=count, max_size=count))
    weights = draw(st.lists(st.integers(0, 60), min_size=count, max_size=count))
    return owner, starts, Subscriptions.of(chosen), weights


def assign(group: Group) -> list[int]:
    owner, starts, subscriptions, weights = group
    result: list[int] = weighted(vector(owner), vector(starts), subscriptions, weights).tolist()
    return result


def vector(numbers: Sequence[int]) -> Vector:
    return np.array(numbers, np.int32)


def largest(owner: Sequence[int], weights: Sequence[int]) -> int:
    shares: dict[int, int] = {}
    for member, weight in zip(owner, weights, strict=True):
        shares[member] = shares.get(member, 0) + (weight if member >= 0 else 0)
    return max(shares.values(), default=0)


def subscribers(group: Group, partition: int) -> list[int]:
    """The members that may own the partition."""
    _, starts, subscriptions, _ = group
    topic = int(np.searchsorted(starts, partition, side="right")) - 1
    bounds = subscriptions.member_starts.tolist()
    return [
        member
        for member in range(subscriptions.members)
        if topic in subscriptions.topics[bounds[member] : bounds[member + 1]].tolist()
    ]


@given(groups())
def test_each_partition_goes_to_a_subscriber_if_there_is_one(group: Group) -> None:
    for partition, member in enumerate(assign(group)):
        may = subscribers(group, partition)
        assert member in may if may else member == -1


@given(groups())
def test_nothing_moves_when_nothing_changed(group: Group) -> None:
    _, starts, subscriptions, weights = group
    once = assign(group)
    assert assign((once, starts, subscriptions, weights)) == once


@given(groups())
def test_no_single_move_is_worth_it_any_more(group: Group) -> None:
    weights = group[3]
    after = assign(group)
    before = largest(after, weights)
    shares = dict.fromkeys(range(group[2].members), 0)
    for partition, member in enumerate(after):
        if member >= 0:
            shares[member] += weights[partition]
    for partition, member in enumerate(after):
        if member < 0 or shares[member] < before:
            continue
        for other in subscribers(group, partition):
            taken = shares[other] + weights[partition]
            rest = before - weights[partition]
            assert other == member or not is_worth_it(before, max(rest, taken))


@given(groups(alike=True, most=6))
def test_the_largest_share_is_near_the_smallest_possible(group: Group) -> None:
    _, _, subscriptions, weights = group
    members = subscriptions.members
    best = min(largest(owner, weights) for owner in product(range(members), repeat=len(weights)))
    # LPT is at 4/3 - 1/3m of it at the most, and what is kept at a ninth above that.
    assert 27 * members * largest(assign(group), weights) <= 10 * (4 * members - 1) * best


@given(groups())
def test_the_largest_share_is_not_above_that_without_moves(group: Group) -> None:
    owner, _, _, weights = group
    after = assign(group)
    kept = [
        member if member in subscribers(group, partition) else -1
        for partition, member in enumerate(owner)
    ]
    if -1 not in kept:
        assert largest(after, weights) <= largest(kept, weights)


@pytest.mark.parametrize(
    ("owner", "weights", "after"),
    [
        # a second member joins: the heaviest moves, and makes both shares equal
        ([0, 0, 0, 0], [6, 2, 2, 2], [1, 0, 0, 0]),
        # 6.2 and 5.8: a move would not be worth it
        ([1, 0, 0, 0], [58, 20, 20, 22], [1, 0, 0, 0]),
        # a partition without an owner goes to the smaller share
        ([0, 1, -1], [5, 4, 3], [0, 1, 1]),
        # equal weights are numbers of partitions
        ([0, 0, 0, 0, 0, 0], [1] * 6, [1, 1, 1, 0, 0, 0]),
        # single moves do not help; all are dealt out anew, and the names fit what was owned
        ([0, 0, 1, 1, 1], [5, 5, 4, 1, 1], [0, 1, 0, 1, 1]),
    ],
)
def test_an_assignment_by_weight_is_as_written(
    owner: list[int], weights: list[int], after: list[int]
) -> None:
    subscriptions = Subscriptions.of([[0], [0]])
    assert assign((owner, [0, len(owner)], subscriptions, weights)) == after
