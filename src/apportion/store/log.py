"""The log of one partition: segments of record batches, appended at the end, read anywhere.

A log knows offsets and bytes. The node decides which of them are durable, who may see them and
which offsets a batch gets.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import attrgetter

from apportion.errors import DecodeError
from apportion.store.disk import Disk, DiskError, parent_of
from apportion.store.index import NEVER
from apportion.store.recover import START, recover
from apportion.store.segment import CLEANED, EMPTY, BatchPosition, Segment
from apportion.store.settings import LogSettings
from apportion.wire.batch import HEADER_BYTES, read_header
from apportion.wire.codec import Buffer
from apportion.wire.compression import decompress
from apportion.wire.scan import scan_records

BY_BASE_OFFSET = attrgetter("base_offset")
MAX_SCANNED_BYTES, MAX_SCANNED_RECORDS = 1 << 25, 1_000_000
"""A batch that holds more is not decompressed: a crafted megabyte may hold more records than
memory.
"""


class Log:
    """Record batches at ascending offsets, in segments.

    The directory and its files are created by the first append.
    truncated_bytes: how much a crash had left half written, and the start cut off. settings: those
    of its topic, which may change; a segment that is written already keeps its index interval.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_leftovers",
        "_segments",
        "_starts",
        "_unsealed",
        "_unsynced",
        "settings",
        "truncated_bytes",
    )

    def __init__(self, disk: Disk, directory: str, settings: LogSettings) -> None:
        recovered = recover(disk, directory, settings)
        self._disk = disk
        self._directory = directory
        self.settings = settings
        self._segments = recovered.segments
        self._leftovers = recovered.leftovers
        # log start offsets that have a file: `<offset>.start`, empty; the last one counts
        self._starts = recovered.start_offsets
        # closed segments only: the last one is sealed when it is finished
        self._unsealed = (
            recovered.unsealed[:-1]
            if recovered.unsealed[-1:] == recovered.segments[-1:]
            else recovered.unsealed
        )
        self._unsynced: dict[str, None] = {}  # an ordered set
        if recovered.start_offsets:
            self._unsynced[directory] = None
        self.truncated_bytes = recovered.truncated_bytes
        # They were read back, but perhaps only from the page cache: the next flush syncs them.
        for segment in recovered.unsealed:
            self._unsynced |= {segment.path: None, directory: None, parent_of(directory): None}

    @classmethod
    def open(cls, disk: Disk, directory: str, settings: LogSettings | None = None) -> "Log":
        """Return the log in `directory`, or an empty one, without what a crash left half written.

        The records are readable then but not yet known to be durable, nor is a cut-off tail gone
        for ever: sync `take_unsynced_paths` before the first append, and before anything is shown.
        Errors: Damaged, DiskError.
        """
        return cls(disk, directory, settings or LogSettings())

    @property
    def start_offset(self) -> int:
        """The log start offset: the first that can be read; `next_offset` in an empty log."""
        return max(
            self._segments[0].base_offset if self._segments else 0,
            self._starts[-1] if self._starts else 0,
        )

    @property
    def next_offset(self) -> int:
        """The log end offset: the base offset of the next batch."""
        return self._segments[-1].next_offset if self._segments else 0

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return sum(segment.size_bytes for segment in self._segments)

    def append(self, batch: Buffer, *, last_offset: int, max_timestamp_ms: int) -> None:
        """Append a whole batch to the partition's log: readable, not yet durable.

        The batch's base offset must be `next_offset`. After a DiskError nothing has changed.
        """
        base_offset = int.from_bytes(batch[:8], "big", signed=True)
        assert base_offset == self.next_offset, (
            f"{self._directory}: a batch at {base_offset}, not at {self.next_offset}"
        )
        segment = self._segments[-1] if self._segments else None
        if segment is None or segment.should_roll(len(batch), max_timestamp_ms, self.settings):
            self._roll(batch, last_offset, max_timestamp_ms)
        else:
            segment.append(batch, last_offset, max_timestamp_ms)
            self._unsynced[segment.path] = None

    def read(self, offset: int, max_bytes: int, before_offset: int) -> memoryview:
        """Return whole batches from the one with `offset` on, all below `before_offset`.

        As many as fit into `max_bytes`, but the first always; never more than one segment holds. No
        byte is copied: the view shows the file, and stays valid whatever becomes of the log.
        """
        at = bisect_right(self._segments, offset, key=BY_BASE_OFFSET) - 1
        if at < 0 or offset >= self.next_offset:
            return EMPTY
        return self._segments[at].read(offset, max_bytes, before_offset)

    def offset_at_time(self, timestamp_ms: int, before_offset: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record at or after that time (for ListOffsets).

        Returns None if there is none before `before_offset`. For a batch that cannot be decoded, or
        is too large to decompress, it returns the first offset and the largest timestamp.
        """
        start_offset = self.start_offset
        for segment in self._segments:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            for batch in segment.batches_at_time(timestamp_ms):
                if batch.base_offset >= before_offset:
                    return None
                if batch.last_offset < start_offset:
                    continue
                times = _record_timestamps(batch, segment.view(batch), start_offset)
                first = next((time for time in times if time[1] >= timestamp_ms), None)
                if first is not None:
                    return first if first[0] < before_offset else None
        return None

    def largest_timestamp_ms(self, before_offset: int) -> int:
        """Return the largest timestamp of the batches that begin before `before_offset`.

        NEVER if there are none. Of a batch in which the log begins, only the readable records
        count.
        """
        largest_ms, start_offset = NEVER, self.start_offset
        for segment in self._segments:
            if segment.next_offset <= before_offset and segment.base_offset >= start_offset:
                largest_ms = max(largest_ms, segment.max_timestamp_ms)
                continue
            for batch in segment.batches(start_offset):
                if batch.base_offset >= before_offset:
                    break
                is_cut = batch.base_offset < start_offset
                times = (
                    _record_timestamps(batch, segment.view(batch), start_offset)
                    if is_cut
                    else [(0, batch.max_timestamp_ms)]
                )
                largest_ms = max(largest_ms, *(time for _, time in times))
        return largest_ms

    def batches(self, from_offset: int) -> Iterator[memoryview]:
        """Yield every record batch of the log that ends at or after `from_offset`, in order."""
        for segment in self._segments:
            if segment.next_offset > from_offset:
                yield from map(segment.view, segment.batches(from_offset))

    def take_unsynced_paths(self) -> tuple[str, ...]:
        """Return the files and directories of the log that the next flush must sync; forget them.

        Called by the partition of the log.
        """
        self._seal_durable_segments()
        paths = tuple(self._unsynced)
        self._unsynced.clear()
        return paths

    def segments(self) -> tuple[Segment, ...]:
        """Return the segments in order, for inspection only; the last one takes more batches."""
        return tuple(self._segments)

    def roll_segment(self) -> None:
        """Start a new, empty segment, so that all before it can be deleted (retention).

        After a DiskError nothing is lost.
        """
        if self._segments and self._segments[-1].size_bytes:
            following = self._next_segment()
            self._disk.resize(following.path, 0)
            self._segments.append(following)

    def raise_start_offset(self, offset: int) -> None:
        """Raise the log start offset, for DeleteRecords and retention.

        After a DiskError nothing has changed.
        """
        if offset > self.start_offset:
            self._disk.resize(self._start_path(offset), 0)
            self._starts.append(offset)
            self._unsynced[self._directory] = None

    def delete_before(self, start_offset: int) -> None:
        """Delete the segments below `start_offset`, which must be durable as the log start offset.

        The active segment stays. A later call tries again what the disk refuses to delete.
        """
        if not self._starts:
            return
        deleted = [
            segment
            for segment, following in pairwise(self._segments)
            if following.base_offset <= start_offset
        ]
        self._segments = self._segments[len(deleted) :]
        self._unsealed = [segment for segment in self._unsealed if segment not in deleted]
        self._leftovers += deleted
        with suppress(DiskError):  # a later call tries it again
            while self._starts[0] < min(start_offset, self._starts[-1]):
                self._disk.delete(self._start_path(self._starts[0]))
                del self._starts[0]
                self._unsynced[self._directory] = None
            if self._leftovers:
                self.delete_leftovers()

    def delete(self) -> None:
        """Delete the partition's log with all its files and their directory, for DeleteTopics.

        Also for a rollback. Views that Fetch responses hold stay valid. Sync
        `take_unsynced_paths` after it.
        """
        names = self._disk.list_dir(self._directory)
        for name in names:
            self._disk.delete(f"{self._directory}/{name}")
        self._disk.delete(self._directory)
        self._segments, self._unsealed, self._leftovers, self._starts = [], [], [], []
        self._unsynced = {parent_of(self._directory): None}

    def truncated(self, next_offset: int, start_offset: int) -> "Log":
        """Return the log as its files are after everything from `next_offset` on was cut off.

        The old object must not be used again. The new log begins at `start_offset`. Called after a
        refused sync: what was written since the last one is visible to nobody and may never reach
        the disk. Also called after an append that failed halfway: then the files hold more than the
        old log knows.
        """
        on_disk = Log(self._disk, self._directory, self.settings)
        for segment in on_disk._segments:
            if segment.base_offset > next_offset:
                self._disk.delete(segment.path)
                self._disk.delete(segment.seal_path)
                continue
            # It stays, empty: if all before it has expired, only its name has the offset.
            if segment.base_offset == next_offset:
                self._disk.delete(segment.seal_path)
                self._disk.resize(segment.path, 0)
                continue
            lost = next(
                (
                    batch
                    for batch in segment.batches(next_offset)
                    if batch.base_offset >= next_offset
                ),
                None,
            )
            if lost is not None:
                self._disk.delete(segment.seal_path)
                self._disk.resize(segment.path, lost.start)
        for start in on_disk._starts:
            if start > start_offset:
                self._disk.delete(self._start_path(start))
        log = Log(self._disk, self._directory, self.settings)
        log._unsynced[self._directory] = None
        assert log.start_offset <= log.next_offset, (
            f"{self._directory} begins at {log.start_offset}, behind its end"
        )
        return log

    def closed_segments(self, before_offset: int) -> tuple[Segment, ...]:
        """Return the closed segments that log compaction may clean, which end before the offset."""
        return tuple(
            segment for segment in self._segments[:-1] if segment.next_offset <= before_offset
        )

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """Return an empty segment for the log cleaner to write retained records to.

        The segment is no part of the log yet, and recovery would delete it.
        """
        cleaned = Segment(self._disk, self._directory, base_offset, self.settings, suffix=CLEANED)
        self._disk.delete(cleaned.path)
        return cleaned

    def prepare_replacement(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Finish the compacted segment, so that the log cleaner may replace `old` by it.

        The cleaner may do so once the files of `take_unsynced_paths` are durable.
        """
        cleaned.finish()
        old[0].unseal()
        self._unsealed = [segment for segment in self._unsealed if segment not in old]
        self._unsynced |= {cleaned.path: None, self._directory: None}

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Replace the segments `old` by the compacted one: a log cleaning's last step."""
        assert tuple(self._segments[: len(old)]) == tuple(old), (
            f"{self._directory}: something else has changed the log"
        )
        cleaned.rename(old[0].path)
        cleaned.is_clean = True
        self._segments[: len(old)] = [cleaned]
        self._leftovers += old[1:]
        self._unsynced[self._directory] = None

    def discard_segment(self, cleaned: Segment) -> None:
        """Delete the segment that a failed log cleaning wrote; if the disk fails, recovery does."""
        with suppress(DiskError):
            self._disk.delete(cleaned.path)

    @property
    def has_leftovers(self) -> bool:
        """True while there are files of replaced or deleted segments."""
        return bool(self._leftovers)

    def delete_leftovers(self) -> None:
        """Delete the files of replaced and deleted segments; their replacement must be durable."""
        while self._leftovers:
            self._leftovers[-1].delete()
            self._leftovers.pop()
        self._unsynced[self._directory] = None

    def _roll(self, batch: Buffer, last_offset: int, max_timestamp_ms: int) -> None:
        """Roll the partition's log: append `batch` as the first one of a new segment."""
        segment = self._next_segment()
        segment.append(batch, last_offset, max_timestamp_ms)
        self._segments.append(segment)

    def _next_segment(self) -> Segment:
        """Finish the log's active segment, and return a new, empty one to follow it."""
        segment = Segment(self._disk, self._directory, self.next_offset, self.settings)
        last = self._segments[-1] if self._segments else None
        if last is None:
            self._disk.make_dir(self._directory)
        elif not last.is_finished:  # finished already if the disk refused the new segment before
            last.finish()
            self._unsynced[last.path] = None
            self._unsealed.append(last)
        self._unsynced |= {
            segment.path: None,
            self._directory: None,
            parent_of(self._directory): None,
        }
        return segment

    def _start_path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{START}"

    def _seal_durable_segments(self) -> None:
        """Seal the finished segments that are synced; without a seal a start reads them."""
        try:
            while self._unsealed and self._unsealed[0].seal_if_durable():
                del self._unsealed[0]
        except DiskError:
            return


def _record_timestamps(
    batch: BatchPosition, view: memoryview, from_offset: int
) -> Iterable[tuple[int, int]]:
    """Return place and timestamp of each record of a batch from `from_offset` on, for ListOffsets.

    The place is the record's offset, or the nearest of the batch (`BatchHeader.place`). For a batch
    that is not decoded, one pair: its first offset and its largest timestamp.
    """
    if batch.last_offset - batch.base_offset < MAX_SCANNED_RECORDS:
        with suppress(DecodeError):
            header = read_header(view)
            plain = decompress(header.compression, view[HEADER_BYTES:], MAX_SCANNED_BYTES)
            scan = scan_records(plain, header)
            places = scan.offsets.clip(batch.base_offset, batch.last_offset)
            is_readable = places >= from_offset
            offsets = places[is_readable].tolist()
            return zip(offsets, scan.timestamps_ms[is_readable].tolist(), strict=True)
    return [(max(batch.base_offset, from_offset), batch.max_timestamp_ms)]
