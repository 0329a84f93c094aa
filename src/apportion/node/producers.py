"""The idempotent producers of one partition (KIP-98), by sequence numbers, without transactions.

Sequence numbers show duplicates and gaps. The state is rebuilt at start from the batch headers of
the log.
"""

from collections import deque
from typing import NamedTuple

from apportion.deadlines import Key
from apportion.errors import Code, Refused
from apportion.wire.batch import BatchHeader

PRODUCERS: Key = ("producers",)
"""The deadline of the next check for expired producer states."""
EXPIRY_CHECK_MS = 600_000  # Kafka's producer.id.expiration.check.interval.ms
BATCHES_PER_PRODUCER = 5  # as many requests as an idempotent producer may have in flight
SEQUENCES = 1 << 31  # a sequence number is a positive int32; after the last one comes 0


class StoredBatch(NamedTuple):
    """One stored batch: its sequence numbers and its place in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class ProducerState:
    """The newest batches of one producer id in one epoch."""

    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[StoredBatch] = deque(maxlen=BATCHES_PER_PRODUCER)
        self.seen_ms = 0  # wall clock of the last append


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def duplicate_or_none(self, header: BatchHeader) -> StoredBatch | None:
        """Return the stored batch that an idempotent producer's batch repeats; None to append it.

        Called by Produce. Errors: INVALID_PRODUCER_EPOCH for an older epoch;
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, or for a duplicate that is too old to be known. An
        unknown producer may start at any number.
        Source: KIP-98, KIP-360.
        """
        if header.producer_id < 0:
            return None
        producer = self._by_id.get(header.producer_id)
        # KIP-360: its records may have expired or been deleted, which is no fault of the producer.
        if producer is None:
            return None
        if header.producer_epoch < producer.epoch:
            raise Refused(
                Code.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} is at epoch {producer.epoch}, not "
                f"{header.producer_epoch}",
            )
        if header.producer_epoch > producer.epoch:
            # KIP-360: after an error a producer raises its epoch and counts from 0 again.
            if header.base_sequence != 0:
                raise Refused(
                    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"a new epoch starts at 0, not at {header.base_sequence}",
                )
            return None
        last = last_sequence(header)
        for batch in producer.batches:
            # Both ends, because a producer repeats a batch only as it was.
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last:
                return batch
        # A gap means that an earlier batch is still under way: stored now, the records would change
        # places.
        expected = (producer.batches[-1].last_sequence + 1) % SEQUENCES
        if header.base_sequence != expected:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} is at {expected}, not at {header.base_sequence}",
            )
        return None

    def appended(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Note that an idempotent producer's batch was appended at `base_offset`."""
        if header.producer_id < 0:
            return
        producer = self._by_id.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._by_id[header.producer_id] = ProducerState(header.producer_epoch)
        producer.batches.append(
            StoredBatch(
                header.base_sequence, last_sequence(header), base_offset, header.max_timestamp_ms
            )
        )
        producer.seen_ms = now_ms

    def roll_back(self, next_offset: int, stored: "ProducerStates") -> None:
        """Forget the idempotent producers' batches from `next_offset` on, which were cut away.

        stored: the producers of the batches that are left in the log. Producers without a batch
        that was cut away stay as they are: the log may no longer hold their batches, and its
        timestamps do not say when a producer was seen.
        """
        for producer_id, producer in list(self._by_id.items()):
            remaining = [batch for batch in producer.batches if batch.base_offset < next_offset]
            if len(remaining) == len(producer.batches):
                continue
            before = stored._by_id.get(producer_id)
            if before is not None:
                # The log has the producer's own timestamps, which say nothing about when it was
                # seen.
                before.seen_ms = producer.seen_ms
                self._by_id[producer_id] = before
            elif remaining:
                producer.batches = deque(remaining, BATCHES_PER_PRODUCER)
            else:
                del self._by_id[producer_id]

    def forget_before(self, wall_ms: int) -> None:
        """Forget the idempotent producers that have appended nothing since `wall_ms`.

        For `producer.id.expiration.ms`; the node calls it when the deadline PRODUCERS is due.
        """
        silent = [
            producer_id
            for producer_id, producer in self._by_id.items()
            if producer.seen_ms < wall_ms
        ]
        for producer_id in silent:
            del self._by_id[producer_id]


def last_sequence(header: BatchHeader) -> int:
    """Return the sequence number of the last record of a batch."""
    return (header.base_sequence + header.last_offset_delta) % SEQUENCES
