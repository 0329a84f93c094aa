"""The port to the disk: everything that the store asks of one, and how a disk refuses.

A step writes and reads through it at memory speed; only a driver calls `sync`. Paths are relative to the root, with "/" between
their parts; "." is the root itself.
"""

from collections.abc import Iterable
from typing import Protocol

Buffer = bytes | bytearray | memoryview

ROOT = "."


class DiskError(OSError):
    """The disk refused; the text says what and where. `errno` is the system's."""

    def __init__(self, attempt: str, where: str, cause: OSError) -> None:
        super().__init__(cause.errno, f"cannot {attempt} {where}: {cause.strerror or cause}")

    def __str__(self) -> str:
        return str(self.strerror)


class Damaged(Exception):
    """What stands on the disk is not what was written there, and no crash explains it."""


def parent_of(path: str) -> str:
    """The directory that holds the name of `path`."""
    return path.rpartition("/")[0] or ROOT


class Disk(Protocol):
    """What the store asks of a disk. Nothing is durable before `sync` has returned for the file and for its directory."""

    def append(self, path: str, at: int, data: Buffer) -> None:
        """`data` stands at byte `at` of the file, which is created if need be; nothing that was there before `at` has changed."""
        ...

    def resize(self, path: str, size_bytes: int) -> None:
        """The file has that many bytes and is created if need be; bytes that were not there are zero. No view reaches beyond."""
        ...

    def view(self, path: str, start: int, end: int) -> memoryview:
        """These bytes, not copied, and valid as long as the view lives, whatever is appended, resized beyond it, or deleted."""
        ...

    def size(self, path: str) -> int:
        """The size of the file in bytes; 0 if there is none."""
        ...

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The sorted names in that directory; () if there is none."""
        ...

    def make_dir(self, path: str) -> None:
        """The directory exists; its parent must."""
        ...

    def delete(self, path: str) -> None:
        """There is no file or empty directory of that name; views of it stay valid."""
        ...

    def rename(self, old: str, new: str) -> None:
        """The file is called `new`, and what bore that name is gone."""
        ...

    def write_new(self, path: str, data: Buffer) -> None:
        """A file of that name holds `data`, all of it or none, also to a reader at this moment (a crash may still tear it)."""
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """What was written to these files, and the names in these directories, survives a loss of power. Missing paths are done."""
        ...

    def is_synced(self, path: str) -> bool:
        """True when this disk has synced the file since its last change, and since it was opened."""
        ...
