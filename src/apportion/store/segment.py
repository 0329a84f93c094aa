"""One segment of a log: a file of whole record batches, found by offset or by time.

Only batch headers are read, and they are trusted: `recover.py` has checked what a crash may have
left.
"""

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from apportion.store.disk import Damaged, Disk, DiskError
from apportion.store.index import (
    NEVER,
    GrowingIndex,
    Index,
    Seal,
    decode_seal_or_none,
    encode_seal,
    index_beside_seal,
)
from apportion.store.settings import LogSettings
from apportion.wire.codec import Buffer

HEAD = Struct(">qi11xi8xq")  # base offset, length, last offset delta, largest timestamp
PREFIX_BYTES = 12  # base offset and length, which the length does not count
EMPTY = memoryview(b"")
LOG = ".log"
CLEANED = ".cleaned"  # a segment that a cleaning writes, until it takes the place of others


class BatchPosition(NamedTuple):
    """A batch in a segment: the bytes from `start` to `end`, with facts from its header."""

    start: int
    end: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class Segment:
    """The batches from `base_offset` to before `next_offset`: the first `size_bytes` of a file.

    is_clean: a cleaning has made it, so it holds each key once.
    """

    __slots__ = (
        "_disk",
        "_file_bytes",
        "_finished",
        "_index_or_none",
        "_settings",
        "base_offset",
        "first_timestamp_ms",
        "is_clean",
        "max_timestamp_ms",
        "next_offset",
        "path",
        "seal_path",
        "size_bytes",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        settings: LogSettings,
        *,
        suffix: str = LOG,
    ) -> None:
        self._disk = disk
        self._settings = settings
        self._finished = False
        self._file_bytes = 0  # the size of the file: zeros stand behind the batches
        self._index_or_none: Index | None = GrowingIndex(settings.index_interval_bytes)
        self.path = f"{directory}/{base_offset:020d}{suffix}"
        self.seal_path = f"{directory}/{base_offset:020d}.sealed"
        self.is_clean = False
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        # of the first batch; not known of a sealed segment, which takes no more
        self.first_timestamp_ms = NEVER
        self.max_timestamp_ms = NEVER

    @property
    def is_finished(self) -> bool:
        """True when the segment takes no more batches."""
        return self._finished

    @property
    def index(self) -> Index:
        """The index from offset and time to byte position of the log segment.

        The index is read from the segment's seal (the side file of a finished segment) if there is
        one.
        """
        if self._index_or_none is not None:
            return self._index_or_none
        return index_beside_seal(
            self._disk.view(self.seal_path, 0, self._disk.size(self.seal_path))
        )

    def append(self, batch: Buffer, last_offset: int, max_timestamp_ms: int) -> None:
        """Append a batch to the log segment's file. After a DiskError nothing has changed."""
        end = self.size_bytes + len(batch)
        try:
            if end > self._file_bytes:
                self._preallocate(end)
            self._disk.append(self.path, self.size_bytes, batch)
        except DiskError:
            # what half a write has left is also found and cut at the next start
            with suppress(DiskError):
                self.trim()
            raise
        self.add_batch(self.next_offset, len(batch), last_offset, max_timestamp_ms)

    def add_batch(
        self, base_offset: int, batch_bytes: int, last_offset: int, max_timestamp_ms: int
    ) -> None:
        """Count the next batch of the log segment's file, already written, as part of the segment.

        For an append, and for log recovery, which reads the batches back.
        """
        assert isinstance(self._index_or_none, GrowingIndex), "a sealed segment takes no batch"
        self._index_or_none.add(base_offset, self.size_bytes, self.max_timestamp_ms)
        if not self.size_bytes:
            self.first_timestamp_ms = max_timestamp_ms
        self.size_bytes += batch_bytes
        self._file_bytes = max(self._file_bytes, self.size_bytes)
        self.next_offset = last_offset + 1
        self.max_timestamp_ms = max(self.max_timestamp_ms, max_timestamp_ms)

    def trim(self) -> None:
        """Cut the log segment's file behind its last batch, where preallocated zeros are."""
        self._disk.resize(self.path, self.size_bytes)
        self._file_bytes = self.size_bytes

    def finish(self) -> None:
        """Close the log segment to further batches and cut its file behind the last one."""
        self.trim()
        self._finished = True

    def should_roll(self, batch_bytes: int, timestamp_ms: int, settings: LogSettings) -> bool:
        """Return whether a batch of this size and largest timestamp begins a new log segment.

        settings: the log's, as they are now: those of a topic may change.
        """
        # An empty segment takes a batch of any size, or a large one would never find a segment.
        if self._finished or not self.size_bytes:
            return self._finished
        # Kafka measures the age of a segment by the timestamps of its batches, so a replay of old
        # records rolls as the first time.
        is_old = (
            self.first_timestamp_ms >= 0
            and timestamp_ms - self.first_timestamp_ms > settings.segment_ms
        )
        return is_old or self.size_bytes > settings.segment_bytes - batch_bytes

    def read(self, offset: int, max_bytes: int, before_offset: int) -> memoryview:
        """Return whole batches from the one with `offset` on, within this log segment, for Fetch.

        See `Log.read`.
        """
        first = next(self.batches(offset), None)
        if first is None or first.last_offset >= before_offset:
            return EMPTY
        stop = first.start + max_bytes
        # All that is left of the segment: no batch behind the first one has to be looked at.
        if before_offset >= self.next_offset and stop >= self.size_bytes:
            return self._disk.view(self.path, first.start, self.size_bytes)
        end = max(first.end, self.index.below(before_offset, stop))
        for batch in self._scan(end):
            if batch.end > stop or batch.last_offset >= before_offset:
                break
            end = batch.end
        return self._disk.view(self.path, first.start, end)

    def batches(self, offset: int) -> Iterator[BatchPosition]:
        """Yield the log segment's batches from the one with `offset` on, or from the next one."""
        return (
            batch
            for batch in self._scan(self.index.at_offset(offset))
            if batch.last_offset >= offset
        )

    def batches_at_time(self, timestamp_ms: int) -> Iterator[BatchPosition]:
        """Yield the segment's batches that may have a record at or after a time (ListOffsets)."""
        return (
            batch
            for batch in self._scan(self.index.at_time(timestamp_ms))
            if batch.max_timestamp_ms >= timestamp_ms
        )

    def view(self, batch: BatchPosition) -> memoryview:
        """Return the bytes of the batch."""
        return self._disk.view(self.path, batch.start, batch.end)

    def seal_if_durable(self) -> bool:
        """Write the log segment's seal if its file is synced; return whether it was."""
        if not self._disk.is_synced(self.path):
            return False
        self.seal()
        return True

    def seal(self) -> None:
        """Write the log segment's seal: a side file with its size, next offset and index.

        The next start of the broker believes the seal and reads no batch of the segment. The
        segment's file must be durable.
        """
        seal = Seal(self.size_bytes, self.next_offset, self.max_timestamp_ms, self.is_clean)
        # Not synced: if a crash loses or tears it, the next start reads the segment instead.
        self._disk.write_new(self.seal_path, encode_seal(seal, self.index))
        self._index_or_none = None  # from now on the index is read from the disk

    def rename(self, path: str) -> None:
        """Rename the compacted segment's file over `path`, that of a segment which it replaces.

        Views of the file that had the name stay valid.
        """
        self._disk.rename(self.path, path)
        self.path = path

    def unseal(self) -> None:
        """Delete the seal of the log segment, so that the next start reads the segment's batches.

        The seal is a side file with the size and index of a finished segment, which a start
        believes. It goes before the log cleaner replaces the segment by a compacted one.
        """
        # Into memory first, because it is read from the seal.
        self._index_or_none = self.index
        self._disk.delete(self.seal_path)

    def delete(self) -> None:
        """Delete the log segment's files: the seal first, then the batches."""
        # Alone, a seal would be believed for the next file of that name.
        self._disk.delete(self.seal_path)
        self._disk.delete(self.path)

    def adopt_seal(self) -> bool:
        """Take the log segment's state from its seal, in log recovery; return False if none.

        The seal is a side file with the state of a finished segment.
        """
        size = self._disk.size(self.seal_path)
        seal = decode_seal_or_none(self._disk.view(self.seal_path, 0, size)) if size else None
        if seal is None:
            return False
        self.size_bytes, self.next_offset, self.max_timestamp_ms, self.is_clean = seal
        self._index_or_none, self._finished = None, True
        return True

    def _preallocate(self, end: int) -> None:
        """Preallocate the log segment's file up to `end` and one step more, with zeros.

        Most syncs then need not record a new file size.
        """
        step = self._settings.growth_bytes
        if step:
            # Not beyond the size of a segment, where nothing would ever be written.
            file_bytes = min(-(-end // step) * step, max(end, self._settings.segment_bytes))
            self._disk.resize(self.path, file_bytes)
            self._file_bytes = file_bytes

    def _scan(self, position: int) -> Iterator[BatchPosition]:
        """Yield the log segment's batches from `position` on, which must be the start of a batch.

        Errors: Damaged for bytes that are no batch.
        """
        view = (
            self._disk.view(self.path, position, self.size_bytes)
            if position < self.size_bytes
            else EMPTY
        )
        at = 0
        while at < len(view):
            if len(view) - at < HEAD.size:
                raise Damaged(f"{self.path}: {len(view) - at} bytes after the last batch")
            base, length, last_delta, max_timestamp_ms = HEAD.unpack_from(view, at)
            end = at + PREFIX_BYTES + length
            if length <= HEAD.size - PREFIX_BYTES or end > len(view):
                raise Damaged(f"{self.path}: no batch at byte {position + at}")
            yield BatchPosition(
                position + at, position + end, base, base + last_delta, max_timestamp_ms
            )
            at = end
