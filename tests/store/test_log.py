"""What a log promises about reading, on both disks: laws against a plain list of everything that
was appended.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.store.files import RealDisk
from apportion.store.index import NEVER
from apportion.store.log import MAX_SCANNED_BYTES, MAX_SCANNED_RECORDS, Log
from apportion.store.memory_disk import MemoryDisk
from apportion.store.settings import LogSettings
from apportion.wire.batch import Record, decode_batch, encode_records
from tests.store.logs import SMALL, BatchShape, append, disk_of, segment_starts

batch_shapes = st.lists(
    st.builds(
        BatchShape,
        st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple),
        st.integers(0, 120),
    ),
    min_size=1,
    max_size=40,
)
layouts = st.builds(
    LogSettings,
    st.sampled_from((100, 700, 4000, 1 << 20)),
    st.sampled_from((1, 150, 4096)),
    st.sampled_from((0, 64, 256)),
)


both_disks = st.sampled_from(("memory", "real"))
flushes = st.integers(1, 50)  # every so many appends


@contextmanager
def filled(
    kind: str, layout: LogSettings, wanted: list[BatchShape], flush_every: int
) -> Iterator[tuple[RealDisk | MemoryDisk, Log, list[bytes], list[list[Record]]]]:
    """(disk, log, batches, records) after the appends, with a sync now and then."""
    with disk_of(kind) as disk:
        log, appended = Log.open(disk, "t-0", layout), []
        for i, shape in enumerate(wanted, 1):
            appended.append(append(log, shape))
            if i % flush_every == 0:
                disk.sync(log.take_unsynced_paths())
        yield disk, log, [batch for batch, _ in appended], [records for _, records in appended]


@settings(max_examples=120, deadline=None)
@given(both_disks, layouts, batch_shapes, flushes, st.data())
def test_a_read_gives_the_whole_batches_that_a_plain_list_would(
    kind: str, layout: LogSettings, wanted: list[BatchShape], flush_every: int, data: st.DataObject
) -> None:
    with filled(kind, layout, wanted, flush_every) as (disk, log, batches, records):
        starts = segment_starts(disk, "t-0")
        for _ in range(8):
            offset, before = (
                data.draw(st.integers(-1, log.next_offset + 1)),
                data.draw(st.integers(0, log.next_offset + 1)),
            )
            max_bytes = data.draw(st.integers(0, 1500))
            expected = b""
            for batch, inside in zip(batches, records, strict=True):
                same_segment = bisect_right(starts, inside[0].offset) == bisect_right(
                    starts, offset
                )
                fits = not expected or len(expected) + len(batch) <= max_bytes
                if inside[-1].offset < offset:
                    continue
                if offset < 0 or not same_segment or inside[-1].offset >= before or not fits:
                    break
                expected += batch
            assert bytes(log.read(offset, max_bytes, before)) == expected


def test_a_read_with_room_for_the_whole_segment_ends_before_its_limit() -> None:
    shapes = [BatchShape((1, 1), 40)] * 3
    with filled("memory", SMALL, shapes, 1) as (_, log, batches, _records):
        assert bytes(log.read(0, 1 << 20, 4)) == b"".join(batches[:2])
        assert bytes(log.read(0, 1 << 20, 6)) == b"".join(batches)


@settings(max_examples=120, deadline=None)
@given(both_disks, layouts, batch_shapes, flushes)
def test_offset_at_time_is_what_a_scan_of_all_records_finds(
    kind: str, layout: LogSettings, wanted: list[BatchShape], flush_every: int
) -> None:
    with filled(kind, layout, wanted, flush_every) as (_, log, _, records):
        everything = [record for inside in records for record in inside]
        for time in range(-1, 42):
            for before in (0, log.next_offset // 2, log.next_offset):
                expected = next(
                    ((r.offset, r.timestamp_ms) for r in everything if r.timestamp_ms >= time), None
                )
                assert log.offset_at_time(time, before) == (
                    expected if expected and expected[0] < before else None
                )
        for before in range(log.next_offset + 1):
            begun = [record for inside in records if inside[0].offset < before for record in inside]
            assert log.largest_timestamp_ms(before) == max(
                (record.timestamp_ms for record in begun), default=NEVER
            )


@settings(max_examples=120, deadline=None)
@given(both_disks, layouts, batch_shapes, flushes)
def test_a_log_that_is_opened_again_is_the_log_that_was_closed(
    kind: str, layout: LogSettings, wanted: list[BatchShape], flush_every: int
) -> None:
    with filled(kind, layout, wanted, flush_every) as (disk, _, batches, records):
        for time in (50, 60):
            opened = Log.open(disk, "t-0", layout)
            assert (opened.start_offset, opened.next_offset) == (0, records[-1][-1].offset + 1)
            assert (opened.size_bytes, opened.truncated_bytes) == (sum(map(len, batches)), 0)
            assert [bytes(batch) for batch in opened.batches(0)] == batches
            batch, inside = append(opened, BatchShape((time,), 9))
            assert opened.offset_at_time(time - 5, 1 << 40) == (inside[0].offset, time)
            assert bytes(opened.read(inside[0].offset, 0, 1 << 40)) == batch
            batches.append(batch)
            records.append(inside)


@settings(max_examples=100, deadline=None)
@given(both_disks, layouts, batch_shapes, st.data())
def test_batches_are_told_from_the_one_that_holds_the_offset(
    kind: str, layout: LogSettings, wanted: list[BatchShape], data: st.DataObject
) -> None:
    with filled(kind, layout, wanted, 5) as (_, log, batches, records):
        offset = data.draw(st.integers(0, log.next_offset))
        expected = [
            batch
            for batch, inside in zip(batches, records, strict=True)
            if inside[-1].offset >= offset
        ]
        assert [bytes(batch) for batch in log.batches(offset)] == expected


@settings(max_examples=100, deadline=None)
@given(both_disks, layouts, batch_shapes)
def test_a_view_outlives_whatever_becomes_of_the_log(
    kind: str, layout: LogSettings, wanted: list[BatchShape]
) -> None:
    with disk_of(kind) as disk:
        log, kept = Log.open(disk, "t-0", layout), []
        for shape in wanted:
            batch, inside = append(log, shape)
            kept.append((log.read(inside[0].offset, 0, log.next_offset), batch))
            disk.sync(log.take_unsynced_paths())
        log.delete()
        assert [bytes(view) for view, _ in kept] == [batch for _, batch in kept]
        assert all(view.readonly for view, _ in kept)


@pytest.mark.parametrize("kind", ["memory", "real"])
def test_nothing_is_made_on_the_disk_before_the_first_append(kind: str) -> None:
    with disk_of(kind) as disk:
        log = Log.open(disk, "t-0")
        assert (log.start_offset, log.next_offset, log.size_bytes, log.take_unsynced_paths()) == (
            0,
            0,
            0,
            (),
        )
        assert (bytes(log.read(0, 100, 100)), log.offset_at_time(0, 100), list(log.batches(0))) == (
            b"",
            None,
            [],
        )
        assert disk.list_dir(".") == ()


@pytest.mark.parametrize("kind", ["memory", "real"])
def test_the_paths_to_sync_are_told_once_and_name_directories_only_for_new_files(kind: str) -> None:
    with disk_of(kind) as disk:
        log = Log.open(disk, "t-0", SMALL)
        append(log, BatchShape((1,), 500))
        first = "t-0/00000000000000000000.log"
        assert log.take_unsynced_paths() == (first, "t-0", ".")
        assert log.take_unsynced_paths() == ()
        append(log, BatchShape((1,), 10))
        assert log.take_unsynced_paths() == (first,)
        append(log, BatchShape((1,), 500))
        assert log.take_unsynced_paths() == (first, "t-0/00000000000000000002.log", "t-0", ".")


@pytest.mark.parametrize("kind", ["memory", "real"])
def test_a_deleted_log_is_empty_and_can_begin_again(kind: str) -> None:
    with disk_of(kind) as disk:
        log = Log.open(disk, "t-0", SMALL)
        for _ in range(5):
            append(log, BatchShape((1,), 400))
            disk.sync(log.take_unsynced_paths())
        log.delete()
        assert (log.next_offset, log.take_unsynced_paths(), disk.list_dir(".")) == (0, (".",), ())
        batch, _ = append(log, BatchShape((1,), 3))
        assert [bytes(batch_read) for batch_read in Log.open(disk, "t-0", SMALL).batches(0)] == [
            batch
        ]


def test_a_file_grows_by_steps_and_a_finished_segment_ends_where_its_last_batch_does() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", SMALL)
    batch, _ = append(log, BatchShape((1,), 400))
    assert disk.size("t-0/00000000000000000000.log") == 512
    append(log, BatchShape((1,), 400))
    assert disk.size("t-0/00000000000000000000.log") == len(batch)


def test_a_batch_larger_than_a_segment_has_one_for_itself() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", SMALL)
    for size in (5, 5000, 5):
        append(log, BatchShape((1,), size))
    assert segment_starts(disk, "t-0") == [0, 1, 2]


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_a_time_is_found_inside_a_compressed_batch(compression: int) -> None:
    log = Log.open(MemoryDisk(), "t-0")
    append(log, BatchShape((10, 20, 30), 50), compression)
    assert log.offset_at_time(15, 100) == (1, 20)


def test_a_batch_that_cannot_be_decoded_answers_a_time_with_its_first_offset() -> None:
    good = encode_records([Record(0, 7, b"k", b"value")], base_offset=0)
    from_liar = good[:16] + (0).to_bytes(1) + good[17:]
    with pytest.raises(Exception, match="format 0"):
        decode_batch(from_liar)
    log = Log.open(MemoryDisk(), "t-0")
    log.append(from_liar, last_offset=0, max_timestamp_ms=7)
    assert log.offset_at_time(5, 1) == (0, 7)


def test_an_offset_that_is_not_the_next_one_is_our_mistake() -> None:
    log = Log.open(MemoryDisk(), "t-0")
    with pytest.raises(AssertionError, match="t-0: a batch at 3, not at 0"):
        log.append(
            encode_records([Record(3, 7, b"k", b"v")], base_offset=3),
            last_offset=3,
            max_timestamp_ms=7,
        )


def test_a_batch_of_too_many_records_is_not_looked_into() -> None:
    log = Log.open(MemoryDisk(), "t-0")
    records = [Record(0, 10, None, None), Record(1, 20, None, None)]
    log.append(
        encode_records(records, base_offset=0, last_offset_delta=MAX_SCANNED_RECORDS),
        last_offset=MAX_SCANNED_RECORDS,
        max_timestamp_ms=20,
    )
    assert log.offset_at_time(15, 1 << 40) == (0, 20)


def test_a_batch_that_grows_too_large_is_not_looked_into() -> None:
    log = Log.open(MemoryDisk(), "t-0")
    large = [Record(n, n, None, bytes(MAX_SCANNED_BYTES // 2)) for n in range(3)]
    log.append(
        encode_records(large, base_offset=0, attributes=4), last_offset=2, max_timestamp_ms=2
    )
    assert log.offset_at_time(1, 1 << 40) == (0, 2)


def test_a_segment_that_was_closed_gives_its_room_back_once_all_of_it_is_deleted() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", SMALL)
    for _ in range(2):
        append(log, BatchShape((1,), 40))
    log.roll_segment()
    log.roll_segment()  # nothing follows an empty one
    assert segment_starts(disk, "t-0") == [0, 2]
    log.raise_start_offset(2)
    disk.sync(log.take_unsynced_paths())
    log.delete_before(2)
    assert (segment_starts(disk, "t-0"), log.start_offset, log.next_offset, log.size_bytes) == (
        [2],
        2,
        2,
        0,
    )
    assert bytes(log.read(2, 100, 2)) == b""
    for life in (log, Log.open(disk.crash(), "t-0", SMALL)):
        assert (
            life.start_offset,
            life.next_offset,
            life.offset_at_time(0, 9),
            life.largest_timestamp_ms(9),
        ) == (2, 2, None, NEVER)
    batch, _ = append(log, BatchShape((1,), 40))
    assert bytes(log.read(2, 1, 3)) == batch


@pytest.mark.parametrize("segment_ms", [0, 10])
def test_a_segment_ends_before_a_batch_that_is_too_much_later_than_its_first(
    segment_ms: int,
) -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", LogSettings(segment_ms=segment_ms))
    for time in (5, 3, 5 + segment_ms, 6 + segment_ms, -1, 17 + segment_ms):
        append(log, BatchShape((time,), 1))
    assert segment_starts(disk, "t-0") == [0, 3, 5]
