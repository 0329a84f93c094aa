"""OffsetDelete: delete committed offsets of a group."""

from apportion.wire.fields import array, int16, int32, message, string


@message()
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: int = int32()


@message()
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeleteRequestPartition, ...] = array(OffsetDeleteRequestPartition)


@message(key=47, versions=range(1), type="request")
class OffsetDeleteRequest:
    """Delete the group's committed offsets of these partitions."""

    group_id: str = string()
    topics: tuple[OffsetDeleteRequestTopic, ...] = array(OffsetDeleteRequestTopic)


@message()
class OffsetDeleteResponsePartition:
    """The error of one partition, or none."""

    partition_index: int = int32()
    error_code: int = int16()


@message()
class OffsetDeleteResponseTopic:
    """The results of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeleteResponsePartition, ...] = array(OffsetDeleteResponsePartition)


@message(key=47, versions=range(1), type="response")
class OffsetDeleteResponse:
    """The results of all partitions."""

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: tuple[OffsetDeleteResponseTopic, ...] = array(OffsetDeleteResponseTopic)
