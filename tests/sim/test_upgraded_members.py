"""When a classic member of an upgraded group may use a partition that it is not assigned."""

from typing import Any

import pytest

from apportion.coord import records
from apportion.member.membership import MembershipState, View
from apportion.sim.checks.upgraded_members import UpgradedMembers
from apportion.topics import IdPartition, TopicIdPartition, Topics
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    RecordTopicPartitions,
)
from tests.sim.test_laws import BAR, FOO, TOPICS, member_record, settled


def classic(member_id: str, *claimed: int, **facts: Any) -> Any:
    """The record of a classic member that said in its JoinGroup that it owned these of foo."""
    owned = (ConsumerProtocolTopicPartition(topic="foo", partitions=claimed),)
    subscription = ConsumerProtocolSubscription(topics=("foo",), owned_partitions=owned)
    protocol = ClassicProtocol(name="range", metadata=consumer_serde.encode(subscription))
    said = ClassicMemberMetadata(session_timeout_ms=1, supported_protocols=(protocol,))
    return member_record(member_id, classic_member_metadata=said, **facts)


# a is assigned 0 and 1, b is assigned 2 and 3; both said that they owned 2
GROUP = settled(classic("a", 0, 1, 2, instance_id="i"), classic("b", 2, 3))


@pytest.fixture
def upgraded() -> UpgradedMembers:
    upgraded = UpgradedMembers()
    upgraded.add(GROUP, ["a", "b"], TOPICS)
    return upgraded


def view(member_id: str, *owned: int, epoch: int = 3) -> View:
    has = tuple(IdPartition(FOO, number) for number in owned)
    return View(member_id, epoch, MembershipState.STABLE, 1, has, has, 0, None)


def foo(number: int, topic_id: bytes = FOO) -> TopicIdPartition:
    return TopicIdPartition("foo", topic_id, number)


def test_a_partition_that_two_members_claimed_may_be_used_until_it_is_given_up(
    upgraded: UpgradedMembers,
) -> None:
    assert upgraded.may_use(GROUP, view("a", 0, 1, 2), foo(2), TOPICS)
    upgraded.note_view(GROUP, view("a", 0, 1, 2, epoch=5))
    assert upgraded.may_use(GROUP, view("a", 0, 1, 2, epoch=5), foo(2), TOPICS)
    upgraded.note_view(GROUP, view("a", 0, 1))
    assert not upgraded.may_use(GROUP, view("a", 0, 1, 2), foo(2), TOPICS)


def test_a_partition_of_another_member_may_not_be_used(upgraded: UpgradedMembers) -> None:
    assert not upgraded.may_use(GROUP, view("a", 3), foo(3), TOPICS)
    assert not upgraded.may_use(GROUP, view("b", 0), foo(0), TOPICS)


def test_a_static_member_may_have_missed_the_generation_before_the_upgrade(
    upgraded: UpgradedMembers,
) -> None:
    assert upgraded.may_use(GROUP, view("a", 3, epoch=2), foo(3), TOPICS)
    assert not upgraded.may_use(GROUP, view("b", 0, epoch=2), foo(0), TOPICS)


def test_a_member_that_came_later_has_no_excuse() -> None:
    later = UpgradedMembers()
    assert not later.may_use(GROUP, view("a", 2), foo(2), TOPICS)


def test_a_member_that_was_removed_has_no_excuse(upgraded: UpgradedMembers) -> None:
    assert list(upgraded.assigned("a")) == [IdPartition(FOO, 0), IdPartition(FOO, 1)]
    upgraded.remove("a")
    assert upgraded.assigned("a") == {}
    assert not upgraded.may_use(GROUP, view("a", 2), foo(2), TOPICS)


def test_a_partition_of_a_deleted_topic_may_be_used(upgraded: UpgradedMembers) -> None:
    assert upgraded.may_use(GROUP, view("a", 3), foo(3, b"deleted".rjust(16, b".")), TOPICS)


def test_a_partition_that_nobody_owns_may_be_used(upgraded: UpgradedMembers) -> None:
    assert upgraded.may_use(GROUP, view("a"), TopicIdPartition("bar", BAR, 0), TOPICS)


WITHOUT_BAR = Topics(topic for topic in TOPICS if topic.name != "bar")


def in_generation(number: int, *bars: int) -> Any:
    """The group, with these partitions of bar assigned to b in that generation."""
    epochs = (number,) * len(bars)
    assigned = RecordTopicPartitions(topic_id=BAR, partitions=bars, assignment_epochs=epochs)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=number,
        previous_member_epoch=number - 1,
        state=0,
        assigned_partitions=(assigned,) if bars else (),
    )
    return settled(classic("b"), records.current_assignment("g", "b", value))


def test_the_same_number_of_a_deleted_topic_may_be_meant(upgraded: UpgradedMembers) -> None:
    group = in_generation(3, 0)
    assert not upgraded.may_use(group, view("b"), foo(0), WITHOUT_BAR)
    upgraded.note_view(group, view("b"))
    assert upgraded.may_use(group, view("b"), foo(0), WITHOUT_BAR)
    assert not upgraded.may_use(group, view("b"), foo(1), WITHOUT_BAR)
    assert not upgraded.may_use(group, view("b"), foo(0), TOPICS)
    # The same generation assigns it one more.
    more = in_generation(3, 0, 1)
    upgraded.note_view(more, view("b"))
    assert upgraded.may_use(more, view("b"), foo(1), WITHOUT_BAR)


def test_a_deleted_topic_may_be_meant_until_the_next_generation_has_been_applied(
    upgraded: UpgradedMembers,
) -> None:
    upgraded.note_view(in_generation(3, 0), view("b"))
    # Its JoinGroup has arrived and is not answered yet: it goes by the generation that it knows.
    fourth = in_generation(4)
    upgraded.note_view(fourth, view("b"))
    assert upgraded.may_use(fourth, view("b"), foo(0), WITHOUT_BAR)
    # It has heard of the next one, and revokes.
    upgraded.note_view(fourth, view("b", epoch=4))
    assert upgraded.may_use(fourth, view("b", epoch=4), foo(0), WITHOUT_BAR)
    fifth = in_generation(5)
    upgraded.note_view(fifth, view("b", epoch=5))
    assert not upgraded.may_use(fifth, view("b", epoch=5), foo(0), WITHOUT_BAR)
