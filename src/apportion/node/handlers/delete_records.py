"""DeleteRecords: raise the log start offset. Kafka Streams uses it for its repartition topics."""

from collections.abc import Iterable

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.partitions import Partition
from apportion.store.disk import DiskError
from apportion.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NO_OFFSET = -1


def delete_records(broker: BrokerContext, arrived: Arrived, now: Instant) -> Answer:
    """Handle DeleteRecords: delete the records below the given offsets.

    Of a partition that is named twice the last mention counts.
    """
    request: DeleteRecordsRequest = arrived.request
    by_topic: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        by_topic.setdefault(topic.name, {}).update(
            (partition.partition_index, partition) for partition in topic.partitions
        )
    deletion = RecordDeletion(broker, now)
    topics = tuple(
        deletion.delete(name, partitions.values()) for name, partitions in by_topic.items()
    )
    return Answer(DeleteRecordsResponse(topics=topics), deletion.flush_seq)


class RecordDeletion:
    """One DeleteRecords request; `flush_seq` is the flush that covers all of it."""

    __slots__ = ("_broker", "_now", "flush_seq")

    def __init__(self, broker: BrokerContext, now: Instant) -> None:
        self._broker = broker
        self._now = now
        self.flush_seq = 0

    def delete(
        self, name: str, partitions: Iterable[DeleteRecordsPartition]
    ) -> DeleteRecordsTopicResult:
        """Delete the records of one topic in a DeleteRecords request, and return its results."""
        return DeleteRecordsTopicResult(
            name=name, partitions=tuple(self._result(name, requested) for requested in partitions)
        )

    def _result(self, name: str, requested: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        """Delete the records of one partition below an offset; return its result.

        For DeleteRecords. The result is the new log start offset, or the error.
        """
        low_watermark, code = NO_OFFSET, Code.NONE
        try:
            partition = self._partition(name, requested.partition_index)
            low_watermark = partition.delete_before(
                partition.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
            )
            # A start that a crash took back would show deleted records again (decision 35).
            self.flush_seq = max(self.flush_seq, partition.flush_seq)
        except Refused as refused:
            code = refused.code
        except DiskError as error:
            self._broker.disk_failures.add(str(error), self._now.mono_ms, error.errno)
            code = Code.KAFKA_STORAGE_ERROR
        return DeleteRecordsPartitionResult(
            partition_index=requested.partition_index, low_watermark=low_watermark, error_code=code
        )

    def _partition(self, name: str, index: int) -> Partition:
        """Return the partition that a DeleteRecords request names, if its records may be deleted.

        Errors: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION.
        """
        topic_service = self._broker.topic_service
        if topic_service.is_internal(name):
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"{name} belongs to the broker")
        partition = self._broker.partition(name, index)
        rules = topic_service.rules(partition.topic)
        # As in Kafka: such a topic promises to keep the last record of each key.
        if rules.is_compacted and not rules.is_deleted:
            raise Refused(Code.POLICY_VIOLATION, f"the cleanup.policy of {name} does not delete")
        return partition


HANDLERS: dict[type, BrokerHandler] = {DeleteRecordsRequest: delete_records}
