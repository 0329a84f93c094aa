"""Log compaction: of each key only the last record stays, at its offset and with its timestamp.

Problem. `cleanup.policy=compact` (here for `__consumer_offsets`): drop records that a later one
with the same key supersedes, and old tombstones, while the log is read and appended to and the
power may fail.

Method, after Kafka's LogCleaner:
1. Offset map (`_build_offset_map`): read the closed segments and remember the last offset of each
   key, at most MAX_KEYS. Clean segments need no reading: within them a key is unique already.
2. Copy (`_copy_retained`): write the retained records of these segments into one new segment. A
   record is retained if no later offset is known for its key, and if it is no tombstone older than
   the limit (`delete.retention.ms`). An old tombstone may go because the cleaning begins where the
   log does: every older record of its key goes in the same step.
3. Swap: sync the new file, rename it over the first old segment, sync the directory, delete the
   others. The new segment covers all their offsets, so a start that still finds them knows them for
   leftovers (`recover.py`). A loss of power leaves the old log or the new one, never a mixture.

Every offset still belongs to a batch, though fewer have a record. Why it ends: one pass over a
fixed list of closed segments. Cost: two reads and one write of them; the work yields every
STEP_BYTES.

Example. Offsets 0: a=1, 1: b=1, 2: a=2, then the active segment. Map: a -> 2, b -> 1. The cleaned
segment covers offsets 0-2 and holds b=1 at offset 1 and a=2 at offset 2.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto

from apportion.errors import DecodeError
from apportion.store.disk import Damaged, DiskError
from apportion.store.log import Log
from apportion.store.segment import Segment
from apportion.wire.batch import (
    ATTRIBUTES_BYTE,
    CONTROL,
    TRANSACTIONAL,
    Record,
    decode_batch,
    encode_records,
)

DIRTY_RATIO = 0.5
"""The least part of the closed segments that must be uncleaned (Kafka:
`min.cleanable.dirty.ratio`).
"""
MAX_KEYS = 1_000_000
"""A cleaning takes no further segment once its offset map has this many keys."""
STEP_BYTES = 1 << 16
"""How much of the log is read between two YIELDs."""
BATCH_BYTES = 1 << 16
"""The size at which a batch of retained records is written."""
MAX_BATCH_OFFSETS = 1 << 30
"""How many offsets one batch covers at most: the format counts them in 31 bits."""

IsRetained = Callable[[Record], bool]


class CleanerPause(Enum):
    """Reason for a pause of the log cleaner."""

    YIELD = auto()  # STEP_BYTES were read: other work goes first
    FLUSH = auto()  # the log's `take_unsynced_paths` must be synced before the cleaning goes on


def is_dirty_enough(log: Log, before_offset: int) -> bool:
    """Return whether more than DIRTY_RATIO of a log's bytes are dirty, so that it is compacted.

    Only closed segments that end before `before_offset` count; the dirty ones were never cleaned.
    """
    closed = log.closed_segments(before_offset)
    dirty_bytes = sum(segment.size_bytes for segment in closed if not segment.is_clean)
    return dirty_bytes > DIRTY_RATIO * sum(segment.size_bytes for segment in closed)


def clean_log(log: Log, before_offset: int, tombstones_since_ms: int) -> Iterator[CleanerPause]:
    """Compact the log's closed segments that end before `before_offset`; yield where it may pause.

    Called by the cleaner of `__consumer_offsets`. Those segments must be durable. Tombstones older
    than `tombstones_since_ms` are dropped. The log may grow meanwhile; nothing else may change it.
    Closing the generator early, DiskError and Damaged leave the log as it was.
    """
    last: dict[bytes | None, int] = {}
    segments = yield from _build_offset_map(log.closed_segments(before_offset), last)
    if not segments:
        return

    def is_retained(record: Record) -> bool:
        if record.key is None or last.get(record.key, record.offset) > record.offset:
            return False
        return record.value is not None or record.timestamp_ms >= tombstones_since_ms

    cleaned = log.new_cleaned_segment(segments[0].base_offset)
    try:
        yield from _copy_retained(segments, cleaned, is_retained)
        log.prepare_replacement(segments, cleaned)
        # The content before the name: a file that was renamed unsynced may be torn after a loss of
        # power.
        yield CleanerPause.FLUSH
        log.replace_segments(segments, cleaned)
    except (DiskError, Damaged):
        log.discard_segment(cleaned)
        raise
    # The name before the deletions: a crash could otherwise undo the rename when the old files are
    # gone.
    yield CleanerPause.FLUSH
    # leftovers stay then, and the next start reads the new segment and drops them
    with suppress(DiskError):
        log.delete_leftovers()
        cleaned.seal()  # durable since the last FLUSH


def _build_offset_map(
    closed: Sequence[Segment], last: dict[bytes | None, int]
) -> Generator[CleanerPause, None, list[Segment]]:
    """Return the segments to clean, and fill `last` with the offset of each key's last record.

    The first pass of log compaction. Keys that occur in clean segments only are left out: there
    they are unique.
    """
    segments: list[Segment] = []
    read_bytes = 0
    for segment in closed:
        # The rest is for the next cleaning: the map has to fit into memory.
        if len(last) >= MAX_KEYS:
            break
        segments.append(segment)
        for records, _, size_bytes in () if segment.is_clean else _batches(segment):
            for record in records:
                last[record.key] = record.offset
            read_bytes += size_bytes
            if read_bytes >= STEP_BYTES:
                read_bytes = 0
                yield CleanerPause.YIELD
    return segments


def _copy_retained(
    segments: Sequence[Segment], cleaned: Segment, is_retained: IsRetained
) -> Iterator[CleanerPause]:
    """Copy the records that log compaction retains from all segments to `cleaned`.

    `cleaned` then covers the offsets of the segments, also of those records that were dropped.
    """
    retained: list[Record] = []
    read_bytes = retained_bytes = 0
    last_offset = cleaned.next_offset - 1
    for segment in segments:
        for records, last_offset, size_bytes in _batches(segment):
            for record in records:
                if is_retained(record):
                    retained.append(record)
                    retained_bytes += len(record.key or b"") + len(record.value or b"")
            covered_offsets = last_offset - cleaned.next_offset
            # Batches may be empty, but cover every offset: a reader must find a batch for any
            # offset that it asks for.
            if retained_bytes >= BATCH_BYTES or covered_offsets >= MAX_BATCH_OFFSETS:
                _append_batch(cleaned, retained, last_offset)
                retained, retained_bytes = [], 0
            read_bytes += size_bytes
            if read_bytes >= STEP_BYTES:
                read_bytes = 0
                yield CleanerPause.YIELD
    if cleaned.next_offset <= last_offset:
        _append_batch(cleaned, retained, last_offset)


def _append_batch(cleaned: Segment, retained: Sequence[Record], last_offset: int) -> None:
    """Append the retained records as one batch to the cleaned segment, during log compaction.

    The batch covers all offsets up to `last_offset`, also those of dropped records; it may have no
    record at all. Its records may come from several batches.
    """
    base_offset = cleaned.next_offset
    batch = encode_records(
        retained, base_offset=base_offset, last_offset_delta=last_offset - base_offset
    )
    cleaned.append(
        batch, last_offset, max((record.timestamp_ms for record in retained), default=-1)
    )


def _batches(segment: Segment) -> Iterator[tuple[list[Record], int, int]]:
    """Yield records, last offset and size in bytes of every batch of a segment to compact.

    Errors: Damaged for bytes that are no batch, and for a transactional batch.
    """
    for position in segment.batches(segment.base_offset):
        view = segment.view(position)
        if view[ATTRIBUTES_BYTE] & (TRANSACTIONAL | CONTROL):
            raise Damaged(
                f"{segment.path}, offset {position.base_offset}: a batch of a "
                "transaction, which no coordinator here wrote"
            )
        try:
            records = decode_batch(view)
        except DecodeError as error:
            raise Damaged(f"{segment.path}, offset {position.base_offset}: {error}") from None
        yield records, position.last_offset, position.end - position.start
