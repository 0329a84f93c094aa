"""`range` by racks: the sizes of the plain rule, near to members where these allow it. That it is
Kafka's rule: tests/kafka.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.racks import Racks, range_by_rack
from apportion.assign.range import range_assignment
from apportion.assign.subscriptions import Subscriptions


def assigned(
    sizes: list[int], wants: list[list[int]], members: list[int], replicas: list[list[int]]
) -> list[int]:
    """members: the rack of each. replicas: the racks of each partition."""
    matches = np.zeros((len(replicas), 4), np.bool_)
    for partition, racks in enumerate(replicas):
        matches[partition, racks] = True
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    result: list[int] = range_by_rack(
        starts, Subscriptions.of(wants), Racks(np.array(members, np.int32), matches)
    ).tolist()
    return result


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[int], list[list[int]]]:
    sizes = draw(st.lists(st.sampled_from([0, 1, 4, 4, 7]), min_size=1, max_size=4))
    topics = st.lists(st.integers(0, len(sizes) - 1), unique=True)
    wants = draw(
        st.lists(st.one_of(st.just(list(range(len(sizes)))), topics), min_size=1, max_size=5)
    )
    racks = st.lists(st.integers(0, 3), unique=True, max_size=3)
    members = draw(st.lists(st.integers(-1, 3), min_size=len(wants), max_size=len(wants)))
    return sizes, wants, members, draw(st.lists(racks, min_size=sum(sizes), max_size=sum(sizes)))


def by_topic(sizes: list[int], owner: list[int]) -> list[list[int]]:
    return [owner[sum(sizes[:topic]) : sum(sizes[: topic + 1])] for topic in range(len(sizes))]


@settings(max_examples=300, deadline=None)
@given(groups())
def test_everything_is_given_to_who_wants_it_in_the_sizes_of_the_plain_rule(
    group: tuple[list[int], list[list[int]], list[int], list[list[int]]],
) -> None:
    sizes, wants, *_ = group
    plain = range_assignment(
        np.cumsum([0, *sizes]).astype(np.int32), Subscriptions.of(wants)
    ).tolist()
    for topic, (near, far) in enumerate(
        zip(by_topic(sizes, assigned(*group)), by_topic(sizes, plain), strict=True)
    ):
        assert sorted(near.count(member) for member in range(len(wants))) == sorted(
            far.count(member) for member in range(len(wants))
        )
        assert near.count(-1) == far.count(-1)
        assert all(member == -1 or topic in wants[member] for member in near)


@settings(max_examples=200, deadline=None)
@given(groups())
def test_topics_alike_are_cut_alike(
    group: tuple[list[int], list[list[int]], list[int], list[list[int]]],
) -> None:
    sizes, wants, *_ = group
    shares = by_topic(sizes, assigned(*group))
    seen: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for topic, share in enumerate(shares):
        theirs = tuple(member for member, topics in enumerate(wants) if topic in topics)
        assert seen.setdefault((sizes[topic], theirs), share) == share


def test_members_get_what_is_near_them() -> None:
    assert assigned([4], [[0], [0]], [1, 0], [[0], [1], [0], [1]]) == [1, 0, 1, 0]


def test_partitions_near_no_member_with_room_are_assigned_in_order() -> None:
    assert assigned([4], [[0], [0]], [0, 1], [[0], [0], [0], [2]]) == [0, 0, 1, 1]


def test_topics_that_belong_together_are_near_together_or_not_at_all() -> None:
    replicas = [[0], [1], [0], [1]]
    assert assigned([2, 2], [[0, 1], [0, 1]], [1, 0], replicas) == [1, 0] * 2
    assert assigned([2, 2], [[0, 1], [0, 1]], [1, 0], [[0], [1], [1], [0]]) == [0, 1] * 2


def test_where_every_partition_is_everywhere_racks_change_nothing() -> None:
    assert assigned([4], [[0], [0]], [1, 0], [[0, 1]] * 4) == [0, 0, 1, 1]
    assert assigned([4], [[0], [0]], [1, 0], [[0]] * 4) == [0, 0, 1, 1]


def test_a_member_without_a_rack_takes_what_comes() -> None:
    assert assigned([3], [[0], [0], [0]], [-1, 0, 1], [[0], [0], [1]]) == [0, 1, 2]
    assert assigned([3], [[0], [0], [0]], [-1, 1, 0], [[1], [1], [0]]) == [0, 1, 2]
