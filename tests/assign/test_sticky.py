"""`sticky` is fair and moves the fewest; `cooperative-sticky` waits until what moves is free."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.assignors import uniform
from apportion.assign.claims import OwnershipClaims, resolve_claims
from apportion.assign.sticky import cooperative_sticky, sticky
from apportion.assign.subscriptions import Subscriptions


def vectors(
    owned_by_member: list[tuple[int, list[int]]], sizes: list[int], wants: list[list[int]]
) -> tuple[OwnershipClaims, npt.NDArray[Any], Subscriptions]:
    """(claims, starts, subscriptions). owned_by_member: generation and partitions of each."""
    ends = np.cumsum([0, *(len(partitions) for _, partitions in owned_by_member)]).astype(np.int32)
    claimed = np.array(
        [partition for _, partitions in owned_by_member for partition in partitions], np.int32
    )
    claims = OwnershipClaims(
        ends, claimed, np.array([generation for generation, _ in owned_by_member], np.int32)
    )
    return claims, np.cumsum([0, *sizes]).astype(np.int32), Subscriptions.of(wants)


def counts(owner: npt.NDArray[Any], starts: npt.NDArray[Any]) -> list[list[int]]:
    """How many partitions of each topic each member has."""
    return [
        sorted(owner[starts[topic] : starts[topic + 1]].tolist())
        for topic in range(len(starts) - 1)
    ]


def topics_of(starts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[tuple[int, list[int]]], list[int], list[list[int]]]:
    """(claims of each member, sizes of the topics, topics of each member)."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    topics = st.lists(st.integers(0, len(sizes) - 1), unique=True)
    members = draw(st.integers(0, 4))
    same = draw(st.booleans())
    wants = [draw(topics)] * members if same else [draw(topics) for _ in range(members)]
    partitions = st.lists(st.integers(0, sum(sizes) - 1), max_size=6) if sum(sizes) else st.just([])
    owned_by_member = [(draw(st.integers(-1, 3)), draw(partitions)) for _ in range(members)]
    return owned_by_member, sizes, wants


@settings(max_examples=300, deadline=None)
@given(groups())
def test_sticky_has_the_shares_of_uniform_and_what_moves_goes_home_where_it_can(
    group: tuple[list[tuple[int, list[int]]], list[int], list[list[int]]],
) -> None:
    claims, starts, subscriptions = vectors(*group)
    held = resolve_claims(claims, int(starts[-1]))
    fair = uniform(held.owner, starts, subscriptions)
    owner = sticky(claims, starts, subscriptions)
    assert counts(owner, starts) == counts(fair, starts)
    moved = fair != held.owner
    assert (owner[~moved] == held.owner[~moved]).all()
    former, fairly_owned = (
        list(zip(topics_of(starts)[moved], side[moved], strict=True))
        for side in (held.former_owner, fair)
    )
    assert (moved & (owner == held.former_owner) & (owner >= 0)).sum() == sum(
        min(former.count(pair), fairly_owned.count(pair))
        for pair in dict.fromkeys(former)
        if pair[1] >= 0
    )


@settings(max_examples=300, deadline=None)
@given(groups())
def test_cooperative_sticky_is_sticky_without_what_is_not_free_yet(
    group: tuple[list[tuple[int, list[int]]], list[int], list[list[int]]],
) -> None:
    claims, starts, subscriptions = vectors(*group)
    held = resolve_claims(claims, int(starts[-1]))
    owner = sticky(claims, starts, subscriptions)
    given = cooperative_sticky(claims, starts, subscriptions)
    waits = held.is_claimed & (owner != held.owner)
    assert given.tolist() == np.where(waits, -1, owner).tolist()


@settings(max_examples=200, deadline=None)
@given(groups())
def test_cooperative_sticky_is_complete_and_fair_after_two_rounds_and_then_rests(
    group: tuple[list[tuple[int, list[int]]], list[int], list[list[int]]],
) -> None:
    claims, starts, subscriptions = vectors(*group)
    members = len(group[2])
    history = [cooperative_sticky(claims, starts, subscriptions)]
    for generation in (5, 6, 7):
        had = [
            (generation, np.flatnonzero(history[-1] == member).tolist())
            for member in range(members)
        ]
        history.append(
            cooperative_sticky(vectors(had, group[1], group[2])[0], starts, subscriptions)
        )
    settled_down = history[1]
    assert [later.tolist() for later in history[2:]] == [settled_down.tolist()] * 2
    wanted = np.bincount(subscriptions.topics, minlength=len(group[1])) > 0
    assert ((settled_down >= 0) == np.repeat(wanted, group[1])).all()
    loads = np.bincount(settled_down[settled_down >= 0], minlength=members)
    fresh = uniform(np.full(int(starts[-1]), -1, np.int32), starts, subscriptions)
    assert sorted(loads) == sorted(np.bincount(fresh[fresh >= 0], minlength=members))


def test_partitions_given_up_go_back_to_their_former_owner() -> None:
    claims, starts, subscriptions = vectors([(5, [0, 1, 2, 3]), (4, []), (4, [3])], [4], [[0]] * 3)
    assert sticky(claims, starts, subscriptions).tolist() == [0, 0, 1, 2]
    claims = vectors([(5, [0, 1, 2, 3]), (4, [3]), (4, [])], [4], [[0]] * 3)[0]
    assert sticky(claims, starts, subscriptions).tolist() == [0, 0, 2, 1]
    assert cooperative_sticky(claims, starts, subscriptions).tolist() == [0, 0, -1, -1]


def test_partitions_return_to_their_former_owner_topic_by_topic() -> None:
    ours = [(5, list(range(8))), (4, [3, 6]), (3, [2, 7])]
    claims, starts, subscriptions = vectors(ours, [4, 4], [[0, 1]] * 3)
    held = resolve_claims(claims, 8)
    assert uniform(held.owner, starts, subscriptions).tolist() == [0, 0, 0, 1, 2, 1, 2, 1]
    assert sticky(claims, starts, subscriptions).tolist() == [0, 0, 0, 1, 1, 2, 1, 2]
    claims, starts, subscriptions = vectors(
        [(3, [2]), (5, [0, 1, 2]), (2, [1])], [2, 1], [[0, 1]] * 3
    )
    assert uniform(resolve_claims(claims, 3).owner, starts, subscriptions).tolist() == [1, 0, 2]
    # no partition of one topic stands in for one of the other
    assert sticky(claims, starts, subscriptions).tolist() == [1, 0, 2]


def test_a_former_owner_gets_back_only_what_it_has_room_for() -> None:
    claims, starts, subscriptions = vectors(
        [(5, [0, 1, 2, 3, 4, 5]), (4, [2, 3, 4, 5]), (4, [])], [6], [[0]] * 3
    )
    assert sticky(claims, starts, subscriptions).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("wants", [[[0]] * 2, [[0], []]], ids=["equal", "general"])
def test_a_partition_claimed_twice_in_one_generation_is_withheld(
    wants: list[list[int]],
) -> None:
    claims, starts, subscriptions = vectors([(4, [0, 1]), (4, [1])], [3], wants)
    assert sticky(claims, starts, subscriptions).tolist() == [0, 0, 0 if wants[1] == [] else 1]
    assert cooperative_sticky(claims, starts, subscriptions).tolist() == [
        0,
        -1,
        0 if wants[1] == [] else 1,
    ]


def test_a_claim_to_a_topic_no_longer_wanted_holds_the_partition_back_once() -> None:
    claims, starts, subscriptions = vectors([(4, [0]), (4, [1])], [2, 1], [[0], [1]])
    assert sticky(claims, starts, subscriptions).tolist() == [0, 0, 1]
    assert cooperative_sticky(claims, starts, subscriptions).tolist() == [0, -1, 1]
