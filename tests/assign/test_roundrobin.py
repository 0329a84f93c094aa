"""`roundrobin` is Kafka's circle."""

from itertools import cycle

import pytest
from hypothesis import given, settings

from apportion.assign.roundrobin import roundrobin_assignment
from tests.assign.groups import assigned, groups


def kafkas_rule(sizes: list[int], wants: list[list[int]]) -> list[int]:
    owner = []
    circle = cycle(range(len(wants)))
    for topic, size in enumerate(sizes):
        wanted = any(topic in topics for topics in wants)
        owner += [
            next(member for member in circle if topic in wants[member]) if wanted else -1
            for _ in range(size)
        ]
    return owner


@settings(max_examples=300, deadline=None)
@given(groups())
def test_roundrobin_is_kafkas_rule(group: tuple[list[int], list[list[int]]]) -> None:
    assert assigned(roundrobin_assignment, *group) == kafkas_rule(*group)


def test_a_topic_goes_on_where_the_one_before_it_ended() -> None:
    assert assigned(roundrobin_assignment, [3, 3], [[0, 1], [0, 1]]) == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("topic", [-1, 2])
def test_an_unknown_topic_is_refused(topic: int) -> None:
    with pytest.raises(ValueError, match=f"subscribes to topic {topic}, but there are 2 topics"):
        assigned(roundrobin_assignment, [1, 1], [[0], [topic]])
