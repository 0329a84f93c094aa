"""Where the records of a leader epoch end."""

from apportion.wire.fields import array, int16, int32, int64, message, string


@message()
class OffsetForLeaderPartition:
    """The epoch in question for one partition."""

    partition: int = int32()
    current_leader_epoch: int = int32(default=-1, ignorable=True)
    leader_epoch: int = int32()


@message()
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: str = string()
    partitions: tuple[OffsetForLeaderPartition, ...] = array(OffsetForLeaderPartition)


@message(key=23, versions=range(2, 5), flexible=4, type="request")
class OffsetForLeaderEpochRequest:
    """Where do these epochs end? `replica_id` -1 is a consumer, -2 a debugger."""

    replica_id: int = int32(since=3, default=-2, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...] = array(OffsetForLeaderTopic)


@message()
class EpochEndOffset:
    """The largest epoch at or below the one in question, and the offset after its last record."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@message()
class OffsetForLeaderTopicResult:
    """The answers for one topic."""

    topic: str = string()
    partitions: tuple[EpochEndOffset, ...] = array(EpochEndOffset)


@message(key=23, versions=range(2, 5), flexible=4, type="response")
class OffsetForLeaderEpochResponse:
    """Where the epochs end."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: tuple[OffsetForLeaderTopicResult, ...] = array(OffsetForLeaderTopicResult)
