"""The records that a consumer has fetched, and its position in each partition.

The position of a partition is the offset after its last delivered record, so a record counts as
delivered when `take` returns it. Batches are decoded one at a time, when their records are taken.
A batch whose records are not in the order of their offsets, as Kafka stores it too, has no such
offset before its end: the position waits in front of it until all of its records are taken.
The buffer knows no group and no network: `RecordConsumer` says which partitions are owned, where
they start, and what was fetched.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import NamedTuple

from apportion.errors import DecodeError
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.fetches import rotated
from apportion.topics import TopicIdPartition
from apportion.wire.batch import (
    HEADER_BYTES,
    LIMIT_BYTES,
    decode_records,
    read_header,
)
from apportion.wire.compression import decompress
from apportion.wire.record_fields import Headers


class ConsumerRecord(NamedTuple):
    """One record. `timestamp_ms` is the producer's, or the broker's for LogAppendTime topics."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class FetchBuffer:
    """Positions of one consumer's partitions, and the records that were fetched but not delivered.

    positions: each owned partition -> the offset of the next record to deliver. turn: how often
    the positions were fetched.
    """

    def __init__(self) -> None:
        """Own no partition yet."""
        self.positions: dict[TopicIdPartition, int] = {}
        self._batches: deque[tuple[TopicIdPartition, memoryview]] = deque()
        self._records: Iterator[ConsumerRecord] = iter(())
        # One partition at a time, so that `drop` can discard decoded records without looking at
        # each.
        self._records_of: TopicIdPartition | None = None  # the partition of all of `_records`
        # The position behind all of `_records`; None where each of them moves it.
        self._position_at_end: int | None = None
        self.turn = 0

    def add(self, partition: TopicIdPartition, fetch: PartitionFetch) -> None:
        """Queue the batches that a Fetch response has of one partition.

        Its position moves when `take` delivers their records. Batches of a partition that has been
        dropped meanwhile are not queued.
        """
        position = self.positions.get(partition)
        if position is None:
            return
        if fetch.batches:
            self._batches.extend((partition, batch) for batch in fetch.batches)
        # Nothing but control batches and aborted records came: without this step they would be
        # fetched for ever.
        elif fetch.next_offset > position:
            self.positions[partition] = fetch.next_offset

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return the consumer's next records, at most `limit`; the positions move behind them.

        Raises DecodeError at a damaged batch, once all records before it were returned, and in
        every call from then on.
        """
        try:
            taken = list(islice(self._records, limit))
            # Most calls end here: those of an iteration ask for one record at a time.
            if len(taken) == limit > 0:
                self._move(self.positions, taken)
                return taken
            # After the records, and all at once: what Ctrl-C keeps from the application must not be
            # committed when the consumer closes.
            self.positions |= self._take_batches(limit, taken)
        except DecodeError:
            raise
        except BaseException:
            # Some records have left the buffer. All are fetched again, from the positions.
            self._batches.clear()
            self._records = iter(())
            raise
        return taken

    def drop(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Forget the positions, batches and records of partitions that were revoked or lost."""
        dropped = dict.fromkeys(partitions)
        # Batches too: records of a revoked partition that were delivered later would be delivered
        # twice in the group.
        self._batches = deque(entry for entry in self._batches if entry[0] not in dropped)
        if self._records_of in dropped:
            self._records = iter(())
        for partition in dropped:
            self.positions.pop(partition, None)

    def rotate_positions(self) -> dict[TopicIdPartition, int]:
        """Put another partition first, and return the positions for the next fetch.

        Its leader is asked first then. Which partition comes first in the request to each leader
        follows from `turn` alone (`member/fetches.py`).
        """
        self.turn += 1
        return rotated(self.positions, self.turn)

    def _take_batches(self, limit: int, taken: list[ConsumerRecord]) -> dict[TopicIdPartition, int]:
        """Add records of further batches to those taken; return the positions behind them all."""
        moved: dict[TopicIdPartition, int] = {}
        if taken:
            self._move(moved, taken)
        try:
            while len(taken) < limit and self._decode_next_batch(moved):
                records = list(islice(self._records, limit - len(taken)))
                self._move(moved, records)
                taken += records
        except DecodeError:
            # What was decoded before the damaged batch is delivered first. The next call raises.
            if not taken:
                raise
        return moved

    def _move(
        self, positions: dict[TopicIdPartition, int], records: Sequence[ConsumerRecord]
    ) -> None:
        """Move the position of the decoded batch's partition behind these records of it."""
        assert self._records_of is not None
        # offset + 1 and not the next record's: compaction leaves holes, and Kafka commits the
        # offset after the last one read.
        if self._position_at_end is None:
            positions[self._records_of] = records[-1].offset + 1
        # A position within the batch would pass records that come later.
        elif not length_hint(self._records):
            positions[self._records_of] = self._position_at_end

    def _decode_next_batch(self, moved: dict[TopicIdPartition, int]) -> bool:
        """Decode the consumer's next batch with records; return False if there is none.

        moved: positions that are ahead of `positions`; a batch without records adds its own. Raises
        DecodeError for a damaged batch, which stays the next one.
        """
        while self._batches:
            partition, batch = self._batches[0]
            position = moved.get(partition, self.positions[partition])
            try:
                header = read_header(batch)
                body = decompress(header.compression, batch[HEADER_BYTES:], LIMIT_BYTES)
                stored, is_in_order = decode_records(body, header)
            except DecodeError as error:
                raise DecodeError(f"{partition} at offset {position}: {error}") from error
            # Batches are fetched whole: the first records of one may lie below the position.
            records = [
                ConsumerRecord(partition.topic, partition.partition, *record)
                for record in stored
                if position <= header.base_offset or header.place(record.offset) >= position
            ]
            self._batches.popleft()
            if records:
                self._records, self._records_of = iter(records), partition
                self._position_at_end = None if is_in_order else header.last_offset + 1
                return True
            # Compaction has removed every record; without this step the batch would be fetched for
            # ever.
            moved[partition] = max(position, header.last_offset + 1)
        return False
