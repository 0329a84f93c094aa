"""Fetch: whole batches, as many as fit, delayed until there are enough.

Versions: 4-12 name topics, 13-18 give ids. From 7 on there could be fetch sessions. None is ever
opened, so every response is full: session id 0 in the response means "none", and clients then send
everything each time. Isolation levels read alike: without transactions the last stable offset is
the high watermark.
"""

from collections.abc import Iterable

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.delayed_fetches import FETCH
from apportion.node.partitions import LEADER_EPOCH, Partition
from apportion.topics import IdPartition
from apportion.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

NO_RECORDS = memoryview(b"")


def fetch(broker: BrokerContext, arrived: Arrived, now: Instant) -> Answer | None:
    """Handle Fetch: answer with records, or delay the request until there are more.

    A delayed Fetch waits for `min_bytes`, `max_wait_ms` at the most (Kafka's fetch purgatory,
    `DelayedFetches`).
    Errors: FETCH_SESSION_ID_NOT_FOUND for a session, since none was ever opened; the others by
    partition.
    """
    request: FetchRequest = arrived.request
    if request.session_epoch > 0:
        return Answer(FetchResponse(error_code=Code.FETCH_SESSION_ID_NOT_FOUND))
    result = FetchResult(broker, arrived)
    # Kafka's purgatory: an idle consumer costs one request for each `max_wait_ms`.
    if result.is_complete or request.max_wait_ms <= 0:
        return Answer(result.response)
    broker.delayed_fetches.park(arrived, result.partitions)
    broker.deadlines.arm((FETCH, arrived.ticket), now.mono_ms + request.max_wait_ms)
    return None


class FetchResult:
    """Present records of one Fetch's partitions, as its response.

    is_complete: it may be sent without further waiting, because there is enough, or an error.
    """

    __slots__ = (
        "_left_bytes",
        "bytes",
        "failed",
        "is_complete",
        "partitions",
        "response",
    )

    def __init__(self, broker: BrokerContext, arrived: Arrived) -> None:
        """Read the requested partitions, and build the Fetch response."""
        request: FetchRequest = arrived.request
        self._left_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
        self.bytes = 0
        self.failed = False
        existing: list[IdPartition] = []
        topics = []
        for topic, requested_partitions in _distinct_partitions(request.topics):
            topic_id = topic.topic_id if arrived.version >= 13 else None
            responses = []
            for requested in requested_partitions:
                try:
                    partition = broker.partition(
                        topic.topic,
                        requested.partition,
                        topic_id=topic_id,
                        leader_epoch=requested.current_leader_epoch,
                    )
                    existing.append(IdPartition(partition.topic.id, partition.index))
                    responses.append(self._read(partition, requested))
                except Refused as refused:
                    responses.append(self._error(requested, refused.code))
            topics.append(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=tuple(responses)
                )
            )
        self.partitions = tuple(existing)
        self.response = FetchResponse(responses=tuple(topics))
        # an error is answered at once, as in Kafka
        self.is_complete = self.failed or not existing or self.bytes >= request.min_bytes

    def _read(self, partition: Partition, requested: FetchPartition) -> PartitionData:
        """Read one partition of the Fetch.

        The first batch of the whole response comes even if it exceeds every limit (KIP-74).
        Errors: OFFSET_OUT_OF_RANGE.
        """
        # KIP-320: it has read records of a later leader, which this log does not have.
        if requested.last_fetched_epoch > LEADER_EPOCH:
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        limit = min(requested.partition_max_bytes, self._left_bytes)
        # At least 1, because at 0 no batch would come, and KIP-74 wants the first one in any case.
        view = partition.read(requested.fetch_offset, max(limit, 1))
        # KIP-74: only the first batch of the response may be too large. Without it a consumer would
        # ask for that batch for ever.
        if len(view) > limit and self.bytes:
            view = NO_RECORDS
        self.bytes += len(view)
        self._left_bytes = max(0, self._left_bytes - len(view))
        return PartitionData(
            partition_index=requested.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.high_watermark,
            log_start_offset=partition.start_offset,
            aborted_transactions=None,
            records=view,
        )

    def _error(self, requested: FetchPartition, code: Code) -> PartitionData:
        """Return one partition's error for the Fetch response, which then waits no longer."""
        self.failed = True
        return PartitionData(
            partition_index=requested.partition,
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=None,
            records=NO_RECORDS,
        )


def _distinct_partitions(
    topics: Iterable[FetchTopic],
) -> Iterable[tuple[FetchTopic, Iterable[FetchPartition]]]:
    """Return every topic of a Fetch with each partition once.

    Of a partition named twice the last mention counts, as in Kafka.
    """
    by_topic: dict[tuple[str, bytes], tuple[FetchTopic, dict[int, FetchPartition]]] = {}
    for topic in topics:
        _, partitions = by_topic.setdefault((topic.topic, topic.topic_id), (topic, {}))
        partitions.update((partition.partition, partition) for partition in topic.partitions)
    return ((topic, partitions.values()) for topic, partitions in by_topic.values())


HANDLERS: dict[type, BrokerHandler] = {FetchRequest: fetch}
