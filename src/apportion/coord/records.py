"""The records of a shard: a key and a value of `__consumer_offsets`, one function for each kind.

The messages are Kafka's schemas (`wire/records/groups.py`). A value of None is a tombstone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from apportion.topics import TopicId
from apportion.wire.record_fields import encode_record
from apportion.wire.records import groups
from apportion.wire.records.codec import encode_key, encode_value

MAX_STRING_BYTES = 32767  # of a string in the key of a record


class CoordinatorRecord(NamedTuple):
    """One record. The last value of a key counts; None deletes it."""

    key: Any
    value: Any


class TargetAnswer(NamedTuple):
    """The answer of a client-side assignor to a member, beside the partitions of its target.

    error: the assignor's own number of an error of the whole assignment; 0 for none.
    """

    error: int = 0
    metadata_version: int = 0
    metadata: bytes = b""


NO_ANSWER = TargetAnswer()
"""That of a target which the broker has computed."""


class EncodedRecords(Protocol):
    """Records that were encoded before the step that emits them, because they are many."""

    def encoded(self) -> Iterable[bytes]:
        """Return the records as `encode_record` returns them."""
        ...

    def records(self) -> Iterable[CoordinatorRecord]:
        """Return the records one by one."""
        ...


@dataclass(slots=True, frozen=True)
class Append:
    """Append these records to the shard's log, all or none, before the actions that follow."""

    records: tuple[CoordinatorRecord | EncodedRecords, ...]

    def encoded(self) -> list[bytes]:
        """Return all records as `encode_record` returns them."""
        encoded: list[bytes] = []
        for record in self.records:
            if isinstance(record, CoordinatorRecord):
                value = None if record.value is None else encode_value(record.value)
                encoded.append(encode_record(encode_key(record.key), value))
            else:
                encoded += record.encoded()
        return encoded

    def one_by_one(self) -> Iterator[CoordinatorRecord]:
        """Yield all records, also those that were encoded beforehand, for inspection only."""
        for record in self.records:
            if isinstance(record, CoordinatorRecord):
                yield record
            else:
                yield from record.records()


def fits_in_key(text: str) -> bool:
    """Return whether the key of a record can hold the string."""
    # A character takes at most four bytes of UTF-8, so ordinary names are not encoded for the test.
    return 4 * len(text) <= MAX_STRING_BYTES or len(text.encode()) <= MAX_STRING_BYTES


def offset_commit(
    group_id: str, topic: str, partition: int, value: groups.OffsetCommitValue | None
) -> CoordinatorRecord:
    """Return the OffsetCommit record of one offset that a group has committed."""
    return CoordinatorRecord(
        groups.OffsetCommitKey(group=group_id, topic=topic, partition=partition), value
    )


def classic_group(group_id: str, value: groups.GroupMetadataValue | None) -> CoordinatorRecord:
    """Return the GroupMetadata record of a classic group's last generation; None deletes it."""
    return CoordinatorRecord(groups.GroupMetadataKey(group=group_id), value)


def member_metadata(
    group_id: str, member_id: str, value: groups.ConsumerGroupMemberMetadataValue | None
) -> CoordinatorRecord:
    """Return a consumer group member's ConsumerGroupMemberMetadata record; None deletes it."""
    return CoordinatorRecord(
        groups.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the ConsumerGroupMetadata record: a consumer group's epoch, its topics' hash."""
    value = groups.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(groups.ConsumerGroupMetadataKey(group_id=group_id), value)


def target_assignment(
    group_id: str,
    member_id: str,
    parts: Iterable[tuple[TopicId, tuple[int, ...]]],
    answer: TargetAnswer = NO_ANSWER,
) -> CoordinatorRecord:
    """Return the ConsumerGroupTargetAssignmentMember record of a consumer group's member."""
    topics = tuple(
        groups.RecordTopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in parts
    )
    value = groups.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=topics, **answer._asdict()
    )
    return CoordinatorRecord(
        groups.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value
    )


def assignment_epoch(group_id: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """Return the ConsumerGroupTargetAssignmentMetadata record, with the assignment epoch."""
    value = groups.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=wall_ms
    )
    return CoordinatorRecord(
        groups.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value
    )


def current_assignment(
    group_id: str, member_id: str, value: groups.ConsumerGroupCurrentMemberAssignmentValue
) -> CoordinatorRecord:
    """Return the ConsumerGroupCurrentMemberAssignment record of a consumer group's member."""
    return CoordinatorRecord(
        groups.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        value,
    )


def regular_expression(
    group_id: str, expression: str, value: groups.ConsumerGroupRegularExpressionValue | None
) -> CoordinatorRecord:
    """Return the ConsumerGroupRegularExpression record of a resolution; None deletes it."""
    key = groups.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    return CoordinatorRecord(key, value)


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """Return the tombstones that delete a member of a consumer group, in Kafka's order."""
    keys = (
        groups.ConsumerGroupCurrentMemberAssignmentKey,
        groups.ConsumerGroupTargetAssignmentMemberKey,
        groups.ConsumerGroupMemberMetadataKey,
    )
    return tuple(
        CoordinatorRecord(key(group_id=group_id, member_id=member_id), None) for key in keys
    )


def group_tombstones(group_id: str) -> tuple[CoordinatorRecord, ...]:
    """Return the tombstones that delete a consumer group without members."""
    return (
        # No tombstone of record 4, which Kafka writes as well: this coordinator never wrote one
        # (KIP-1101).
        CoordinatorRecord(groups.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        CoordinatorRecord(groups.ConsumerGroupMetadataKey(group_id=group_id), None),
    )
