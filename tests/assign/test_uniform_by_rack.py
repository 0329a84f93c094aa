"""`uniform` by racks: the shares that it has without them, and as many partitions near their
members as any assignment of these shares has, against brute force.
"""

from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.assignors import ASSIGNORS
from apportion.assign.racks import Racks, racks_of, range_by_rack
from apportion.assign.subscriptions import Subscriptions
from apportion.assign.uniform_by_rack import largest_flow

Group = tuple[list[int], list[int], list[list[int]], list[int], list[list[int]]]
"""Sizes of topics, owners now, topics of each member, racks of members, racks of partitions."""


def vectors(group: Group) -> tuple[Any, Any, Subscriptions, Racks]:
    sizes, owner, wants, members, replicas = group
    matches = np.zeros((len(replicas), 4), np.bool_)
    for partition, racks in enumerate(replicas):
        matches[partition, racks] = True
    return (
        np.array(owner, np.int32),
        np.cumsum([0, *sizes]).astype(np.int32),
        Subscriptions.of(wants),
        Racks(np.array(members, np.int32), matches),
    )


def by_rack(group: Group) -> list[int]:
    result: list[int] = ASSIGNORS["uniform"](*vectors(group)).tolist()
    return result


def without_racks(group: Group) -> list[int]:
    owner, starts, subscriptions, _ = vectors(group)
    result: list[int] = ASSIGNORS["uniform"](owner, starts, subscriptions).tolist()
    return result


def near(group: Group, owner: list[int]) -> int:
    """How many partitions are near their owners; a member without a rack is near to all."""
    _, _, _, members, replicas = group
    return sum(
        members[member] == -1 or members[member] in racks
        for member, racks in zip(owner, replicas, strict=True)
        if member >= 0
    )


@st.composite
def groups(draw: st.DrawFn, sizes: st.SearchStrategy[list[int]], *, alike: bool) -> Group:
    counts = draw(sizes)
    everything = list(range(len(counts)))
    topics = st.lists(st.sampled_from(everything), unique=True) if counts else st.just([])
    want = st.just(everything) if alike else st.one_of(st.just(everything), topics)
    wants = draw(st.lists(want, min_size=1, max_size=4))
    owner = st.integers(-1, len(wants) - 1)
    racks = st.lists(st.integers(0, 3), unique=True, max_size=2)
    partitions = sum(counts)
    return (
        counts,
        draw(st.lists(owner, min_size=partitions, max_size=partitions)),
        wants,
        draw(st.lists(st.integers(-1, 3), min_size=len(wants), max_size=len(wants))),
        draw(st.lists(racks, min_size=partitions, max_size=partitions)),
    )


SMALL = st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(lambda sizes: sum(sizes) <= 6)
LARGER = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(groups(LARGER, alike=False))
def test_everybody_has_the_load_that_it_has_without_racks(group: Group) -> None:
    sizes, _, wants, *_ = group
    plain, after = without_racks(group), by_rack(group)
    assert [after.count(each) for each in range(len(wants))] == [
        plain.count(each) for each in range(len(wants))
    ]
    topics = np.repeat(np.arange(len(sizes)), sizes).tolist()
    assert all(
        member == -1 or topic in wants[member] for topic, member in zip(topics, after, strict=True)
    )
    assert after.count(-1) == plain.count(-1)
    assert near(group, after) >= near(group, plain)


@settings(max_examples=100, deadline=None)
@given(groups(SMALL, alike=True))
def test_no_assignment_with_these_shares_has_more_partitions_near(group: Group) -> None:
    shares = set(permutations(without_racks(group)))
    assert near(group, by_rack(group)) == max(near(group, list(each)) for each in shares)


@settings(max_examples=300, deadline=None)
@given(groups(LARGER, alike=False))
def test_nothing_moves_when_nothing_has_changed(group: Group) -> None:
    sizes, _, wants, members, replicas = group
    once = by_rack(group)
    assert by_rack((sizes, once, wants, members, replicas)) == once


@settings(max_examples=200, deadline=None)
@given(groups(LARGER, alike=False), st.sampled_from(["members", "one rack", "replicas"]))
def test_racks_that_make_no_difference_change_nothing(group: Group, why: str) -> None:
    sizes, owner, wants, members, replicas = group
    if why == "replicas":
        replicas = [[1, 2]] * len(replicas)
    else:
        members = [-1 if why == "members" else 2] * len(members)
    same: Group = sizes, owner, wants, members, replicas
    assert by_rack(same) == without_racks(same)


def test_members_exchange_what_is_far_from_them() -> None:
    replicas = [[0], [0], [1], [1]]
    assert by_rack(([4], [0, 1, 0, 1], [[0], [0]], [1, 0], replicas)) == [1, 1, 0, 0]


def test_partitions_of_topics_with_the_same_subscribers_are_exchanged() -> None:
    replicas = [[0], [1], [0], [1]]
    wants = [[0, 1, 2, 3]] * 2
    assert by_rack(([1, 1, 1, 1], [0, 0, 1, 1], wants, [0, 1], replicas)) == [0, 1, 0, 1]


def test_a_partition_that_is_near_nobody_stays_where_it_is() -> None:
    assert by_rack(([4], [0, 1, 1, 0], [[0], [0]], [0, 1], [[0], [3], [1], [3]])) == [0, 1, 1, 0]


def test_range_takes_racks_as_in_classic_groups() -> None:
    group: Group = ([4], [-1] * 4, [[0], [0]], [1, 0], [[0], [1], [0], [1]])
    owner, starts, subscriptions, racks = vectors(group)
    answer = ASSIGNORS["range"](owner, starts, subscriptions, racks).tolist()
    assert answer == range_by_rack(starts, subscriptions, racks).tolist() == [1, 0, 1, 0]
    assert ASSIGNORS["range"](owner, starts, subscriptions).tolist() == [0, 0, 1, 1]


def test_racks_have_numbers_and_those_without_a_replica_share_one() -> None:
    racks = racks_of(["b", None, "nowhere", "", "elsewhere"], [(2, ["a", "b"]), (0, ["b"])], 3)
    assert racks.members.tolist() == [1, -1, 2, -1, 2]
    assert racks.replicas.tolist() == [[False, True, False], [False] * 3, [True, True, False]]


@pytest.mark.parametrize(
    ("near_racks", "supply", "demand", "begun", "total"),
    [
        ([[True, False], [True, True]], [2, 2], [2, 2], [[0, 0], [2, 0]], 4),
        ([[False, False]], [3], [1, 2], [[0, 0]], 0),
        ([[True, True, False]], [3], [1, 1, 5], [[0, 1, 0]], 2),
    ],
)
def test_a_flow_is_augmented_to_a_largest_one(
    near_racks: list[list[bool]],
    supply: list[int],
    demand: list[int],
    begun: list[list[int]],
    total: int,
) -> None:
    flow: npt.NDArray[np.int64] = largest_flow(
        np.array(near_racks), np.array(supply), np.array(demand), np.array(begun)
    )
    assert flow.sum() == total
    assert (flow.sum(axis=1) <= supply).all()
    assert (flow.sum(axis=0) <= demand).all()
    assert not flow[~np.array(near_racks)].any()
