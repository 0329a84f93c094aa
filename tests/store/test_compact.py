"""A cleaned log replays to the same state, also when the power goes in the middle of
it.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.store import compact
from apportion.store.compact import DIRTY_RATIO, CleanerPause, clean_log, is_dirty_enough
from apportion.store.disk import Damaged, DiskError
from apportion.store.files import RealDisk
from apportion.store.log import Log
from apportion.store.memory_disk import MemoryDisk
from apportion.store.settings import LogSettings
from apportion.wire.batch import Record, decode_batch, encode_batch, encode_records

LAYOUT = LogSettings(segment_bytes=500, index_interval_bytes=100, growth_bytes=128)
NOBODY_STANDS = 1 << 62  # every tombstone is older
HERE = "t-0"

keys = st.integers(0, 5).map(lambda number: b"key%d" % number)
values = st.none() | st.integers(0, 40).map(bytes)
batches = st.lists(st.tuples(keys, values), min_size=1, max_size=5)
tombstone_times = st.sampled_from((0, 20, NOBODY_STANDS))


class PowerLoss(Exception):
    """The power went."""


class PowerCutDisk(MemoryDisk):
    """A disk whose power goes in front of its change of that number, and that may lose any change
    of a name before it.
    """

    def __init__(self, of: MemoryDisk) -> None:
        super().__init__()
        self._names, self._durable = of._names, of._durable
        self.left = -1  # changes until the power goes; -1: it stays
        # (old name or None, new name or None, what bears it) since the last sync of their directory
        self._renames: list[tuple[Any, str | None, Any]] = []

    def disk_after_loss(self, tear_bytes: int | None, picks: list[bool]) -> MemoryDisk:
        """The disk after the power has gone, with those changes of names that `picks` says."""
        names = dict(self._durable)
        for (old, new, content), is_kept in zip(self._renames, picks, strict=False):
            if is_kept:
                names.pop(old, None)
                names |= {new: content} if new else {}
        left = MemoryDisk()
        left._names, left._durable = names, dict(names)
        return left.crash(tear_bytes)

    def append(self, path: str, at: int, data: bytes | bytearray | memoryview) -> None:
        self._change(None, path)
        super().append(path, at, data)
        self._changed(path)

    def resize(self, path: str, size_bytes: int) -> None:
        self._change(None, path)
        super().resize(path, size_bytes)
        self._changed(path)

    def delete(self, path: str) -> None:
        self._change(path, None)
        super().delete(path)

    def rename(self, old: str, new: str) -> None:
        self._change(old, new)
        super().rename(old, new)

    def sync(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._spend()
            super().sync([path])
            if path == HERE:
                self._renames.clear()

    def _change(self, old: Any, new: Any) -> None:
        self._spend()
        self._renames.append((old, new, self._names.get(old)))

    def _changed(self, path: str) -> None:
        self._renames[-1] = (None, path, self._names[path])

    def _spend(self) -> None:
        if self.left == 0:
            raise PowerLoss
        self.left -= 1


def add(log: Log, records: list[tuple[bytes, bytes | None]], time_ms: int = 5) -> None:
    """One batch of (key, value), all of one time."""
    batch = encode_batch(
        [(key, value, ()) for key, value in records],
        base_offset=log.next_offset,
        timestamp_ms=time_ms,
    )
    log.append(batch, last_offset=log.next_offset + len(records) - 1, max_timestamp_ms=time_ms)


def all_records(log: Log) -> list[Record]:
    """All records of a log."""
    return [record for batch in log.batches(0) for record in decode_batch(batch)]


def state(records: list[Record]) -> Any:
    """What a reader knows in the end."""
    last: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        last.pop(record.key, None)
        if record.value is not None:
            last[record.key] = record.value
    return last


def filled(
    disk: RealDisk | MemoryDisk,
    batches_in: Any,
    layout: LogSettings = LAYOUT,
) -> Log:
    """A durable log that holds these batches, each at its own time."""
    log = Log.open(disk, HERE, layout)
    for time_ms, records in enumerate(batches_in):
        add(log, records, time_ms)
    disk.sync(log.take_unsynced_paths())
    disk.sync(log.take_unsynced_paths())  # what was closed is sealed now
    return log


def clean(disk: RealDisk | MemoryDisk, log: Log, before_offset: int, since_ms: int = 0) -> int:
    """The log is cleaned; how often others had their turn."""
    turns = 0
    for pause in clean_log(log, before_offset, since_ms):
        if pause is CleanerPause.FLUSH:
            disk.sync(log.take_unsynced_paths())
        else:
            turns += 1
    disk.sync(log.take_unsynced_paths())
    return turns


def left_of(records: list[Record], end: int, since_ms: int) -> list[Record]:
    """What a cleaning of everything before `end` leaves: the rule in its plainest form."""
    last = {record.key: record.offset for record in records if record.offset < end}
    return [
        record
        for record in records
        if record.offset >= end
        or (
            record.offset == last[record.key]
            and (record.value is not None or record.timestamp_ms >= since_ms)
        )
    ]


def files(disk: RealDisk | MemoryDisk) -> tuple[str, ...]:
    return disk.list_dir(HERE)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(batches, min_size=1, max_size=30), tombstone_times, st.sampled_from((1, 200, 1 << 16))
)
def test_of_each_key_the_last_record_stays_where_it_was(
    batches_in: list[list[tuple[bytes, bytes | None]]], since_ms: int, batch_bytes: int
) -> None:
    disk = MemoryDisk()
    log = filled(disk, batches_in)
    before, end = all_records(log), log.next_offset
    closed = log.closed_segments(end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "BATCH_BYTES", batch_bytes)
        clean(disk, log, end, since_ms)
    expected = left_of(before, closed[-1].next_offset, since_ms) if closed else before
    assert all_records(log) == expected
    assert state(all_records(log)) == state(before)
    assert (log.start_offset, log.next_offset) == (0, end)
    assert all_records(Log.open(disk.crash(), HERE, LAYOUT)) == expected
    for offset in range(end):  # a reader may begin anywhere, and nothing is given to it twice
        seen, at = [], offset
        while batch := bytes(log.read(at, 1, end)):
            seen += [record for record in decode_batch(batch) if record.offset >= at]
            at = int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1
        assert (at, seen) == (end, [record for record in expected if record.offset >= offset])


@settings(max_examples=400, deadline=None)
@given(
    st.lists(batches, min_size=8, max_size=25),
    tombstone_times,
    st.integers(0, 60),
    st.sampled_from((None, 0, 50, 100_000)),
    st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_a_loss_of_power_at_any_operation_finds_the_same_story(
    batches_in: list[list[tuple[bytes, bytes | None]]],
    since_ms: int,
    at: int,
    tear_bytes: int | None,
    picks: list[bool],
) -> None:
    whole = MemoryDisk()
    filled(whole, batches_in)
    disk = PowerCutDisk(whole.crash(100_000))
    log = Log.open(disk, HERE, LAYOUT)
    disk.sync(log.take_unsynced_paths())
    end, wanted = log.next_offset, state(all_records(log))
    disk.left = at
    with suppress(PowerLoss):
        clean(disk, log, end, since_ms)
    survivor = disk.disk_after_loss(tear_bytes, picks)
    # and what a start leaves is found by the next one, though nothing was synced in between
    for _ in range(2):
        log = Log.open(survivor, HERE, LAYOUT)
        assert (log.start_offset, log.next_offset, state(all_records(log))) == (0, end, wanted)
    survivor.sync(log.take_unsynced_paths())
    log.delete_leftovers()
    for _ in range(6):
        add(log, [(b"new", bytes(150))], 99)
    survivor.sync(log.take_unsynced_paths())
    clean(survivor, log, log.next_offset, since_ms)
    log = Log.open(survivor.crash(), HERE, LAYOUT)
    assert (log.next_offset, state(all_records(log))) == (end + 6, wanted | {b"new": bytes(150)})
    assert not any(name.endswith(".cleaned") for name in files(survivor))
    assert not log.has_leftovers


def test_a_log_that_grows_while_it_is_cleaned_keeps_what_is_new() -> None:
    disk = MemoryDisk()
    log = filled(disk, [[(b"a", bytes(40))]] * 20)
    end = log.next_offset
    for turn, _ in enumerate(clean_log(log, end, 0)):
        disk.sync(log.take_unsynced_paths())
        for _ in range(10):
            add(log, [(b"b", bytes([turn]) * 40)], 77)
    disk.sync(log.take_unsynced_paths())
    disk.sync(log.take_unsynced_paths())
    assert log.next_offset == end + 20
    new = [record for record in all_records(log) if record.timestamp_ms == 77]
    assert [record.offset for record in new] == list(range(end, end + 20))
    assert all_records(Log.open(disk.crash(), HERE, LAYOUT)) == all_records(log)


def test_a_tombstone_stands_until_it_is_old_and_goes_with_all_that_it_hides() -> None:
    disk = MemoryDisk()
    log = filled(disk, [[(b"a", bytes(200))], [(b"a", None)], *[[(b"b", bytes(200))]] * 5])
    clean(disk, log, log.next_offset, since_ms=1)
    tombstone = Record(1, 1, b"a", None)
    assert all_records(log)[0] == tombstone
    for _ in range(5):
        add(log, [(b"c", bytes(200))], 50)
    disk.sync(log.take_unsynced_paths())
    clean(disk, log, log.next_offset, since_ms=2)
    assert tombstone not in all_records(log)
    assert [record.key for record in all_records(log)].count(b"a") == 0


def test_a_batch_covers_no_more_offsets_than_the_format_can_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compact, "MAX_BATCH_OFFSETS", 7)
    disk = MemoryDisk()
    log = filled(disk, [[(b"a", bytes(90))]] * 40)
    clean(disk, log, log.next_offset)
    [cleaned, *_] = log.closed_segments(log.next_offset)
    spans = [batch.last_offset - batch.base_offset + 1 for batch in cleaned.batches(0)]
    assert (sum(spans), max(spans)) == (cleaned.next_offset, 8)


def test_the_last_offset_is_covered_also_when_its_record_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compact, "BATCH_BYTES", 1)
    disk = MemoryDisk()
    log = filled(
        disk, [[(b"a", bytes(300))], [(b"b", None)], [(b"c", bytes(400))], [(b"d", bytes(400))]]
    )
    ends = [segment.next_offset for segment in log.closed_segments(log.next_offset)]
    assert ends == [2, 3]
    for _ in clean_log(log, 2, NOBODY_STANDS):
        disk.sync(log.take_unsynced_paths())
    assert [
        (each.base_offset, each.last_offset) for each in log.closed_segments(2)[0].batches(0)
    ] == [(0, 0), (1, 1)]
    assert [record.offset for record in all_records(Log.open(disk, HERE, LAYOUT))] == [0, 2, 3]


def test_only_what_is_dirty_makes_a_cleaning_worth_while() -> None:
    disk = MemoryDisk()
    log = filled(disk, [[(b"a", bytes(300))]] * 3)
    assert not is_dirty_enough(log, log.closed_segments(3)[0].next_offset - 1)
    assert is_dirty_enough(log, log.next_offset)
    clean(disk, log, log.next_offset)
    assert not is_dirty_enough(log, log.next_offset)
    log = Log.open(disk, HERE, LAYOUT)  # a start knows what is clean
    assert not is_dirty_enough(log, log.next_offset)
    dirty = clean_bytes = log.closed_segments(log.next_offset)[0].size_bytes
    while dirty <= DIRTY_RATIO * (dirty + clean_bytes):
        assert not is_dirty_enough(log, log.next_offset)
        add(log, [(b"b", bytes(300))])
        dirty = sum(segment.size_bytes for segment in log.closed_segments(log.next_offset)[1:])
    assert is_dirty_enough(log, log.next_offset)


def test_steps_and_batches_are_no_larger_than_their_share() -> None:
    disk = MemoryDisk()
    log = filled(
        disk, [[(b"%d" % i, bytes(1000))] for i in range(500)], LogSettings(segment_bytes=100_000)
    )
    read_bytes = sum(segment.size_bytes for segment in log.closed_segments(log.next_offset))
    steps = clean(disk, log, log.next_offset)
    assert (
        2 * (read_bytes // (compact.STEP_BYTES + 2000))
        <= steps
        <= 2 * (read_bytes // compact.STEP_BYTES + 1)
    )
    sizes = [
        batch.end - batch.start for batch in log.closed_segments(log.next_offset)[0].batches(0)
    ]
    assert all(compact.BATCH_BYTES <= size < compact.BATCH_BYTES + 3000 for size in sizes[:-1])


def test_bytes_that_are_no_batch_stop_a_cleaning_before_it_has_changed_anything() -> None:
    disk = MemoryDisk()
    log = filled(disk, [[(b"a", bytes(300))]] * 5)
    names, segment = files(disk), log.closed_segments(log.next_offset)[1]
    disk.append(segment.path, 100, b"\xff")
    with pytest.raises(
        Damaged, match=rf"{segment.path}, offset {segment.base_offset}: .* wrong CRC"
    ):
        clean(disk, log, log.next_offset)
    assert files(disk) == names


def test_a_cleaning_that_meets_too_many_keys_ends_at_a_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compact, "MAX_KEYS", 3)
    disk = MemoryDisk()
    log = filled(disk, [[(b"%d" % (i % 10), bytes(100))] for i in range(40)])
    end, before = log.next_offset, all_records(log)
    first, last = log.closed_segments(end)[0], log.closed_segments(end)[-1]
    clean(disk, log, end)
    ends = [segment.next_offset for segment in log.closed_segments(end)]
    assert first.next_offset <= ends[0] < last.next_offset == ends[-1]
    assert all_records(log) == left_of(before, ends[0], 0)


def test_a_full_disk_leaves_the_log_as_it_was_and_the_next_cleaning_succeeds() -> None:
    disk = MemoryDisk()
    log = filled(disk, [[(b"%d" % (i % 10), bytes(100))] for i in range(40)])
    before, names = all_records(log), files(disk)
    disk.free_bytes = 300
    with pytest.raises(DiskError, match="no space left"):
        clean(disk, log, log.next_offset)
    assert (all_records(log), files(disk)) == (before, names)
    disk.free_bytes = None
    clean(disk, log, log.next_offset)
    assert state(all_records(log)) == state(before)


def test_records_of_a_foreign_transaction_are_not_compacted() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, HERE, LAYOUT)
    batch = encode_records(
        [Record(0, 5, b"a", bytes(400))], base_offset=0, attributes=16, producer=(7, 0, 0)
    )
    log.append(batch, last_offset=0, max_timestamp_ms=5)
    add(log, [(b"a", bytes(400))])
    add(log, [(b"a", bytes(400))])
    disk.sync(log.take_unsynced_paths())
    before = all_records(log)
    with pytest.raises(Damaged, match="transaction"):
        clean(disk, log, log.next_offset)
    assert all_records(log) == before


def test_a_real_disk_gives_back_the_room_and_views_stay_what_they_were(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, open_files=3)
    batches_in = [[(b"%d" % (i % 4), b"%06d" % i * 10)] for i in range(300)]
    log = filled(disk, batches_in, LogSettings(segment_bytes=3000, growth_bytes=256))
    before, old = all_records(log), log.read(0, 1 << 20, log.next_offset)
    copy = bytes(old)
    clean(disk, log, log.next_offset)
    assert bytes(old) == copy
    assert state(all_records(log)) == state(before)
    assert len(files(disk)) == 3  # the clean segment, its seal, and the one that is written
    assert sum(file.stat().st_size for file in (tmp_path / HERE).iterdir()) < 8000
    disk.close()
    again = Log.open(RealDisk(tmp_path), HERE, LogSettings(segment_bytes=3000))
    assert all_records(again) == all_records(log)
