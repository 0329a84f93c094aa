"""`uniform` for different subscriptions: min-max fair and fewest moves.

Two independent judges in plain Python. `best` knows every assignment of a small group, by counts:
what it finds is the truth. `improving_chain` and `cheaper_cycle` judge an assignment of any size by
itself: it is fair when no chain of hand-overs leads from a member to one with at least two less,
and its moves are the fewest when no closed round of hand-overs that keeps the loads (as a multiset)
takes back more moves than it makes.
"""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.heterogeneous import uniform_heterogeneous
from apportion.assign.subscriptions import Subscriptions


def assigned(before: list[int], sizes: list[int], wants: list[list[int]]) -> list[int]:
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    result: list[int] = uniform_heterogeneous(
        np.array(before, np.int32), starts, Subscriptions.of(wants)
    ).tolist()
    return result


def topic_of_each(sizes: list[int]) -> list[int]:
    return [topic for topic, size in enumerate(sizes) for _ in range(size)]


def loads_of(owner: list[int], members: int) -> list[int]:
    return [owner.count(member) for member in range(members)]


def moves_of(before: list[int], after: list[int], sizes: list[int], wants: list[list[int]]) -> int:
    """How many partitions were taken from a member that still wants them."""
    return sum(
        was != -1 and topic in wants[was] and was != now
        for was, now, topic in zip(before, after, topic_of_each(sizes), strict=True)
    )


def moves_by_counts(
    before: list[int], after: list[int], sizes: list[int], wants: list[list[int]]
) -> int:
    """How many moves `after` would cost if each member kept as many as it can of the very
    partitions it has.
    """
    parts = [slice(sum(sizes[:topic]), sum(sizes[: topic + 1])) for topic in range(len(sizes))]
    return sum(
        max(0, before[parts[topic]].count(member) - after[parts[topic]].count(member))
        for member, topics in enumerate(wants)
        for topic in topics
    )


def check_complete_and_valid(after: list[int], sizes: list[int], wants: list[list[int]]) -> None:
    wanted = {topic for topics in wants for topic in topics}
    for owner, topic in zip(after, topic_of_each(sizes), strict=True):
        assert (
            (owner in range(len(wants)) and topic in wants[owner])
            if topic in wanted
            else owner == -1
        )


def splits(amount: int, ways: int) -> Iterator[tuple[int, ...]]:
    """Every way to split so many partitions among so many members."""
    if ways == 1:
        yield (amount,)
        return
    for first in range(amount + 1):
        yield from ((first, *rest) for rest in splits(amount - first, ways - 1))


def best(before: list[int], sizes: list[int], wants: list[list[int]]) -> tuple[list[int], int]:
    """(loads, largest first; moves) of the fairest assignment with the fewest moves, found among
    all that there are.
    """
    fewest = {(0,) * len(wants): 0}  # loads -> fewest moves, over the topics so far
    for topic, size in enumerate(sizes):
        subscribers = [member for member in range(len(wants)) if topic in wants[member]]
        if not subscribers:
            continue
        owners = before[sum(sizes[:topic]) : sum(sizes[: topic + 1])]
        grown: dict[tuple[int, ...], int] = {}
        for loads, moves in fewest.items():
            for split in splits(size, len(subscribers)):
                more, cost = list(loads), moves
                for member, share in zip(subscribers, split, strict=True):
                    more[member] += share
                    cost += max(0, owners.count(member) - share)
                grown[tuple(more)] = min(cost, grown.get(tuple(more), cost))
        fewest = grown
    return min((sorted(loads, reverse=True), moves) for loads, moves in fewest.items())


def improving_chain(
    after: list[int], sizes: list[int], wants: list[list[int]]
) -> tuple[int, int] | None:
    """(from, to): members between whom a chain of hand-overs would make the loads fairer; None
    where there is none.
    """
    loads = loads_of(after, len(wants))
    owned: list[set[int]] = [set() for _ in wants]
    for owner, topic in zip(after, topic_of_each(sizes), strict=True):
        if owner != -1:
            owned[owner].add(topic)
    subscribers = [
        [member for member in range(len(wants)) if topic in wants[member]]
        for topic in range(len(sizes))
    ]
    for start in range(len(wants)):
        seen, edge = {start}, [start]
        while edge:
            for topic in owned[edge.pop()]:
                for member in subscribers[topic]:
                    if member not in seen:
                        if loads[member] <= loads[start] - 2:
                            return start, member
                        seen.add(member)
                        edge.append(member)
    return None


def cheaper_cycle(
    before: list[int], after: list[int], sizes: list[int], wants: list[list[int]]
) -> bool:
    """True where hand-overs in a round, or between two loads that differ by one, would undo more
    moves than they make.
    """
    loads = loads_of(after, len(wants))
    # (from, to, cost): members are ("m", i), topics ("t", j), ("l", n) lets a load n + 1 trade
    # places with a load n
    arcs = []
    for member, topics in enumerate(wants):
        for topic in topics:
            part = slice(sum(sizes[:topic]), sum(sizes[: topic + 1]))
            held, granted = before[part].count(member), after[part].count(member)
            arcs.append((("t", topic), ("m", member), 0 if granted < held else 1))
            if granted:
                arcs.append((("m", member), ("t", topic), -1 if granted > held else 0))
        arcs += [
            (("m", member), ("l", loads[member]), 0),
            (("l", loads[member] - 1), ("m", member), 0),
        ]
    distance = {node: 0 for start, end, _ in arcs for node in (start, end)}
    for _ in range(len(distance)):
        changed = False
        for start, end, cost in arcs:
            if distance[start] + cost < distance[end]:
                distance[end], changed = distance[start] + cost, True
        if not changed:
            return False
    return True


@st.composite
def small_groups(draw: st.DrawFn) -> tuple[list[int], list[int], list[list[int]]]:
    """(owner of each partition, sizes of the topics, topics of each member); owners may not want
    what they own.
    """
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    topics = st.lists(st.integers(0, len(sizes) - 1), unique=True, max_size=len(sizes))
    wants = draw(st.lists(topics, min_size=1, max_size=4))
    owner = st.one_of(st.integers(-1, len(wants) - 1), st.sampled_from([-1, 0]))
    return draw(st.lists(owner, min_size=sum(sizes), max_size=sum(sizes))), sizes, wants


@settings(max_examples=400, deadline=None)
@given(small_groups())
def test_no_assignment_is_fairer_and_none_as_fair_moves_fewer(
    group: tuple[list[int], list[int], list[list[int]]],
) -> None:
    before, sizes, wants = group
    after = assigned(before, sizes, wants)
    check_complete_and_valid(after, sizes, wants)
    loads = sorted(loads_of(after, len(wants)), reverse=True)
    assert (loads, moves_of(before, after, sizes, wants)) == best(before, sizes, wants)


@settings(max_examples=150, deadline=None)
@given(small_groups())
def test_the_judges_of_large_groups_agree_with_the_judge_of_small_ones(
    group: tuple[list[int], list[int], list[list[int]]],
) -> None:
    before, sizes, wants = group
    before = [
        owner
        if owner != -1 and topic in wants[owner]
        else next((m for m, w in enumerate(wants) if topic in w), -1)
        for owner, topic in zip(before, topic_of_each(sizes), strict=True)
    ]  # complete, often unfair: a verdict of both kinds of judges on it
    fairest, _ = best(before, sizes, wants)
    is_fair = sorted(loads_of(before, len(wants)), reverse=True) == fairest
    assert (improving_chain(before, sizes, wants) is None) == is_fair
    after = assigned(before, sizes, wants)
    assert not cheaper_cycle(before, after, sizes, wants)
    once_more = assigned([-1] * len(before), sizes, wants)  # as fair, but blind to who owned what
    assert cheaper_cycle(before, once_more, sizes, wants) == (
        moves_by_counts(before, once_more, sizes, wants) > moves_of(before, after, sizes, wants)
    )


@settings(max_examples=150, deadline=None)
@given(small_groups())
def test_nothing_moves_when_nothing_changed(
    group: tuple[list[int], list[int], list[list[int]]],
) -> None:
    before, sizes, wants = group
    once = assigned(before, sizes, wants)
    assert assigned(once, sizes, wants) == once


@settings(max_examples=100, deadline=None)
@given(small_groups(), st.randoms(use_true_random=False))
def test_the_order_of_a_members_topics_does_not_matter(
    group: tuple[list[int], list[int], list[list[int]]], random: Random
) -> None:
    before, sizes, wants = group
    assert assigned(
        before, sizes, [random.sample(topics, len(topics)) for topics in wants]
    ) == assigned(before, sizes, wants)


def large_group(seed: int) -> tuple[Random, list[int], list[list[int]], list[int]]:
    """Sixty members of three to six of thirty topics, whose sizes fall like 1/n; first assigned
    from nothing.
    """
    random = Random(seed)
    sizes = [max(1, 200 // (topic + 1)) for topic in range(30)]
    wants = [sorted(random.sample(range(30), random.randint(3, 6))) for _ in range(60)]
    return random, sizes, wants, assigned([-1] * sum(sizes), sizes, wants)


@pytest.mark.parametrize("seed", range(4))
def test_a_large_group_stays_fair_with_the_fewest_moves_through_joins_and_leaves(seed: int) -> None:
    random, sizes, wants, owner = large_group(seed)
    assert improving_chain(owner, sizes, wants) is None
    for change in ("join", "leave", "leave six", "another topic", "nothing"):
        before, wants = owner, list(wants)
        if change == "join":
            wants.append(sorted(random.sample(range(30), 4)))
        elif change == "another topic":
            wants[7] = sorted(random.sample(range(30), 5))
        elif change != "nothing":
            gone = random.sample(range(len(wants)), 1 if change == "leave" else 6)
            stay = [member for member in range(len(wants)) if member not in gone]
            before = [stay.index(member) if member in stay else -1 for member in owner]
            wants = [wants[member] for member in stay]
        owner = assigned(before, sizes, wants)
        check_complete_and_valid(owner, sizes, wants)
        assert improving_chain(owner, sizes, wants) is None, change
        assert not cheaper_cycle(before, owner, sizes, wants), change
    assert owner == before  # the last change was none


def test_a_member_of_a_crowded_topic_makes_room_on_the_other() -> None:
    # 0 alone wants topic 0; 1 wants both; so topic 1 goes to 1 and topic 0 mostly to 0.
    assert assigned([-1] * 6, [3, 3], [[0], [0, 1]]) == [0, 0, 0, 1, 1, 1]


def test_a_hand_over_goes_through_a_third_member() -> None:
    # 2 joins and wants topic 1 alone; 1 gives it partitions, and takes some from 0, who shares no
    # topic with 2.
    before = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    after = assigned(before, [6, 6], [[0], [0, 1], [1]])
    assert after == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_a_new_topic_is_spread_over_its_subscribers() -> None:
    after = assigned([-1] * 12, [6, 6], [[0, 1], [0, 1], [0, 1], [1]])
    assert [loads_of(after[:6], 4), loads_of(after[6:], 4)] == [[2, 2, 2, 0], [1, 1, 1, 3]]


def test_a_topic_that_nobody_wants_stays_without_owner() -> None:
    assert assigned([0, 0, 0], [2, 1], [[1], []]) == [-1, -1, 0]


def test_without_members_nobody_owns_anything() -> None:
    assert assigned([-1, -1], [2], []) == [-1, -1]


def test_a_long_chain_of_members_ends() -> None:
    # each shares a topic with the next; one partition too many at one end has to go all the way
    members = 200
    sizes = [1] * members
    wants = [
        [member, member + 1] if member + 1 < members else [member] for member in range(members)
    ]
    before = [0, 0, *range(1, members - 1)]
    after = assigned(before, sizes, wants)
    assert after == list(range(members))
    assert moves_of(before, after, sizes, wants) == members - 1
