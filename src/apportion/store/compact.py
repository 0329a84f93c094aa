"""Cleaning a log: of each key its last record stays, at its offset and with its time, and all older ones go.

Everything but the segment that is still written becomes one segment. It is written beside the old ones, and when it is durable
one rename puts it into the place of the first of them; the others it covers, so whoever comes upon them later knows them for
leftovers. A loss of power finds the old log or the new one. Every offset still belongs to a batch, though fewer have a record.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto

from apportion.errors import DecodeError
from apportion.store.disk import Damaged, DiskError
from apportion.store.log import Log
from apportion.store.segment import Segment
from apportion.wire.batch import Record, decode_batch, encode_records

DIRTY_RATIO = 0.5
"""How much of what can be cleaned must not have been cleaned before, as Kafka's `min.cleanable.dirty.ratio`."""
MAX_KEYS = 1_000_000
"""A cleaning takes no further segment once it remembers so many keys."""
STEP_BYTES = 1 << 16
"""How much of the log is read before others have their turn."""
BATCH_BYTES = 1 << 16
"""How large a batch of survivors grows before the next one begins."""
MAX_BATCH_OFFSETS = 1 << 30
"""How many offsets one batch covers at the most: the format counts them in 31 bits."""
ATTRIBUTES_BYTE, TRANSACTION_BITS = 22, 16 | 32
"""The byte of a batch's header, and the bits in it, that say that a transaction wrote it, or ended with it."""

IsRetained = Callable[[Record], bool]


class CleanerPause(Enum):
    """What a cleaning waits for."""

    YIELD = auto()  # it has worked long enough for one step
    FLUSH = auto()  # the log's `unsynced_paths` must be durable before it goes on


def is_dirty_enough(log: Log, before_offset: int) -> bool:
    """True where more than DIRTY_RATIO of the closed segments that end before `before_offset` was never cleaned."""
    closed = log.closed_segments(before_offset)
    dirty_bytes = sum(segment.size_bytes for segment in closed if not segment.is_clean)
    return dirty_bytes > DIRTY_RATIO * sum(segment.size_bytes for segment in closed)


def clean_log(log: Log, before_offset: int, tombstones_since_ms: int) -> Iterator[CleanerPause]:
    """Run to its end: the closed segments that end before `before_offset`, which are durable, are one, and hold each key once.

    A tombstone that is older than `tombstones_since_ms` goes too. It may: the cleaning begins where the log does, so whatever
    older record it hides goes in the same rename. The log may grow meanwhile; nothing else may change it. A cleaning that is
    dropped half-way leaves the log as it was. DiskError, Damaged likewise.
    """
    last: dict[bytes | None, int] = {}
    segments = yield from _build_offset_map(log.closed_segments(before_offset), last)
    if not segments:
        return

    def keeps(record: Record) -> bool:
        if record.key is None or last.get(record.key, record.offset) > record.offset:
            return False
        return record.value is not None or record.timestamp_ms >= tombstones_since_ms

    cleaned = log.new_cleaned_segment(segments[0].base_offset)
    try:
        yield from _copy_retained(segments, cleaned, keeps)
        log.prepare_replacement(segments, cleaned)
        yield CleanerPause.FLUSH
        log.replace_segments(segments, cleaned)
    except (DiskError, Damaged):
        log.discard_segment(cleaned)
        raise
    yield CleanerPause.FLUSH
    with suppress(DiskError):  # then there are files that nobody needs, and the next start reads the new one
        log.delete_leftovers()
        cleaned.seal()


def _build_offset_map(closed: Sequence[Segment], last: dict[bytes | None, int]) -> Generator[CleanerPause, None, list[Segment]]:
    """The segments to clean; `last` has the offset of the last record of each key, but where a clean segment has the only one."""
    segments: list[Segment] = []
    read_bytes = 0
    for segment in closed:
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


def _copy_retained(segments: Sequence[Segment], cleaned: Segment, keeps: IsRetained) -> Iterator[CleanerPause]:
    """`cleaned` covers the offsets of all segments, and holds the records that stay."""
    survivors: list[Record] = []
    read_bytes = held_bytes = 0
    last_offset = cleaned.next_offset - 1
    for segment in segments:
        for records, last_offset, size_bytes in _batches(segment):
            for record in records:
                if keeps(record):
                    survivors.append(record)
                    held_bytes += len(record.key or b"") + len(record.value or b"")
            if held_bytes >= BATCH_BYTES or last_offset - cleaned.next_offset >= MAX_BATCH_OFFSETS:
                _append_batch(cleaned, survivors, last_offset)
                survivors, held_bytes = [], 0
            read_bytes += size_bytes
            if read_bytes >= STEP_BYTES:
                read_bytes = 0
                yield CleanerPause.YIELD
    if cleaned.next_offset <= last_offset:
        _append_batch(cleaned, survivors, last_offset)


def _append_batch(cleaned: Segment, survivors: Sequence[Record], last_offset: int) -> None:
    """`cleaned` goes on up to `last_offset`, with these records."""
    base_offset = cleaned.next_offset
    batch = encode_records(survivors, base_offset=base_offset, last_offset_delta=last_offset - base_offset)
    cleaned.append(batch, last_offset, max((record.timestamp_ms for record in survivors), default=-1))


def _batches(segment: Segment) -> Iterator[tuple[list[Record], int, int]]:
    """Records, last offset and size of every batch. Damaged for bytes that are no batch, or one of a transaction."""
    for placed in segment.batches(segment.base_offset):
        view = segment.view(placed)
        if view[ATTRIBUTES_BYTE] & TRANSACTION_BITS:
            raise Damaged(f"{segment.path}, offset {placed.base_offset}: a batch of a transaction, which no coordinator here wrote")
        try:
            records = decode_batch(view)
        except DecodeError as error:
            raise Damaged(f"{segment.path}, offset {placed.base_offset}: {error}") from None
        yield records, placed.last_offset, placed.end - placed.start
