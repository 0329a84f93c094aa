"""DeleteRecords: raise the log start offset of partitions."""

from apportion.wire.fields import array, int16, int32, int64, message, string


@message()
class DeleteRecordsPartition:
    """The offset below which to delete the records of one partition; -1: the high watermark."""

    partition_index: int = int32()
    offset: int = int64()


@message()
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: tuple[DeleteRecordsPartition, ...] = array(DeleteRecordsPartition)


@message(key=21, versions=range(3), flexible=2, type="request")
class DeleteRecordsRequest:
    """Delete the records below these offsets."""

    topics: tuple[DeleteRecordsTopic, ...] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@message()
class DeleteRecordsPartitionResult:
    """The new log start offset of one partition, or its error."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@message()
class DeleteRecordsTopicResult:
    """The results of one topic."""

    name: str = string()
    partitions: tuple[DeleteRecordsPartitionResult, ...] = array(DeleteRecordsPartitionResult)


@message(key=21, versions=range(3), flexible=2, type="response")
class DeleteRecordsResponse:
    """The results of all partitions."""

    throttle_time_ms: int = int32()
    topics: tuple[DeleteRecordsTopicResult, ...] = array(DeleteRecordsTopicResult)
