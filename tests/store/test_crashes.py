"""After any loss of power: what was synced is all there, in order, and nothing is there that was
not appended.
"""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apportion.store.disk import DiskError
from apportion.store.log import Log
from apportion.store.memory_disk import MemoryDisk
from apportion.store.settings import LogSettings
from apportion.wire.batch import encode_batch

LAYOUTS = [LogSettings(600, 100, growth) for growth in (0, 256)]


def append(log: Log, value: bytes, count: int = 1) -> bytes:
    batch = encode_batch([(b"k", value, ())] * count, base_offset=log.next_offset, timestamp_ms=5)
    log.append(batch, last_offset=log.next_offset + count - 1, max_timestamp_ms=5)
    return batch


def content(log: Log) -> list[bytes]:
    return [bytes(batch) for batch in log.batches(0)]


appends = st.tuples(st.just("append"), st.integers(0, 400))
syncs = st.tuples(st.just("sync"), st.just(0))
# after a sync of so many paths, torn by so much
power_cuts = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 700))
crashes = st.tuples(st.just("crash"), st.lists(power_cuts, min_size=1, max_size=3))
fulls = st.tuples(st.just("full"), st.integers(0, 500))
# to so many hundredths of what is not durable
cuts = st.tuples(st.just("cut back"), st.integers(0, 100))


FULL_WHEN_ROLLING = [
    ("append", 300),
    ("append", 100),
    ("full", 0),
    ("append", 0),
    ("sync", 0),
    ("sync", 0),
    ("crash", [(0, None)]),
]


@settings(max_examples=500, deadline=None)
@example(LAYOUTS[0], FULL_WHEN_ROLLING)
@given(st.sampled_from(LAYOUTS), st.lists(appends | syncs | crashes | fulls | cuts, max_size=40))
def test_synced_batches_survive_any_crash_and_nothing_is_invented(
    layout: LogSettings, steps: list[tuple[str, Any]]
) -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", layout)
    appended, durable = [], 0
    for i, (what, number) in enumerate(steps):
        if what == "append":
            appended.append(append(log, bytes([i]) * number))
        elif what == "full":
            disk.free_bytes = number
            try:
                appended.append(append(log, bytes([i]) * 450))
            except DiskError:
                assert content(log) == appended
            disk.free_bytes = None
        elif what == "sync":
            disk.sync(log.take_unsynced_paths())
            durable = len(appended)
        elif what == "cut back":
            del appended[durable + (len(appended) - durable) * number // 100 :]
            log = log.truncated(len(appended), 0)
            assert (log.start_offset, log.next_offset, content(log)) == (0, len(appended), appended)
        else:
            # the power goes again and again while the start syncs what it found
            for paths, tear_bytes in number:
                disk.sync(log.take_unsynced_paths()[:paths])
                disk = disk.crash(tear_bytes)
                log = Log.open(disk, "t-0", layout)
                recovered = content(log)
                assert recovered == appended[: len(recovered)]
                assert durable <= len(recovered) == log.next_offset
            disk.sync(log.take_unsynced_paths())
            assert content(Log.open(disk.crash(), "t-0", layout)) == recovered
            appended, durable = recovered, len(recovered)
    assert content(log) == appended


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tail_torn_at_any_byte_is_cut_and_the_log_goes_on(layout: LogSettings) -> None:
    first, second = (
        encode_batch([(b"k", value, ())], base_offset=i, timestamp_ms=5)
        for i, value in enumerate((b"one", b"two"))
    )
    for tear_bytes in range(len(second) + 1):
        disk = MemoryDisk()
        log = Log.open(disk, "t-0", layout)
        assert append(log, b"one") == first
        disk.sync(log.take_unsynced_paths())
        assert append(log, b"two") == second
        log = Log.open(disk.crash(tear_bytes), "t-0", layout)
        kept = (
            [first, second]
            if tear_bytes >= len(second.rstrip(b"\0")) and layout.growth_bytes
            else [first]
        )
        kept = [first, second] if tear_bytes == len(second) else kept
        assert content(log) == kept
        assert log.truncated_bytes == (
            0 if len(kept) == 2 else len(second[:tear_bytes].rstrip(b"\0"))
        )
        third = append(log, b"three")
        assert content(log) == [*kept, third]


# not the leader epoch, which the CRC does not cover
@pytest.mark.parametrize("position", [*range(8, 12), *range(16, 61)])
def test_a_changed_byte_in_the_last_segment_ends_the_log_before_its_batch(position: int) -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0")
    batches = [append(log, b"x" * 20) for _ in range(3)]
    at = len(batches[0]) + position
    disk.append("t-0/00000000000000000000.log", at, bytes([batches[1][position] ^ 0x55]))
    assert content(Log.open(disk, "t-0")) == batches[:1]


def test_a_log_ends_before_a_batch_whose_offsets_do_not_ascend() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0")
    first = append(log, b"one", count=3)
    disk.append("t-0/00000000000000000000.log", len(first), first)
    log = Log.open(disk, "t-0")
    assert (content(log), log.next_offset) == ([first], 3)


def test_segments_behind_a_torn_one_are_thrown_away() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", LAYOUTS[0])
    first = append(log, b"1" * 200)
    disk.sync(log.take_unsynced_paths())
    second, *_ = [append(log, b"2" * 200) for _ in range(4)]
    disk.sync([path for path in log.take_unsynced_paths() if "00000.log" not in path])
    log = Log.open(disk.crash(len(second) - 1), "t-0", LAYOUTS[0])
    assert content(log) == [first]
    # each file but for its last zero byte, or the byte that was torn off
    assert log.truncated_bytes == 4 * len(second) - 3
    again = append(log, b"3")
    assert content(log) == [first, again]


def test_batches_read_back_by_a_start_must_be_synced_to_be_durable() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0")
    batch = append(log, b"one")
    log = Log.open(disk, "t-0")  # the process was killed, the machine went on
    assert content(log) == [batch]
    disk.sync(log.take_unsynced_paths())
    assert content(Log.open(disk.crash(), "t-0")) == [batch]


@pytest.mark.parametrize("next_offset", range(6))
def test_a_log_that_is_cut_back_is_as_it_was_then_and_goes_on(next_offset: int) -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", LAYOUTS[1])
    appended = []
    for _ in range(5):
        appended.append(append(log, b"x" * 200))
        disk.sync(log.take_unsynced_paths())
    disk.sync(log.take_unsynced_paths())
    assert any(name.endswith(".sealed") for name in disk.list_dir("t-0"))
    log = log.truncated(next_offset, 0)
    assert content(log) == appended[:next_offset]
    kept = [*appended[:next_offset], append(log, b"y"), append(log, b"z" * 300)]
    disk.sync(log.take_unsynced_paths())
    assert content(log) == content(Log.open(disk.crash(), "t-0", LAYOUTS[1])) == kept


def test_a_log_deleted_but_not_synced_may_come_back_and_a_synced_one_does_not() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0")
    batch = append(log, b"one")
    disk.sync(log.take_unsynced_paths())
    log.delete()
    assert content(Log.open(disk.crash(), "t-0")) == [batch]
    disk.sync(log.take_unsynced_paths())
    assert disk.crash().list_dir(".") == ()


# at so many hundredths of what is durable
begins = st.tuples(st.just("begin"), st.integers(0, 100))
closes = st.tuples(st.just("close"), st.just(0))


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(LAYOUTS),
    st.lists(appends | syncs | crashes | begins | closes | cuts, max_size=40),
)
def test_a_log_begins_after_any_crash_where_it_was_told_to_or_where_it_did_before(
    layout: LogSettings, steps: list[tuple[str, Any]]
) -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", layout)
    appended, lost = [], set()  # what was cut away may come back with a crash, until the next sync
    # where the log begins and ends: on the disk, as was asked, and at the most after a crash
    durable = asked = most = (0, 0)
    for i, (what, number) in enumerate(steps):
        if what == "append":
            appended.append(append(log, bytes([i]) * number))
        elif what == "begin":
            log.raise_start_offset(durable[1] * number // 100)
        elif what == "close":
            log.roll_segment()
        elif what == "cut back":
            end = durable[1] + (log.next_offset - durable[1]) * number // 100
            lost |= set(appended[end:])
            del appended[end:]
            log = log.truncated(end, durable[0])
            asked = durable[0], end
        elif what == "sync":
            bounds = log.start_offset, log.next_offset
            disk.sync(log.take_unsynced_paths())
            log.delete_before(bounds[0])
            durable = most = bounds
            lost.clear()
        else:
            for paths, tear_bytes in number:
                disk.sync(log.take_unsynced_paths()[:paths])
                disk = disk.crash(tear_bytes)
                log = Log.open(disk, "t-0", layout)
                assert durable[0] <= log.start_offset <= most[0]
                assert durable[1] <= log.next_offset <= most[1]
                asked = most = log.start_offset, log.next_offset
            recovered = {
                int.from_bytes(batch[:8], "big"): bytes(batch)
                for batch in log.batches(log.start_offset)
            }
            assert all(batch in (*appended[at : at + 1], *lost) for at, batch in recovered.items())
            assert {at: batch for at, batch in recovered.items() if at < durable[1]} == dict(
                list(enumerate(appended))[log.start_offset : durable[1]]
            )
            appended = [*appended[: log.start_offset], *recovered.values()]
            lost.clear()
        asked = max(asked[0], log.start_offset), log.next_offset
        most = max(most[0], asked[0]), max(most[1], asked[1])
        assert asked == (log.start_offset, log.next_offset) == (log.start_offset, len(appended))
        assert [bytes(batch) for batch in log.batches(log.start_offset)] == appended[
            log.start_offset :
        ]
        assert (
            bytes(log.read(log.start_offset, 0, log.next_offset))
            == (appended[log.start_offset :] or [b""])[0]
        )
