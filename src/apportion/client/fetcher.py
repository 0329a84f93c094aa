"""The records that a consumer fetches, and its position in each partition.

The position of a partition is the offset after its last delivered record, so a record counts as
delivered when `take` returns it. Batches are decoded one at a time, when their records are taken.
It knows no group: `Consumer` says which partitions it owns, and where they start.
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.options import RESETS
from apportion.client.outage import Outage
from apportion.client.partition_logs import Fetch
from apportion.errors import Code, Refused
from apportion.topics import TopicIdPartition
from apportion.wire.batch import Headers, decode_batch, read_header

log = logging.getLogger("apportion.consumer")


class ConsumerRecord(NamedTuple):
    """One record. `timestamp_ms` is the producer's, or the broker's for LogAppendTime topics."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Fetcher:
    """Positions of one consumer's partitions, and the records that were fetched but not delivered.

    positions: each owned partition -> the offset of the next record to deliver.
    """

    def __init__(
        self, cluster: Cluster, group_id: str, reset: str, request_timeout_ms: int
    ) -> None:
        """Own no partition yet. reset: `auto_offset_reset`."""
        self._cluster = cluster
        self._outage = Outage(log, group_id)
        self._reset = reset
        self._request_timeout_ms = request_timeout_ms
        self.positions: dict[TopicIdPartition, int] = {}
        self._batches: deque[tuple[TopicIdPartition, memoryview]] = deque()
        self._records: deque[ConsumerRecord] = deque()
        # One partition at a time, so that `drop` can discard decoded records without looking at
        # each.
        self._records_of: TopicIdPartition | None = None  # the partition of all of `_records`
        self._rotation = 0

    def fetch(self, wait_ms: int) -> bool:
        """Fetch the consumer's partitions for up to `wait_ms`; return False if that is impossible.

        Fetching is impossible while the consumer owns no partition, and while no broker answers.
        Raises Refused for an error that no retry mends.
        """
        if not self.positions:
            return False
        try:
            fetched = self._cluster.fetch(self._rotated_positions(), max_wait_ms=wait_ms)
            for partition, fetch in fetched.items():
                self._take_fetched(partition, fetch)
        # A consumer outlives an outage of its brokers; positions are unchanged, so the next poll
        # fetches the same offsets.
        except (Disconnected, Refused) as error:
            if isinstance(error, Refused) and not error.code.retriable:
                raise
            self._outage.record_failure(f"cannot fetch now, and tries again until it can: {error}")
            return False
        self._outage.record_success("fetches again")
        return True

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return the consumer's next records, at most `limit`; the positions move behind them."""
        taken: list[ConsumerRecord] = []
        while len(taken) < limit and (self._records or self._decode_next_batch()):
            assert self._records_of is not None
            record = self._records.popleft()
            # offset + 1 and not the next record's: compaction leaves holes, and Kafka commits the
            # offset after the last one read.
            self.positions[self._records_of] = record.offset + 1
            taken.append(record)
        return taken

    def drop(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Forget the positions, batches and records of partitions that were revoked or lost."""
        dropped = dict.fromkeys(partitions)
        # Batches too: records of a revoked partition that were delivered later would be delivered
        # twice in the group.
        self._batches = deque(entry for entry in self._batches if entry[0] not in dropped)
        if self._records_of in dropped:
            self._records.clear()
        for partition in dropped:
            self.positions.pop(partition, None)

    def starting_offsets(
        self, partitions: Sequence[TopicIdPartition], why: str
    ) -> dict[TopicIdPartition, int]:
        """Return the offsets that `auto_offset_reset` chooses. Raises Refused if it is "error".

        why: what makes a reset necessary, for the error.
        """
        timestamp = RESETS[self._reset]
        if not partitions:
            return {}
        # auto.offset.reset=none in Kafka: a program that keeps its own offsets wants to hear of it.
        if timestamp is None:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE,
                f"auto_offset_reset is 'error', and of {partitions[0]}: {why}",
            )
        return self._cluster.list_offsets(
            partitions, timestamp, timeout_ms=self._request_timeout_ms
        )

    def _rotated_positions(self) -> dict[TopicIdPartition, int]:
        """Return the positions, with another partition first each time.

        Brokers fill a Fetch response in the request's order up to its size, so a fixed order would
        starve the last partitions.
        """
        self._rotation += 1
        order = sorted(self.positions)
        first = self._rotation % len(order)
        return {partition: self.positions[partition] for partition in order[first:] + order[:first]}

    def _take_fetched(self, partition: TopicIdPartition, fetch: Fetch) -> None:
        """Queue a Fetch response's batches of one partition, or reset its position by the policy.

        The position of queued batches moves when `take` delivers their records.
        """
        if fetch.code is Code.OFFSET_OUT_OF_RANGE:
            why = (
                f"{partition}: offset {self.positions[partition]} is out of range; the log "
                f"begins at {fetch.log_start}"
            )
            log.warning(why)
            # Retention has deleted the position, or the log was truncated; Kafka's consumer applies
            # auto.offset.reset to both.
            self.positions.update(self.starting_offsets([partition], why))
        elif fetch.batches:
            self._batches.extend((partition, batch) for batch in fetch.batches)
        elif fetch.next_offset > self.positions[partition]:
            # Nothing but control batches and aborted records came: without this step they would be
            # fetched for ever.
            self.positions[partition] = fetch.next_offset

    def _decode_next_batch(self) -> bool:
        """Decode the consumer's next batch with records; return False if there is none."""
        while self._batches:
            partition, batch = self._batches.popleft()
            position = self.positions[partition]
            # Batches are fetched whole: the first records of one may lie below the position.
            records = [record for record in decode_batch(batch) if record.offset >= position]
            self._records.extend(
                ConsumerRecord(partition.topic, partition.partition, *record) for record in records
            )
            if records:
                self._records_of = partition
                return True
            # Compaction has removed every record; without this step the batch would be fetched for
            # ever.
            self.positions[partition] = max(position, read_header(batch).last_offset + 1)
        return False
