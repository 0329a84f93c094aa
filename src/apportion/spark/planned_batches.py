"""The batch that a query's source has planned, as a file for the query's writer.

Through Spark Connect the function of foreachBatch runs in a process without the JVM. It is given
rows and a batch id, and neither leads to the offsets of the batch. So two things lead there:

- The source's column `offset` carries the id of its `load()` (`source_columns.py`), which Spark
  shows in the schema of the batch, empty or not.
- Before a batch runs, Spark asks the source for its tasks. The source then leaves the batch's span
  in a file that is named by this id, in the private directory of the host.

The source holds a lock on its file. A file without a lock is of a process that was killed, and
counts as not there.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from apportion.member.batch.span import Span, parse_span
from apportion.security.client_security import PLAINTEXT
from apportion.spark.options import SourceOptions
from apportion.spark.private_files import create_directory, private_directory
from apportion.spark.query_introspection import SourceReading


class PlannedBatchFile:
    """The file of one running source, which holds the batch that it has planned last."""

    def __init__(self, load: str, options: SourceOptions) -> None:
        """Note whose batches they will be. load: as `load_id` returned it."""
        self._load = load
        self._group = options.group
        # No password lies in a file: the writer of a secured cluster goes without an address.
        self._bootstrap = options.bootstrap if options.security == PLAINTEXT else ""
        self._file: IO[str] | None = None

    def write(self, span: Span) -> None:
        """Replace the batch in the file at once.

        Where there can be no file there is none: only a writer through Spark Connect looks for it,
        and says so.
        """
        if not self._load:
            return
        batch = {"bootstrap": self._bootstrap, "group": self._group, "span": span.to_json()}
        try:
            path = create_directory() / f"{self._load}.{os.getpid()}.batch"
            file = _locked_file(path, json.dumps(batch))
        except OSError:
            # The batch before this one must not be taken for it.
            self.close()
        else:
            self._file, earlier = file, self._file
            if earlier is not None:
                earlier.close()

    def close(self) -> None:
        """Delete the file: its source has ended."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with suppress(OSError):
                for path in private_directory().glob(f"{self._load}.{os.getpid()}.batch"):
                    path.unlink(missing_ok=True)


def _locked_file(path: Path, text: str) -> IO[str]:
    """Replace a file at once, and return it with a lock on it."""
    draft = path.with_suffix(".draft")
    file = draft.open("w")
    try:
        # Before the file has its name: a reader that finds it finds it locked.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text)
        file.flush()
        draft.replace(path)
    except OSError:
        file.close()
        raise
    return file


def planned_batches(load: str) -> dict[Path, SourceReading]:
    """Return, by file, what each running source of one `load()` reads in its batch.

    There are several where several queries read from one `load()`.
    """
    try:
        paths = sorted(private_directory().glob(f"{load}.*.batch"))
    except OSError:
        return {}
    found = {path: _read_or_none(path) for path in paths}
    return {path: reading for path, reading in found.items() if reading is not None}


def _read_or_none(path: Path) -> SourceReading | None:
    """Return the batch in a file; None where no running source holds it."""
    try:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                batch: dict[str, Any] = json.load(file)
                return SourceReading(batch["group"], parse_span(batch["span"]), batch["bootstrap"])
    except FileNotFoundError:  # the source has just ended
        pass
    return None
