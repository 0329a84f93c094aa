"""ListOffsets: offsets by timestamp, and the ends of a partition."""

from apportion.wire.fields import array, int8, int16, int32, int64, message, string

EARLIEST, LATEST = -2, -1
"""Timestamps that stand for the log start offset, and for the end."""


@message()
class ListOffsetsPartition:
    """The timestamp to look for; -1: the end, -2: the start, -3: the largest timestamp."""

    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1, ignorable=True)
    timestamp: int = int64()


@message()
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[ListOffsetsPartition, ...] = array(ListOffsetsPartition)


@message(key=2, versions=range(1, 12), flexible=6, type="request")
class ListOffsetsRequest:
    """Request the offsets of some timestamps."""

    replica_id: int = int32()
    isolation_level: int = int8(since=2)
    topics: tuple[ListOffsetsTopic, ...] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10, ignorable=True)


@message()
class ListOffsetsPartitionResponse:
    """The first offset at or after the timestamp; -1 if there is none."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)


@message()
class ListOffsetsTopicResponse:
    """The results of one topic."""

    name: str = string()
    partitions: tuple[ListOffsetsPartitionResponse, ...] = array(ListOffsetsPartitionResponse)


@message(key=2, versions=range(1, 12), flexible=6, type="response")
class ListOffsetsResponse:
    """The offsets of the requested timestamps."""

    throttle_time_ms: int = int32(since=2, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = array(ListOffsetsTopicResponse)
