"""The port to the disk: the operations that the store needs, and the errors that they may raise.

A machine's step reads and writes through the port at memory speed; only a driver calls `sync`.
Paths are relative to the root, with "/" between their parts; "." is the root itself.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from apportion.wire.codec import Buffer

ROOT = "."


class DiskError(OSError):
    """An operation failed; the text says which one and where. `errno` is the system's."""

    def __init__(self, attempt: str, where: str, cause: OSError) -> None:
        super().__init__(cause.errno, f"cannot {attempt} {where}: {cause.strerror or cause}")

    def __str__(self) -> str:
        return str(self.strerror)


class Damaged(Exception):
    """The content of the disk is not what was written, and no crash explains it."""


def parent_of(path: str) -> str:
    """Return the directory of `path`."""
    return path.rpartition("/")[0] or ROOT


class DiskSpace(NamedTuple):
    """The room on a disk.

    free_bytes: how many it can still take; None where the system does not say.
    """

    directory: str
    free_bytes: int | None


class Disk(Protocol):
    """The operations of a disk.

    Nothing is durable until `sync` has returned for the file and its directory.
    """

    def append(self, path: str, at: int, data: Buffer) -> None:
        """Write `data` at byte `at` of a file, created if need be.

        Bytes before `at` do not change.
        """
        ...

    def resize(self, path: str, size_bytes: int) -> None:
        """Give a file this size, created if need be; new bytes are zero.

        No view may reach beyond it.
        """
        ...

    def view(self, path: str, start: int, end: int) -> memoryview:
        """Return bytes `start` to `end` of a file without a copy.

        The view stays valid through appends, resizes beyond it and deletes.
        """
        ...

    def size(self, path: str) -> int:
        """Return the size of the file in bytes; 0 if there is none."""
        ...

    def list_dir(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in the directory; () if there is none."""
        ...

    def make_dir(self, path: str) -> None:
        """Create the directory if it is missing; its parent must exist."""
        ...

    def delete(self, path: str) -> None:
        """Delete the file or empty directory if it exists; views of it stay valid."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename the file atomically; a file that was named `new` is gone."""
        ...

    def write_new(self, path: str, data: Buffer) -> None:
        """Create or replace a file as a whole.

        Readers see all of `data` or none, but a crash may still tear it.
        """
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make the content of these files and the names in these directories durable, for a flush.

        Missing paths are skipped.
        """
        ...

    def is_synced(self, path: str) -> bool:
        """Return whether the file was synced since its last change by this disk object."""
        ...

    def space(self) -> DiskSpace:
        """Return the directory of the disk, and how much it can still take; never fails."""
        ...
