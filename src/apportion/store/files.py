"""The real disk behind the port: a directory of this machine.

No other module of the store calls the operating system. Every failure is a `DiskError`.
"""

import fcntl
import mmap
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from errno import EINVAL
from pathlib import Path

from apportion.store.disk import DiskError, DiskSpace
from apportion.wire.codec import Buffer

OPEN_FILES = 192
"""How many files stay open at most; a mapped one costs a second descriptor."""
SYNCS_AT_ONCE = 8
"""How many files are synced at the same time."""

# It leaves out the time of the change, which nobody reads. Not every system has it.
fdatasync = getattr(os, "fdatasync", os.fsync)


@contextmanager
def _failing(attempt: str, where: str) -> Iterator[None]:
    """Turn an error of the operating system into a DiskError about this attempt."""
    try:
        yield
    except OSError as error:
        raise DiskError(attempt, where, error) from error


class _OpenFile:
    """An open file with its memory map."""

    __slots__ = ("fd", "map", "size_bytes")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.size_bytes = os.fstat(fd).st_size
        # of a prefix; the views that were cut from an older one keep that one alive
        self.map = memoryview(b"")

    def __del__(self) -> None:
        os.close(self.fd)


class RealDisk:
    """A directory of the machine, used by one thread at a time, while `sync` may run in another.

    Files are opened on their first use; the least recently used are closed again, unless they wait
    for a sync.
    """

    def __init__(self, root: str | Path, open_files: int = OPEN_FILES) -> None:
        """Open the data directory, which is created for its owner alone if it does not exist.

        open_files: how many files may be open at once. Raises DiskError.
        """
        self.root = os.fspath(root)
        self._limit = open_files
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._changes = 0
        self._changed: dict[str, int] = {}  # path -> the number of its last change
        self._synced: dict[str, int] = {}  # path -> the number of the last change that is durable
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._lock_fd: int | None = None
        try:
            os.makedirs(self.root, 0o700, exist_ok=True)
        except FileExistsError as error:
            cause = OSError(error.errno, "it is a file")
            raise DiskError("use the directory", self.root, cause) from error
        except OSError as error:
            raise DiskError("make the directory", self.root, error) from error

    def lock(self) -> None:
        """Lock the data directory against other brokers until `close`.

        Errors: DiskError if another broker has it.
        """
        path = self._absolute_path(".lock")
        with _failing("lock the directory", self.root):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The lock ends with the process, so a broker that was killed leaves none behind.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise DiskError(
                "use the directory", self.root, OSError(error.errno, "another broker is using it")
            ) from error
        self._lock_fd = fd

    def close(self) -> None:
        """Close all files of the data directory and release its lock.

        Views of the files stay valid. Nothing is synced.
        """
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        with self._lock:
            self._open.clear()
            if self._lock_fd is not None:
                os.close(self._lock_fd)
                self._lock_fd = None

    def append(self, path: str, at: int, data: Buffer) -> None:
        """Write bytes at a position of a file."""
        with self._lock:
            file = self._file(path, create=True)
            self._mark_changed(path)
            rest = memoryview(data)
            try:
                while rest:
                    written = os.pwrite(file.fd, rest, at)
                    rest, at = rest[written:], at + written
            except OSError as error:
                raise DiskError(
                    f"append {len(data)} bytes to", self._absolute_path(path), error
                ) from error
            finally:
                # After an error, too: what was written before it stands in the file.
                file.size_bytes = max(file.size_bytes, at)

    def resize(self, path: str, size_bytes: int) -> None:
        """Set the size of a file."""
        with self._lock:
            file = self._file(path, create=True)
            self._mark_changed(path)
            with _failing(f"give {size_bytes} bytes to", self._absolute_path(path)):
                os.ftruncate(file.fd, size_bytes)
            file.size_bytes = size_bytes
            # To read a map beyond the end of its file would end the process (SIGBUS).
            if len(file.map) > size_bytes:
                file.map = memoryview(b"")

    def view(self, path: str, start: int, end: int) -> memoryview:
        """Return bytes of a file without a copy, by a memory map."""
        with self._lock:
            file = self._file(path)
            if end > len(file.map):
                if end > file.size_bytes:
                    cause = OSError(EINVAL, f"the file has {file.size_bytes} bytes")
                    raise DiskError(f"read up to byte {end} of", self._absolute_path(path), cause)
                try:
                    file.map = memoryview(
                        mmap.mmap(file.fd, file.size_bytes, access=mmap.ACCESS_READ)
                    )
                # ValueError: the file is shorter than it was
                except (OSError, ValueError) as error:
                    cause = error if isinstance(error, OSError) else OSError(EINVAL, str(error))
                    raise DiskError("map", self._absolute_path(path), cause) from error
            return file.map[start:end]

    def size(self, path: str) -> int:
        """Return the size of a file; 0 if there is none."""
        with self._lock:
            if path in self._open:
                return self._open[path].size_bytes
        with _failing("look at", self._absolute_path(path)), suppress(FileNotFoundError):
            return os.stat(self._absolute_path(path)).st_size
        return 0

    def list_dir(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory."""
        absolute_path = self._absolute_path(path)
        with _failing("list the directory", absolute_path), suppress(FileNotFoundError):
            return tuple(sorted(os.listdir(absolute_path)))
        return ()

    def make_dir(self, path: str) -> None:
        """Create a directory if it is missing."""
        absolute_path = self._absolute_path(path)
        with _failing("make the directory", absolute_path), suppress(FileExistsError):
            os.mkdir(absolute_path)

    def delete(self, path: str) -> None:
        """Delete a file or an empty directory, if it exists."""
        absolute_path = self._absolute_path(path)
        self._forget(path)
        with _failing("delete", absolute_path), suppress(FileNotFoundError):
            if os.path.isdir(absolute_path):
                os.rmdir(absolute_path)
            else:
                os.unlink(absolute_path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically."""
        self._forget(old)
        self._forget(new)
        before, after = self._absolute_path(old), self._absolute_path(new)
        with _failing(f"rename {before} to", after):
            os.replace(before, after)

    def write_new(self, path: str, data: Buffer) -> None:
        """Create or replace a file as a whole."""
        temporary = path + ".new"
        try:
            self.resize(temporary, 0)
            self.append(temporary, 0, data)
            self.rename(temporary, path)
        except DiskError:
            with suppress(DiskError):
                self.delete(temporary)
            raise

    def sync(self, paths: Iterable[str]) -> None:
        """Make files and directories durable, for a flush."""
        # In parallel: the file system then commits its journal once for all of them.
        waiting = list(paths)
        # For one file a thread would cost more than it saves.
        if len(waiting) < 2:
            for path in waiting:
                self._sync(path)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(SYNCS_AT_ONCE, "sync")
        running = [self._pool.submit(self._sync, path) for path in waiting]
        # All of them, before an error is raised: no sync may go on when its flush has failed.
        wait(running)
        for sync in running:
            sync.result()

    def is_synced(self, path: str) -> bool:
        """Return whether a file was synced since its last change."""
        with self._lock:
            return self._synced.get(path) == self._changed.get(path, 0)

    def space(self) -> DiskSpace:
        """Return the data directory, and what its file system has free for the broker's user."""
        try:
            system = os.statvfs(self.root)
        except OSError:
            return DiskSpace(self.root, None)
        return DiskSpace(self.root, system.f_bavail * system.f_frsize)

    def _absolute_path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _sync(self, path: str) -> None:
        """Sync one file or directory for a flush, in a thread of the pool."""
        with self._lock:
            # Before the sync: a change that comes while it runs is not covered.
            change = self._changed.get(path, 0)
            # its descriptor has seen every write, so it also reports every lost one
            file = self._open.get(path)
            # A descriptor of its own, because another thread may close the file meanwhile.
            fd = os.dup(file.fd) if file else -1
        try:
            if fd < 0:
                fd = os.open(self._absolute_path(path), os.O_RDONLY | os.O_CLOEXEC)
            (os.fsync if stat.S_ISDIR(os.fstat(fd).st_mode) else fdatasync)(fd)
        # A file that was deleted needs no sync.
        except FileNotFoundError:
            return
        except OSError as error:
            raise DiskError("sync", self._absolute_path(path), error) from error
        finally:
            if fd >= 0:
                os.close(fd)
        with self._lock:
            self._synced[path] = change

    def _mark_changed(self, path: str) -> None:
        self._changes += 1
        self._changed[path] = self._changes

    def _forget(self, path: str) -> None:
        """Close the file: it is being deleted or replaced."""
        with self._lock:
            self._open.pop(path, None)
            self._changed.pop(path, None)
            self._synced.pop(path, None)

    def _file(self, path: str, create: bool = False) -> _OpenFile:
        """Return the open file of that path, opened if needed.

        Above the limit of open files idle ones are closed.
        """
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with _failing("open", self._absolute_path(path)):
            file = _OpenFile(os.open(self._absolute_path(path), flags, 0o644))
        if len(self._open) >= self._limit:
            idle = [
                other
                for other in self._open
                # A file with unsynced writes stays open: only its own descriptor reports a write
                # that was lost later.
                if self._changed.get(other) in (None, self._synced.get(other))
            ]
            for other in idle[: len(self._open) + 1 - self._limit]:
                del self._open[other]
        self._open[path] = file
        return file
