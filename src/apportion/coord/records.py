"""What a shard writes down: a key and a value of `__consumer_offsets`, and one maker for each kind of record.

The messages are Kafka's own schemas (`wire.messages.group_records`); a value of None is a tombstone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from apportion.topics import TopicId
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordTopicPartitions,
)

MAX_STRING_BYTES = 32767  # of a string in the key of a record


class CoordinatorRecord(NamedTuple):
    """One line of the log: the last value of a key is what counts, and None says that there is none any more."""

    key: Any
    value: Any


@dataclass(slots=True, frozen=True)
class Append:
    """Add these records to the shard's log, all or none; what follows in the list of actions depends on them."""

    records: tuple[CoordinatorRecord, ...]


def fits_in_key(text: str) -> bool:
    """True for an id that the key of a record can hold."""
    return 4 * len(text) <= MAX_STRING_BYTES or len(text.encode()) <= MAX_STRING_BYTES


def offset_commit(group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> CoordinatorRecord:
    """The committed offset of one partition."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)


def classic_group(group_id: str, value: GroupMetadataValue | None) -> CoordinatorRecord:
    """A classic group as its last assignment left it."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value)


def member_metadata(group_id: str, member_id: str, said: ConsumerGroupMemberMetadataValue | None) -> CoordinatorRecord:
    """What a member says of itself."""
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), said)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group's epoch and the hash of the topics that it subscribes to."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, parts: Iterable[tuple[TopicId, tuple[int, ...]]]) -> CoordinatorRecord:
    """What a member shall have."""
    topics = tuple(RecordTopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in parts)
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def assignment_epoch(group_id: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """The group epoch that all targets are for."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_assignment(group_id: str, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue) -> CoordinatorRecord:
    """What a member has, and how far it has come."""
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value)


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """The member is gone, in the order in which Kafka forgets."""
    return (
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_tombstones(group_id: str) -> tuple[CoordinatorRecord, ...]:
    """A group without members is gone."""
    return (
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    )
