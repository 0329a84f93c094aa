"""The two disks behave alike, and a real one refuses with a sentence that says what and where."""

import gc
import os
import resource
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from errno import EFBIG, ENOENT, ENOSPC, ENOTEMPTY
from pathlib import Path

import pytest

from apportion.store.disk import DiskError, DiskSpace
from apportion.store.files import RealDisk
from apportion.store.log import Log
from apportion.store.memory_disk import MemoryDisk
from apportion.store.settings import LogSettings
from apportion.wire.batch import encode_batch


@pytest.fixture(params=["memory", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealDisk | MemoryDisk]:
    if request.param == "memory":
        yield MemoryDisk()
    else:
        real = RealDisk(tmp_path / "data")
        yield real
        real.close()


def append(log: Log, value: bytes) -> bytes:
    batch = encode_batch([(b"k", value, ())], base_offset=log.next_offset, timestamp_ms=5)
    log.append(batch, last_offset=log.next_offset, max_timestamp_ms=5)
    return batch


def test_bytes_stand_where_they_were_written_and_views_of_older_sizes_stay(
    disk: RealDisk | MemoryDisk,
) -> None:
    disk.append("a", 0, b"hello")
    old = disk.view("a", 0, 5)
    disk.append("a", 5, bytearray(b" world"))
    disk.append("a", 11, memoryview(b"!" * 100_000))
    assert (bytes(old), bytes(disk.view("a", 0, 12)), disk.size("a")) == (
        b"hello",
        b"hello world!",
        100_011,
    )


def test_a_resized_file_is_cut_or_filled_with_zeros(disk: RealDisk | MemoryDisk) -> None:
    disk.append("a", 0, b"hello")
    disk.resize("a", 2)
    assert (disk.size("a"), bytes(disk.view("a", 0, 2))) == (2, b"he")
    disk.resize("a", 6)
    disk.append("a", 4, b"y")
    assert bytes(disk.view("a", 0, 6)) == b"he\0\0y\0"
    disk.resize("new", 3)
    assert bytes(disk.view("new", 0, 3)) == b"\0\0\0"


def test_names_come_and_go(disk: RealDisk | MemoryDisk) -> None:
    disk.make_dir("d")
    disk.make_dir("d")
    disk.append("d/b", 0, b"1")
    disk.append("d/a", 0, b"22")
    assert (disk.list_dir("."), disk.list_dir("d"), disk.list_dir("nowhere")) == (
        ("d",),
        ("a", "b"),
        (),
    )
    view = disk.view("d/b", 0, 1)
    disk.rename("d/a", "d/b")
    assert (disk.list_dir("d"), disk.size("d/b"), disk.size("d/a"), bytes(view)) == (
        ("b",),
        2,
        0,
        b"1",
    )
    with pytest.raises(DiskError) as refused:
        disk.delete("d")
    assert refused.value.errno == ENOTEMPTY
    disk.delete("d/b")
    disk.delete("d/b")
    disk.delete("d")
    assert disk.list_dir(".") == ()


def test_a_file_written_anew_replaces_the_old_one_and_leaves_its_views(
    disk: RealDisk | MemoryDisk,
) -> None:
    disk.write_new("a", b"old content")
    view = disk.view("a", 0, 11)
    disk.write_new("a", b"new")
    assert (bytes(view), bytes(disk.view("a", 0, 3)), disk.list_dir(".")) == (
        b"old content",
        b"new",
        ("a",),
    )


def test_only_a_sync_after_the_last_change_counts(disk: RealDisk | MemoryDisk) -> None:
    disk.append("a", 0, b"1")
    assert not disk.is_synced("a")
    disk.sync(["a", "."])
    assert disk.is_synced("a")
    disk.append("a", 1, b"2")
    assert not disk.is_synced("a")
    disk.sync(["a"])
    assert disk.is_synced("a")
    disk.delete("a")
    disk.append("a", 0, b"3")
    assert not disk.is_synced("a")


def test_a_sync_of_what_was_deleted_meanwhile_is_done(disk: RealDisk | MemoryDisk) -> None:
    disk.sync(["nothing", "no/where"])
    assert not disk.is_synced("no/where/at all")


def test_a_read_beyond_the_end_or_of_no_file_says_so(disk: RealDisk | MemoryDisk) -> None:
    disk.append("a", 0, b"123")
    with pytest.raises(DiskError, match=r"cannot read up to byte 9 of .*a: the file has 3 bytes"):
        disk.view("a", 0, 9)
    with pytest.raises(DiskError, match=r"cannot open .*b: [Nn]o such file") as refused:
        disk.view("b", 0, 9)
    assert refused.value.errno == ENOENT


def test_many_logs_share_few_open_files(tmp_path: Path) -> None:
    gc.collect()  # or a file that an earlier test has forgotten is closed meanwhile
    before = len(os.listdir("/dev/fd"))
    disk = RealDisk(tmp_path, open_files=4)
    logs = [Log.open(disk, f"t-{i}", LogSettings(400, 100)) for i in range(30)]
    batches: list[list[bytes]] = [[] for _ in logs]
    for round_ in range(6):
        for log, kept in zip(logs, batches, strict=True):
            kept.append(append(log, b"%d" % round_ * 100))
        disk.sync(path for log in logs for path in log.take_unsynced_paths())
    assert [[bytes(batch) for batch in log.batches(0)] for log in logs] == batches
    assert len(os.listdir("/dev/fd")) - before <= 8
    disk.close()
    assert len(os.listdir("/dev/fd")) == before


def test_files_that_wait_for_a_sync_stay_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, open_files=2)
    for i in range(5):
        disk.append(f"f{i}", 0, b"x")
    disk.sync(f"f{i}" for i in range(5))
    assert [disk.is_synced(f"f{i}") for i in range(5)] == [True] * 5
    disk.close()


def test_a_sync_in_another_thread_disturbs_neither_appends_nor_reads(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, open_files=3)
    logs = [Log.open(disk, f"t-{i}", LogSettings(3000, 100, 512)) for i in range(6)]
    batches: list[list[bytes]] = [[] for _ in logs]
    with ThreadPoolExecutor(1) as driver:
        flush = driver.submit(disk.sync, ())
        for i in range(600):
            log, kept = logs[i % 6], batches[i % 6]
            kept.append(append(log, b"%d" % i * 20))
            assert bytes(log.read(log.next_offset - 1, 0, log.next_offset)) == kept[-1]
            if flush.done():
                flush.result()
                flush = driver.submit(
                    disk.sync, [path for log in logs for path in log.take_unsynced_paths()]
                )
        flush.result()
    disk.sync(path for log in logs for path in log.take_unsynced_paths())
    either = [Log.open(disk, f"t-{i}", LogSettings(3000, 100, 512)) for i in range(6)]
    assert [[bytes(batch) for batch in log.batches(0)] for log in either] == batches
    assert [log.truncated_bytes for log in either] == [0] * 6
    disk.close()


def test_a_directory_has_one_user_at_a_time(tmp_path: Path) -> None:
    one, other = RealDisk(tmp_path), RealDisk(tmp_path)
    one.lock()
    with pytest.raises(
        DiskError, match=f"^cannot use the directory {tmp_path}: another broker is using it$"
    ):
        other.lock()
    one.close()
    other.lock()
    other.close()


def test_a_full_disk_refuses_the_append_and_takes_it_when_there_is_room_again() -> None:
    disk = MemoryDisk()
    log = Log.open(disk, "t-0", LogSettings(growth_bytes=0))
    first = append(log, b"x")
    disk.free_bytes = 30
    with pytest.raises(
        DiskError, match=r"^cannot append 171 bytes to t-0/0{20}\.log: no space left$"
    ) as refused:
        append(log, b"y" * 100)
    assert refused.value.errno == ENOSPC
    assert [bytes(batch) for batch in log.batches(0)] == [first]
    disk.free_bytes = None
    second = append(log, b"z")
    for either in (log, Log.open(disk, "t-0")):
        assert [bytes(batch) for batch in either.batches(0)] == [first, second]


def test_a_real_disk_that_takes_half_a_batch_is_as_before(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    log = Log.open(disk, "t-0", LogSettings(growth_bytes=0))
    first = append(log, b"x" * 3000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(
            DiskError,
            match=f"^cannot append .* bytes to {tmp_path}/t-0/0{{20}}.log: File too large$",
        ) as refused:
            append(log, b"y" * 3000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.errno == EFBIG
    assert os.stat(tmp_path / "t-0" / f"{0:020d}.log").st_size == len(first)
    second = append(log, b"z")
    for either in (log, Log.open(disk, "t-0")):
        assert [bytes(batch) for batch in either.batches(0)] == [first, second]
    disk.close()


def test_a_root_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        DiskError, match=f"^cannot make the directory {tmp_path}/file/data: Not a directory$"
    ):
        RealDisk(tmp_path / "file" / "data")


def test_a_log_directory_that_cannot_be_made_is_named_and_the_log_stays_empty(
    tmp_path: Path,
) -> None:
    disk = RealDisk(tmp_path)
    log = Log.open(disk, "nowhere/t-0")
    with pytest.raises(
        DiskError,
        match=f"^cannot make the directory {tmp_path}/nowhere/t-0: No such file or directory$",
    ):
        append(log, b"x")
    assert (log.next_offset, log.take_unsynced_paths()) == (0, ())
    disk.close()


def test_a_sync_that_fails_names_the_file(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    for i in range(3):
        disk.append(f"f{i}", 0, b"x")
    for paths in (["loop"], ["loop", "f0", "f1", "f2"], ["f0", "f1", "loop", "f2"]):
        with pytest.raises(
            DiskError, match=f"^cannot sync {tmp_path}/loop: Too many levels of symbolic links$"
        ):
            disk.sync(paths)
    assert [disk.is_synced(f"f{i}") for i in range(3)] == [True] * 3
    disk.close()


def test_a_new_data_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    RealDisk(tmp_path / "data").close()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a_real_disk_says_how_much_it_can_still_take(tmp_path: Path) -> None:
    root = tmp_path / "data"
    disk = RealDisk(root)
    total_bytes = shutil.disk_usage(root).total
    space = disk.space()
    assert space.directory == str(root)
    assert 0 <= (space.free_bytes or 0) <= total_bytes
    root.rmdir()
    assert disk.space() == DiskSpace(str(root), None)
