"""The batch that a query's source has planned, as a file for the query's writer.

Through Spark Connect the function of foreachBatch runs in a process without the JVM. It is given
rows and a batch id, and neither leads to the offsets of the batch. So two things lead there:

- The source's column `offset` carries the id of its `load()` (`reading/source_columns.py`), which
  Spark shows in the schema of the batch, empty or not.
- Before a batch runs, Spark asks the source for its tasks. The source then leaves the batch's span
  in a file that is named by this id, in the private directory of the host.

The source holds a lock on its file. A file without a lock is of a process that was killed, and
counts as not there; the next source removes it.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from apportion.member.batch.span import Span, parse_span
from apportion.security.client_security import PLAINTEXT
from apportion.spark.errors import PlainError
from apportion.spark.processes.private_files import (
    LOCKED,
    create_directory,
    private_directory,
)

# The source's side, which every process of Spark has, needs neither to be there.
if TYPE_CHECKING:
    from apportion.spark.options.stream import SourceOptions
    from apportion.spark.queries.introspection import SourceReading


class BatchNotLeft(PlainError, RuntimeError):
    """A writer through Spark Connect could take another query's batch for this query's."""

    def __init__(self, error: object) -> None:
        """Create the error. error: why this query's source could not leave its batch."""
        super().__init__(
            "two running queries read from one load(), and this one cannot leave what it reads in "
            f"the temporary directory ({error}). Through Spark Connect a writer would take the "
            "batch of the other query for its own: give each query a load() of its own, and see "
            "that the directory that TMPDIR names has room"
        )


class PlannedBatchFile:
    """The file of one running source, which holds the batch that it has planned last."""

    def __init__(self, load: str, options: "SourceOptions") -> None:
        """Note whose batches they will be. load: as `load_id` returned it."""
        self._load = load
        self._group = options.group
        self._client_id = options.client_id
        # No password lies in a file: the writer of a secured cluster goes without an address.
        self._bootstrap = options.bootstrap if options.security == PLAINTEXT else ""
        self._file: IO[str] | None = None
        self._expected: Span | None = None
        self._failed: OSError | None = None  # the first that there was

    def expect(self, span: Span) -> None:
        """Note the batch that the source has planned last: the next one that Spark runs."""
        self._expected = span

    def write(self, span: Span) -> None:
        """Replace the batch in the file at once, unless it is an older one.

        Where there can be no file there is none: only a writer through Spark Connect looks for it,
        and says so. Raises BatchNotLeft if it would find another query's file in its place.
        """
        # Any other is of an older batch, whose rows a program reads late. Until the source has
        # planned one, Spark replays the last batch of its log.
        if not self._load or self._expected not in (None, span):
            return
        batch = {
            "bootstrap": self._bootstrap,
            "client_id": self._client_id,
            "group": self._group,
            "span": span.to_json(),
        }
        try:
            directory = create_directory()
            if self._file is None:
                _remove_unlocked(directory)
            file = _locked_file(directory / self._name(), json.dumps(batch))
        except OSError as error:
            # The batch before this one must not be taken for it.
            self.close()
            self._failed = self._failed or error
        else:
            self._file, earlier = file, self._file
            if earlier is not None:
                earlier.close()
        # Also later on: a writer that found one file keeps to it.
        if self._failed is not None and self._has_others():
            self.close()
            raise BatchNotLeft(self._failed) from self._failed

    def close(self) -> None:
        """Delete the file: its source has ended."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with suppress(OSError):
                (private_directory() / self._name()).unlink(missing_ok=True)

    def _has_others(self) -> bool:
        """Return whether another running source of this `load()` has a file."""
        return any(path.name != self._name() for path in planned_batches(self._load))

    def _name(self) -> str:
        return f"{self._load}.{os.getpid()}.batch"


def _locked_file(path: Path, text: str) -> IO[str]:
    """Replace a file at once, and return it with a lock on it."""
    draft = path.with_suffix(".batch-draft")
    file = draft.open("w")
    try:
        # Before the file has its name: a reader that finds it finds it locked.
        fcntl.flock(file, fcntl.LOCK_EX)
        # `_remove_unlocked` of another source may have come first.
        if not os.fstat(file.fileno()).st_nlink:
            file.close()
            return _locked_file(path, text)
        file.write(text)
        file.flush()
        draft.replace(path)
    except OSError:
        file.close()
        raise
    return file


def _remove_unlocked(directory: Path) -> None:
    """Delete the files of sources that were killed."""
    for path in directory.iterdir():
        if path.suffix not in LOCKED:
            continue
        with suppress(OSError), path.open() as file:  # a running source's cannot be locked
            # Shared, as `_read_or_none` does it, which would take any other for the source's.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # A source that has replaced its file meanwhile has let go of the one that is open.
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                path.unlink()


def planned_batches(load: str) -> "dict[Path, SourceReading]":
    """Return, by file, what each running source of one `load()` reads in its batch.

    There are several where several queries read from one `load()`.
    """
    try:
        paths = sorted(private_directory().glob(f"{load}.*.batch"))
    except OSError:
        return {}
    found = {path: _read_or_none(path) for path in paths}
    return {path: reading for path, reading in found.items() if reading is not None}


def _read_or_none(path: Path) -> "SourceReading | None":
    """Return the batch in a file; None where no running source holds it."""
    from apportion.spark.queries.introspection import SourceReading

    try:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                batch: dict[str, Any] = json.load(file)
                return SourceReading(
                    batch["group"],
                    parse_span(batch["span"]),
                    batch["bootstrap"],
                    client_id=batch["client_id"],
                )
    except FileNotFoundError:  # the source has just ended
        pass
    return None
