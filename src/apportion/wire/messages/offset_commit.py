"""OffsetCommit: store the next offsets of a group."""

from apportion.wire.fields import array, int16, int32, int64, message, string, uuid


@message()
class OffsetCommitRequestPartition:
    """The next offset to read of one partition, with the committer's metadata."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable=0)


@message()
class OffsetCommitRequestTopic:
    """The offsets of one topic, which is named up to version 9, and has an id from 10 on."""

    name: str = string(until=9, ignorable=True)
    # By id nothing is committed for a topic that was deleted and created again under its name.
    topic_id: bytes = uuid(since=10, ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...] = array(OffsetCommitRequestPartition)


@message(key=8, versions=range(2, 11), flexible=8, type="request")
class OffsetCommitRequest:
    """Store these offsets for the group; the sender names its generation or member epoch."""

    group_id: str = string()
    # A member epoch from version 9 on (KIP-848); -1 without a membership.
    generation_id_or_member_epoch: int = int32(default=-1, ignorable=True)
    member_id: str = string(ignorable=True)
    group_instance_id: str | None = string(since=7, nullable=7, default=None)
    # KIP-211 removed it: offsets are kept as long as the group needs them.
    retention_time_ms: int = int64(until=4, default=-1, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...] = array(OffsetCommitRequestTopic)


@message()
class OffsetCommitResponsePartition:
    """The error of one partition, or none."""

    partition_index: int = int32()
    error_code: int = int16()


@message()
class OffsetCommitResponseTopic:
    """The results of one topic."""

    name: str = string(until=9, ignorable=True)
    topic_id: bytes = uuid(since=10, ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...] = array(OffsetCommitResponsePartition)


@message(key=8, versions=range(2, 11), flexible=8, type="response")
class OffsetCommitResponse:
    """The results of all partitions."""

    throttle_time_ms: int = int32(since=3, ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = array(OffsetCommitResponseTopic)
