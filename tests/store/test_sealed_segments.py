"""Sealed segments: not read at a start, and what becomes of damage to them."""

import pytest

from apportion.store.disk import Damaged
from apportion.store.log import Log
from apportion.store.memory_disk import MemoryDisk
from tests.store.logs import SMALL, BatchShape, append, segment_starts


def sealed_log(disk: MemoryDisk) -> list[bytes]:
    """Three segments of one batch each, the first two of them sealed."""
    log = Log.open(disk, "t-0", SMALL)
    batches = []
    for _ in range(3):
        batches.append(append(log, BatchShape((5,), 500))[0])
        disk.sync(log.take_unsynced_paths())
    disk.sync(log.take_unsynced_paths())
    assert [name[-9:] for name in disk.list_dir("t-0")] == [
        "00000.log",
        "00.sealed",
        "00001.log",
        "01.sealed",
        "00002.log",
    ]
    return batches


FIRST = "t-0/00000000000000000000"


def test_a_sealed_segment_is_believed_and_not_read_at_a_start() -> None:
    disk = MemoryDisk()
    batches = sealed_log(disk)
    disk.append(f"{FIRST}.log", 100, b"bit rot")
    log = Log.open(disk, "t-0", SMALL)
    assert (log.next_offset, log.truncated_bytes, log.take_unsynced_paths()) == (
        3,
        0,
        ("t-0/00000000000000000002.log", "t-0", "."),
    )
    assert bytes(log.read(1, 10, 3)) == batches[1]


def test_a_log_whose_last_segment_is_sealed_goes_on_in_a_new_one() -> None:
    disk = MemoryDisk()
    batches = sealed_log(disk)
    disk.delete("t-0/00000000000000000002.log")
    log = Log.open(disk, "t-0", SMALL)
    batches[2], _ = append(log, BatchShape((5,), 1))
    assert [bytes(batch) for batch in Log.open(disk, "t-0", SMALL).batches(0)] == batches
    assert segment_starts(disk, "t-0") == [0, 1, 2]


@pytest.mark.parametrize("position", [0, 8, 16, 24, 32, 40, 48, 56, 64])
def test_a_damaged_seal_is_ignored_and_its_segment_checked(position: int) -> None:
    disk = MemoryDisk()
    batches = sealed_log(disk)
    disk.append(f"{FIRST}.sealed", position, b"\xff")
    log = Log.open(disk, "t-0", SMALL)
    assert [bytes(batch) for batch in log.batches(0)] == batches
    assert f"{FIRST}.log" in log.take_unsynced_paths()


def test_a_sealed_segment_of_another_size_stops_the_start_with_its_name() -> None:
    disk = MemoryDisk()
    size = len(sealed_log(disk)[0])
    disk.resize(f"{FIRST}.log", 100)
    with pytest.raises(
        Damaged, match=f"^{FIRST}.log has 100 bytes, but had {size} when it was complete$"
    ):
        Log.open(disk, "t-0", SMALL)


def test_a_missing_segment_stops_the_start_with_the_name_of_the_next() -> None:
    disk = MemoryDisk()
    sealed_log(disk)
    disk.delete("t-0/00000000000000000001.log")
    with pytest.raises(
        Damaged,
        match=(
            r"^t-0/00000000000000000002\.log: the log before it ends at offset 1; a file is "
            r"missing$"
        ),
    ):
        Log.open(disk, "t-0", SMALL)


def test_a_damaged_header_in_a_sealed_segment_is_told_when_it_is_read() -> None:
    disk = MemoryDisk()
    sealed_log(disk)
    log = Log.open(disk, "t-0", SMALL)
    disk.append(f"{FIRST}.log", 8, (-12).to_bytes(4, "big", signed=True))
    with pytest.raises(Damaged, match=f"^{FIRST}.log: no batch at byte 0$"):
        log.read(0, 10, 3)
