"""`range` is Kafka's rule exactly."""

import numpy as np
import pytest
from hypothesis import given, settings

from apportion.assign.range import range_assignment
from apportion.assign.subscriptions import Subscriptions
from tests.assign.groups import assigned, groups


def kafkas_rule(sizes: list[int], wants: list[list[int]]) -> list[int]:
    owner = []
    for topic, size in enumerate(sizes):
        members = [member for member, topics in enumerate(wants) if topic in topics]
        for index, member in enumerate(members):
            owner += [member] * (size // len(members) + (index < size % len(members)))
        owner += [] if members else [-1] * size
    return owner


@settings(max_examples=300, deadline=None)
@given(groups())
def test_range_is_kafkas_rule(group: tuple[list[int], list[list[int]]]) -> None:
    assert assigned(range_assignment, *group) == kafkas_rule(*group)


def test_topics_with_the_same_subscribers_are_cut_alike() -> None:
    assert assigned(range_assignment, [7, 7], [[0, 1], [1, 0], [0, 1]]) == [0, 0, 0, 1, 1, 2, 2] * 2


def test_the_last_of_more_members_than_partitions_get_nothing() -> None:
    assert assigned(range_assignment, [2], [[0], [0], [0]]) == [0, 1]


@pytest.mark.parametrize("topic", [-1, 2])
def test_an_unknown_topic_is_refused(topic: int) -> None:
    with pytest.raises(ValueError, match=f"subscribes to topic {topic}, but there are 2 topics"):
        assigned(range_assignment, [1, 1], [[0], [topic]])


def test_starts_that_fall_are_refused() -> None:
    with pytest.raises(ValueError, match="starts must rise from 0 to 2, the number of partitions"):
        range_assignment(np.array([0, 3, 2], np.int32), Subscriptions.of([]))
