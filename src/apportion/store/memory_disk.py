"""A disk in memory that can lose its unsynced content: `MemoryDisk`, an implementation of `Disk`.

For tests, the simulator and a broker without a directory. "Synced" means what fsync means.
"""

from collections.abc import Iterable
from errno import EINVAL, ENOENT, ENOSPC, ENOTEMPTY

from apportion.store.disk import ROOT, DiskError, DiskSpace, parent_of
from apportion.wire.codec import Buffer


class _Content:
    """One file of the disk in memory: its content now, and what a crash would leave of it.

    buffer: what readers see, in its first `size_bytes`; it is longer, to grow rarely. durable: the
    content at the last sync. dirty_from: below this byte the two are equal. synced: nothing was
    written since the last sync (whether the file's name is durable, `MemoryDisk` knows).
    """

    __slots__ = ("buffer", "dirty_from", "durable", "size_bytes", "synced")

    def __init__(self, durable: bytes = b"") -> None:
        """Begin empty, or with the content that the simulated crash has left."""
        # replaced by a larger one and never resized, because views of it may be alive
        self.buffer = bytearray(durable)
        self.size_bytes = len(durable)
        self.durable = bytearray(durable)
        self.dirty_from = self.size_bytes
        self.synced = False

    def write(self, at: int, data: Buffer) -> None:
        """Write to the file in memory at a byte position; a gap before it is filled with zeros."""
        end = at + len(data)
        if end > self.size_bytes:
            self.resize(end)
        memoryview(self.buffer)[at:end] = data
        self.dirty_from, self.synced = min(self.dirty_from, at), False

    def resize(self, size_bytes: int) -> None:
        """Cut a file of the in-memory disk, or extend it with zeros; the unsynced part may grow."""
        if size_bytes > len(self.buffer):
            larger = bytearray(max(size_bytes, 2 * len(self.buffer)))
            larger[: self.size_bytes] = memoryview(self.buffer)[: self.size_bytes]
            self.buffer = larger
        elif size_bytes > self.size_bytes:
            memoryview(self.buffer)[self.size_bytes : size_bytes] = bytes(
                size_bytes - self.size_bytes
            )
        self.dirty_from, self.synced = min(self.dirty_from, size_bytes, self.size_bytes), False
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """Make the file's content survive a simulated crash, as fsync does."""
        self.durable[self.dirty_from :] = memoryview(self.buffer)[self.dirty_from : self.size_bytes]
        self.dirty_from, self.synced = self.size_bytes, True

    def after_crash(self, tear_bytes: int) -> bytes:
        """Return what a simulated crash leaves of one file of the in-memory disk.

        tear_bytes: how many of the unsynced bytes had reached the disk. Behind these the file has
        its old, synced bytes.
        """
        torn = min(self.dirty_from + tear_bytes, self.size_bytes)
        return bytes(memoryview(self.buffer)[:torn]) + bytes(self.durable[torn:])


class MemoryDisk:
    """A disk in memory that knows which of its content a crash would lose.

    free_bytes: how many bytes may still be appended before it is full; None: no limit.
    """

    def __init__(self) -> None:
        self.free_bytes: int | None = None
        self._names: dict[str, _Content | None] = {}  # None is a directory
        self._durable: dict[str, _Content | None] = {}  # the names that a crash leaves

    def crash(self, tear_bytes: int | None = None) -> "MemoryDisk":
        """Return the disk in memory as a broker's start would find it after a loss of power.

        tear_bytes: None leaves only what was synced, bytes and names. A number: all names survive,
        and this many bytes of what changed in each file since its last sync.
        """
        crashed = MemoryDisk()
        names = self._durable if tear_bytes is None else self._names
        # Sorted, so that a directory comes before what is in it.
        for path, content in sorted(names.items()):
            parent = parent_of(path)
            if parent != ROOT and parent not in crashed._names:
                continue
            left = None if content is None else _Content(content.after_crash(tear_bytes or 0))
            crashed._names[path] = crashed._durable[path] = left
        return crashed

    def append(self, path: str, at: int, data: Buffer) -> None:
        """Write bytes to a file of the disk in memory, at a byte position."""
        # A full disk takes what fits and then raises, as a file system does.
        content = self._file(path, create=True)
        if self.free_bytes is not None:
            if len(data) > self.free_bytes:
                content.write(at, memoryview(data)[: self.free_bytes])
                self.free_bytes = 0
                raise DiskError(
                    f"append {len(data)} bytes to", path, OSError(ENOSPC, "no space left")
                )
            self.free_bytes -= len(data)
        content.write(at, data)

    def resize(self, path: str, size_bytes: int) -> None:
        """Set the size of a file of the disk in memory."""
        self._file(path, create=True).resize(size_bytes)

    def view(self, path: str, start: int, end: int) -> memoryview:
        """Return bytes `start` to `end` of a file of the disk in memory, without a copy."""
        content = self._file(path)
        if end > content.size_bytes:
            raise DiskError(
                f"read up to byte {end} of",
                path,
                OSError(EINVAL, f"the file has {content.size_bytes} bytes"),
            )
        return memoryview(content.buffer).toreadonly()[start:end]

    def size(self, path: str) -> int:
        """Return the size of a file of the disk in memory; 0 if there is none."""
        content = self._names.get(path)
        return 0 if content is None else content.size_bytes

    def list_dir(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory of the disk in memory."""
        return tuple(
            sorted(name.rpartition("/")[2] for name in self._names if parent_of(name) == path)
        )

    def make_dir(self, path: str) -> None:
        """Create a directory on the disk in memory if it is missing."""
        self._names.setdefault(path, None)

    def delete(self, path: str) -> None:
        """Delete a file or an empty directory of the disk in memory, if it exists."""
        if path in self._names and self._names[path] is None and self.list_dir(path):
            raise DiskError("delete", path, OSError(ENOTEMPTY, "the directory is not empty"))
        self._names.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a file of the disk in memory, atomically."""
        self._names[new] = self._file(old)
        del self._names[old]

    def write_new(self, path: str, data: Buffer) -> None:
        """Create or replace a file of the disk in memory as a whole."""
        self._names.pop(path, None)
        self.append(path, 0, data)

    def sync(self, paths: Iterable[str]) -> None:
        """Make files, and the names in directories, survive a simulated crash, as fsync does."""
        for path in paths:
            content = self._names.get(path)
            if content is not None:
                content.sync()
            # Names become durable with their directory, not with the files, as POSIX has it.
            elif path == ROOT or path in self._names:
                durable = {
                    name: old for name, old in self._durable.items() if parent_of(name) != path
                }
                self._durable = durable | {
                    name: now for name, now in self._names.items() if parent_of(name) == path
                }

    def is_synced(self, path: str) -> bool:
        """Return whether a file of the disk in memory was synced since its last change."""
        content = self._names.get(path)
        return content is not None and content.synced

    def space(self) -> DiskSpace:
        """Return how much the disk in memory can still take, if that has a limit."""
        return DiskSpace("memory", self.free_bytes)

    def _file(self, path: str, create: bool = False) -> _Content:
        """Return a file of the disk in memory; `create` it if it is missing, or raise DiskError."""
        content = self._names.get(path)
        if content is not None:
            return content
        if not create:
            raise DiskError("open", path, OSError(ENOENT, "no such file"))
        content = self._names[path] = _Content()
        return content
