"""Logs not written just so by us: of Kafkas that kept no epochs, with lists that do not match,
tombstones left by compaction.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.records import CoordinatorRecord
from apportion.wire.records import groups as group_records
from apportion.wire.records.groups import RecordTopicPartitions
from tests.coord.shard_driver import ShardDriver, member_metadata, recovered, state_of, topic_id

MEMBER = CoordinatorRecord(
    group_records.ConsumerGroupMemberMetadataKey(group_id="g", member_id="a"), member_metadata()
)
HOLD_KEY = group_records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
TARGET_KEY = group_records.ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="a")
ASSIGNMENT_KEY = group_records.ConsumerGroupTargetAssignmentMetadataKey(group_id="g")


def hold(
    *assigned: RecordTopicPartitions, revoking: Sequence[RecordTopicPartitions] = (), epoch: int = 7
) -> CoordinatorRecord:
    """The record of what member a has, at that epoch."""
    return CoordinatorRecord(
        HOLD_KEY,
        group_records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch - 1,
            state=int(MemberState.STABLE),
            assigned_partitions=assigned,
            partitions_pending_revocation=tuple(revoking),
        ),
    )


def some(
    topic: str, partitions: tuple[int, ...], epochs: tuple[int, ...] | None = None
) -> RecordTopicPartitions:
    """Partitions of a topic with the epochs at which they were given, if the writer kept them."""
    return RecordTopicPartitions(
        topic_id=topic_id(topic), partitions=partitions, assignment_epochs=epochs
    )


def group_of(
    *log: CoordinatorRecord,
) -> dict[str, Any]:
    """The picture of the group that this log leaves."""
    result: dict[str, Any] = state_of(recovered(log, ShardDriver().shard))["groups"]["g"]
    return result


def by_topic_id(epochs: dict[tuple[str, int], int]) -> dict[tuple[bytes, int], int]:
    """The same epochs by topic id and partition."""
    return {(topic_id(topic), partition): epoch for (topic, partition), epoch in epochs.items()}


@pytest.mark.parametrize(
    ("assigned", "epochs"),
    [
        ([some("foo", (0, 2))], {("foo", 0): 7, ("foo", 2): 7}),
        ([some("foo", (0, 2), (3, 5))], {("foo", 0): 3, ("foo", 2): 5}),
        (
            [some("foo", (0, 2)), some("bar", (1,), (4,))],
            {("foo", 0): 7, ("foo", 2): 7, ("bar", 1): 4},
        ),
        (
            [some("foo", (0, 2), (3,)), some("bar", (1,), (4,))],
            {("foo", 0): 7, ("foo", 2): 7, ("bar", 1): 4},
        ),
        ([some("foo", (0, 2), (3, 4, 5))], {("foo", 0): 7, ("foo", 2): 7}),
        ([], {}),
    ],
)
def test_a_partition_without_a_known_epoch_was_given_at_the_members_own(
    assigned: list[RecordTopicPartitions], epochs: dict[tuple[str, int], int]
) -> None:
    group = group_of(MEMBER, hold(*assigned))
    assert group["members"]["a"]["assigned"] == by_topic_id(epochs)
    assert group["held"] == dict.fromkeys(by_topic_id(epochs), "a")


def test_partitions_pending_revocation_are_owned_after_a_load() -> None:
    group = group_of(
        MEMBER, hold(some("foo", (0,)), revoking=[some("foo", (1,)), some("bar", (0,))])
    )
    assert group["members"]["a"]["revoking"] == by_topic_id({("foo", 1): 7, ("bar", 0): 7})
    assert group["held"] == dict.fromkeys(
        by_topic_id({("foo", 0): 7, ("foo", 1): 7, ("bar", 0): 7}), "a"
    )


def test_a_member_whose_hold_was_taken_back_has_nothing_and_is_at_no_epoch() -> None:
    group = group_of(MEMBER, hold(some("foo", (0,))), CoordinatorRecord(HOLD_KEY, None))
    facts = group["members"]["a"]
    assert [
        facts[name] for name in ("epoch", "previous_epoch", "state", "assigned", "revoking")
    ] == [
        -1,
        -1,
        MemberState.STABLE,
        {},
        {},
    ]
    assert (group["held"], group["settled_at"]) == ({}, {-1: 1})


def test_targets_that_were_taken_back_are_no_targets() -> None:
    log = [
        MEMBER,
        CoordinatorRecord(
            ASSIGNMENT_KEY,
            group_records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7),
        ),
        CoordinatorRecord(
            TARGET_KEY,
            group_records.ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=(some("foo", (1, 2)),)
            ),
        ),
    ]
    before, after = (
        group_of(*log),
        group_of(
            *log, CoordinatorRecord(TARGET_KEY, None), CoordinatorRecord(ASSIGNMENT_KEY, None)
        ),
    )
    assert (before["assignment_epoch"], before["members"]["a"]["target"]) == (
        7,
        [(topic_id("foo"), 1), (topic_id("foo"), 2)],
    )
    assert (after["assignment_epoch"], after["members"]["a"]["target"]) == (1, None)


def test_a_tombstone_of_what_is_not_there_makes_no_group() -> None:
    keys = [
        MEMBER.key,
        HOLD_KEY,
        TARGET_KEY,
        ASSIGNMENT_KEY,
        group_records.ConsumerGroupMetadataKey(group_id="g"),
    ]
    log = [CoordinatorRecord(key, None) for key in keys]
    assert state_of(recovered(log, ShardDriver().shard)) == {"groups": {}, "offsets": {}}


def test_a_member_that_says_other_things_is_counted_for_those_alone() -> None:
    other = CoordinatorRecord(
        MEMBER.key,
        member_metadata(
            subscribed_topic_names=("bar", "foo"), server_assignor="range", instance_id="i"
        ),
    )
    again = CoordinatorRecord(MEMBER.key, member_metadata(subscribed_topic_names=("bar",)))
    facts = ("subscribers", "votes", "instances")
    assert [group_of(MEMBER, other)[fact] for fact in facts] == [
        {"foo": 1, "bar": 1},
        {"range": 1},
        {"i": "a"},
    ]
    assert [group_of(MEMBER, other, again)[fact] for fact in facts] == [{"bar": 1}, {}, {}]


def test_a_classic_member_is_counted_once_for_each_protocol_that_it_speaks() -> None:
    spoken = tuple(
        group_records.ClassicProtocol(name=name) for name in ("range", "sticky", "range")
    )
    classic = CoordinatorRecord(
        MEMBER.key,
        member_metadata(
            classic_member_metadata=group_records.ClassicMemberMetadata(supported_protocols=spoken)
        ),
    )
    facts = ("speakers", "classics")
    assert [group_of(classic)[fact] for fact in facts] == [{"range": 1, "sticky": 1}, 1]
    assert [group_of(classic, classic)[fact] for fact in facts] == [{"range": 1, "sticky": 1}, 1]
    assert [group_of(classic, MEMBER)[fact] for fact in facts] == [{}, 0]


def test_an_instance_that_another_member_has_taken_stays_with_it() -> None:
    takes = CoordinatorRecord(
        group_records.ConsumerGroupMemberMetadataKey(group_id="g", member_id="b"),
        member_metadata(instance_id="i"),
    )
    had = CoordinatorRecord(MEMBER.key, member_metadata(instance_id="i"))
    assert group_of(had, takes, CoordinatorRecord(MEMBER.key, None))["instances"] == {"i": "b"}
    assert group_of(had, takes, MEMBER)["instances"] == {"i": "b"}
    assert group_of(had, CoordinatorRecord(MEMBER.key, None))["instances"] == {}
