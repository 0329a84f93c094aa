"""Produce: one batch a partition, checked by its header and by its topic's settings.

The response waits until the batches are on the disk.
Versions: 3-12 name topics, 13 gives ids. 0-2 are advertised, as Kafka 4 does for the sake of old
clients (KIP-896), and refused.
"""

from collections.abc import Iterable

from apportion.errors import Code, DecodeError, Refused
from apportion.machine import Arrived, CloseConnection, Instant
from apportion.node.batch_validation import (
    RecordError,
    RecordsRefused,
    ValidationBudget,
    validate_batch,
)
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.partitions import Partition
from apportion.node.topic_rules import TopicRules
from apportion.readable import MAX_QUOTED, shortened
from apportion.store.disk import DiskError
from apportion.wire.batch import (
    HEADER_BYTES,
    PREFIX_BYTES,
    BatchHeader,
    InconsistentBatch,
    check_producer_batch,
)
from apportion.wire.compression import ZSTD
from apportion.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from apportion.wire.uuids import uuid_text

FIRST_ZSTD_VERSION = 7
FIRST_SERVED_VERSION = 3
ONE_BATCH = "a produce request carries exactly one record batch for a partition"


def produce(broker: BrokerContext, arrived: Arrived, now: Instant) -> Answer:
    """Handle Produce: validate and append each batch.

    Errors: INVALID_REQUIRED_ACKS for the whole request, the others by partition. acks 1 waits for
    the disk as acks -1 does. So does acks 0, for which nothing is sent (`unacknowledged`): what is
    behind it on its connection may show the records.
    """
    request: ProduceRequest = arrived.request
    produce_append = ProduceAppend(broker, arrived, now)
    topics = tuple(
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=tuple(
                produce_append.append(topic, data) for data in topic.partition_data
            ),
        )
        for topic in request.topic_data
    )
    response = ProduceResponse(responses=topics)
    # A refusal of one with acks 0 ends its connection, before the next request begins.
    is_end = not request.acks and unacknowledged(response) is not None
    return Answer(response, 0 if is_end else produce_append.flush_seq)


def unacknowledged(response: ProduceResponse) -> CloseConnection | None:
    """Return what stands for the response to a producer that wants none (acks 0).

    It would take one for that of a later request. As in Kafka, the end of its connection is how it
    learns that something was refused.
    """
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = shortened(topic.name or uuid_text(topic.topic_id), MAX_QUOTED)
                return CloseConnection(
                    f"its Produce with acks=0 is refused, for {name}-{partition.index}: "
                    f"{Code.of(partition.error_code).name}"
                )
    return None


class ProduceAppend:
    """One Produce request while its batches are appended.

    flush_seq: the flush that covers all of them.
    """

    __slots__ = ("_broker", "_budget", "_now", "_request", "_version", "flush_seq")

    def __init__(self, broker: BrokerContext, arrived: Arrived, now: Instant) -> None:
        """Begin one Produce request, with the whole budget for inspecting its batches."""
        self._broker = broker
        self._request: ProduceRequest = arrived.request
        self._version = arrived.version
        self._now = now
        self._budget = ValidationBudget()
        self.flush_seq = 0

    def append(
        self, topic: TopicProduceData, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        """Append the batch of one partition for Produce; return its response or its error."""
        try:
            return self._append(self._partition(topic, data.index), data)
        except RecordsRefused as refused:
            return _error_response(data.index, refused.code, refused.why, refused.errors)
        except Refused as refused:
            return _error_response(data.index, refused.code, refused.why)
        except DiskError as error:
            self._broker.disk_failures.add(str(error), self._now.mono_ms, error.errno)
            return _error_response(data.index, Code.KAFKA_STORAGE_ERROR, str(error))

    def _partition(self, topic: TopicProduceData, index: int) -> Partition:
        """Return the partition to which a Produce request appends.

        Errors: UNSUPPORTED_VERSION, INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_ID,
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION for a topic of the broker's own.
        """
        if self._version < FIRST_SERVED_VERSION:
            raise Refused(
                Code.UNSUPPORTED_VERSION,
                f"produce is served from version {FIRST_SERVED_VERSION} on",
            )
        if self._request.acks not in (-1, 0, 1):
            raise Refused(
                Code.INVALID_REQUIRED_ACKS, f"acks is -1, 0 or 1, not {self._request.acks}"
            )
        partition = self._broker.partition(
            topic.name, index, topic_id=topic.topic_id if self._version >= 13 else None
        )
        if self._broker.topic_service.is_internal(partition.topic.name):
            raise Refused(
                Code.INVALID_TOPIC_EXCEPTION,
                f"{partition.topic.name} is written by the broker alone",
            )
        return partition

    def _append(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        """Validate and append one batch of Produce; a duplicate gets the first one's response."""
        if data.records is None or len(data.records) < HEADER_BYTES:
            raise Refused(Code.INVALID_RECORD, ONE_BATCH)
        view = memoryview(data.records)
        rules = self._broker.topic_service.rules(partition.topic)
        header = self._check_batch(rules, view)
        stored = validate_batch(view, header, rules, now_ms=self._now.wall_ms, budget=self._budget)
        # KIP-98: after a lost response the producer sends the batch again, and must get the first
        # offset.
        duplicate = partition.producers.duplicate_or_none(header)
        if duplicate is None:
            base_offset = partition.append(stored.batch, stored.header, self._now.wall_ms)
            append_ms = stored.header.max_timestamp_ms
        else:
            base_offset, append_ms = duplicate.base_offset, duplicate.timestamp_ms
        # For a duplicate, too: the batch that it repeats may not be on the disk yet.
        self.flush_seq = max(self.flush_seq, partition.flush_seq)
        return PartitionProduceResponse(
            index=data.index,
            base_offset=base_offset,
            log_append_time_ms=append_ms if rules.is_append_time else -1,
            log_start_offset=partition.start_offset,
        )

    def _check_batch(self, rules: TopicRules, view: memoryview) -> BatchHeader:
        """Return the header of the one batch in a partition's Produce data.

        Refuses what Kafka refuses to store.
        """
        # Byte 16 is the magic in every format, so old ones are recognised before anything else is
        # read.
        if view[16] < 2:
            raise Refused(Code.INVALID_RECORD, f"record batches are of format 2, not {view[16]}")
        if (
            len(view)
            != int.from_bytes(view[8:12], "big", signed=True) + PREFIX_BYTES
            > HEADER_BYTES
        ):
            raise Refused(Code.INVALID_RECORD, ONE_BATCH)
        max_bytes = rules.max_message_bytes
        if len(view) > max_bytes:
            raise Refused(
                Code.MESSAGE_TOO_LARGE,
                f"a batch of {len(view)} bytes where {max_bytes} are allowed",
            )
        try:
            # CORRUPT_MESSAGE makes a producer send the batch again, which helps if bytes were lost
            # on the way. A batch with a right CRC would fail for ever, so it gets INVALID_RECORD.
            header = check_producer_batch(view)
        except InconsistentBatch as error:
            raise Refused(Code.INVALID_RECORD, str(error)) from None
        except DecodeError as error:
            raise Refused(Code.CORRUPT_MESSAGE, str(error)) from None
        self._check_meaning(header)
        return header

    def _check_meaning(self, header: BatchHeader) -> None:
        """Refuse produced batches of control records or transactions, and without a sequence.

        A sequence number and an epoch are needed in an idempotent batch, which has a producer id.
        """
        if header.is_control or header.count == 0:
            raise Refused(Code.INVALID_RECORD, "clients write records, not markers")
        if header.is_transactional and self._request.transactional_id is None:
            raise Refused(
                Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a batch of a transaction comes with a transactional id",
            )
        if header.is_transactional or self._request.transactional_id is not None:
            raise Refused(Code.INVALID_TXN_STATE, "this broker has no transactions yet")
        # Kafka stores a producer id without an epoch; nothing could tell its duplicates.
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            raise Refused(
                Code.INVALID_RECORD, "an idempotent batch has a sequence number and an epoch"
            )
        # KIP-110: clients that speak an older version do not know the codec.
        if header.compression == ZSTD and self._version < FIRST_ZSTD_VERSION:
            raise Refused(Code.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs produce version 7")


def _error_response(
    index: int, code: Code, why: str, faults: Iterable[RecordError] = ()
) -> PartitionProduceResponse:
    """Return the error of one partition for the Produce response."""
    errors = tuple(
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=fault)
        for index, fault in faults
    )
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        log_start_offset=-1,
        error_message=why,
        record_errors=errors,
    )


HANDLERS: dict[type, BrokerHandler] = {ProduceRequest: produce}
