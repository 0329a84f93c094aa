"""An application whose table is on a disk that is full, and then has room again.

The disk is a small tmpfs in a mount namespace of its own, where the application runs, too. So no
rights of this machine are needed but to make a user namespace. Where that is refused, the test
fails: no other way fills a real disk, and a skipped test would look like one that has passed.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.spark.harness import Pipeline, until

SIZE, FREE = 20 << 20, 400 << 10
"""Bytes of the disk, and of its room until the other files go."""


class SmallDisk:
    """A tmpfs at `path` for the process `holder`, and for those that the command `enter` runs."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self._mounted, self.table = str(path), path / "table"
        self.holder = subprocess.Popen(
            [
                *("env", "unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
                'mount -t tmpfs -o "size=$0" tmpfs "$1" && echo mounted && exec cat',
                *(str(SIZE), self._mounted),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None
        if self.holder.stdout.readline() != "mounted\n":
            _, why = self.holder.communicate()
            pytest.fail(
                "this test fills a tmpfs of its own, and this machine refuses one in a user "
                f"namespace: {why.strip()}. Let users make such namespaces (Ubuntu: sysctl "
                "kernel.apparmor_restrict_unprivileged_userns=0; a container: --privileged)",
                pytrace=False,
            )
        target = ("--target", str(self.holder.pid))
        self.enter = ["nsenter", *target, "--user", "--preserve-credentials", "--mount", "--"]
        self._outside = Path(f"/proc/{self.holder.pid}/root{self._mounted}")
        self._other_files = self._outside / "other-files"
        self._other_files.write_bytes(bytes(SIZE - FREE))

    def make_room(self) -> None:
        self._other_files.unlink()

    def copy(self, table: Path) -> None:
        """Copy the table, which nobody writes to now, to where the test can open it."""
        shutil.rmtree(table, ignore_errors=True)
        shutil.copytree(self._outside / "table", table)

    def close(self) -> None:
        self.holder.communicate()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "disk")
    yield made
    made.close()


def test_a_full_disk_ends_a_query_which_writes_each_row_once_when_there_is_room(
    pipeline: Pipeline, disk: SmallDisk
) -> None:
    given = {"enter": disk.enter, "table": str(disk.table), "checkpoint": "kept", "ending": "run"}
    first = pipeline.start("first", **given)
    pipeline.produce(8)
    until_committed(pipeline)
    held = pipeline.expected()
    pipeline.produce(20, partition=0, tail_bytes=30_000)
    first.wait_for_end(code=1)
    assert "No space left on device" in first.tail().splitlines()[-1]
    disk.copy(pipeline.table)
    assert pipeline.rows() == held
    assert {*pipeline.table.glob("*.parquet*")} == {
        pipeline.table / name for name in DeltaTable(str(pipeline.table)).file_uris()
    }
    disk.make_room()
    again = pipeline.start("again", **given)
    until_committed(pipeline)
    again.process.terminate()
    again.wait_for_end()
    disk.copy(pipeline.table)
    assert pipeline.rows() == pipeline.expected()


def until_committed(pipeline: Pipeline) -> None:
    until(
        lambda: pipeline.total_committed() == len(pipeline.produced),
        what="the last batch",
        also=pipeline.applications,
    )
