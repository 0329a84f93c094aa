"""OffsetForLeaderEpoch: the end offset of a leader epoch."""

from apportion.wire.fields import array, int16, int32, int64, message, string


@message()
class OffsetForLeaderPartition:
    """The leader epoch to look up for one partition."""

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
    """Request the end offsets of leader epochs; `replica_id` -1: a consumer, -2: a debugger."""

    replica_id: int = int32(since=3, default=-2, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...] = array(OffsetForLeaderTopic)


@message()
class EpochEndOffset:
    """The largest leader epoch up to the requested one, and its end offset."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@message()
class OffsetForLeaderTopicResult:
    """The results of one topic."""

    topic: str = string()
    partitions: tuple[EpochEndOffset, ...] = array(EpochEndOffset)


@message(key=23, versions=range(2, 5), flexible=4, type="response")
class OffsetForLeaderEpochResponse:
    """The end offsets of the requested epochs."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: tuple[OffsetForLeaderTopicResult, ...] = array(OffsetForLeaderTopicResult)
