"""Delete the oldest records of partitions."""

from apportion.wire.fields import array, int16, int32, int64, message, string


@message()
class DeleteRecordsPartition:
    """Before which offset the records of one partition shall be gone; -1: all that readers can
    see.
    """

    partition_index: int = int32()
    offset: int = int64()


@message()
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: tuple[DeleteRecordsPartition, ...] = array(DeleteRecordsPartition)


@message(key=21, versions=range(3), flexible=2, type="request")
class DeleteRecordsRequest:
    """Let these partitions begin later."""

    topics: tuple[DeleteRecordsTopic, ...] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@message()
class DeleteRecordsPartitionResult:
    """Where one partition begins now."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@message()
class DeleteRecordsTopicResult:
    """Partitions of one topic."""

    name: str = string()
    partitions: tuple[DeleteRecordsPartitionResult, ...] = array(DeleteRecordsPartitionResult)


@message(key=21, versions=range(3), flexible=2, type="response")
class DeleteRecordsResponse:
    """What became of every partition."""

    throttle_time_ms: int = int32()
    topics: tuple[DeleteRecordsTopicResult, ...] = array(DeleteRecordsTopicResult)
