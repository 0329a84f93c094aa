"""The part files of one batch before a commit: written, fitted to the table's fences, or deleted.

Each attempt to commit reads the fences anew. If another application has moved one meanwhile, rows
that were written already are below it: whole files of such rows are deleted, and a file with rows
on both sides of the fence is written again without the lower ones.
"""

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from apportion.spark.delta_sink.files import (
    REPORT,
    OffsetWindow,
    PartFileWriter,
    WrittenFile,
    delete_files,
    rewrite_part_files,
)
from apportion.spark.delta_sink.table import TableAttempt
from apportion.topics import TopicPartition

WriteRows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for mapInArrow, which writes files and returns rows of `REPORT`."""


class UncommittedFiles:
    """The part files of one batch that are not committed yet, over all attempts of `Writer`."""

    def __init__(self, frame: DataFrame, files: PartFileWriter) -> None:
        self._frame = frame
        self._files = files
        self._written: list[WrittenFile] | None = None  # None: not written yet

    def fit_to_fences(self, windows: Mapping[TopicPartition, OffsetWindow]) -> list[WrittenFile]:
        """Return part files with exactly the batch's rows from the lower bounds of `windows` on.

        The first call writes all of them; later calls, after a conflict, adapt what was written.
        """
        files = self._files._replace(windows=windows)
        if self._written is None:
            self._written = self._run(self._frame, files.write)
            return self._written
        keep = [file for file in self._written if file.first >= windows[file.topic_partition].lower]
        straddling = [
            file
            for file in self._written
            if file.first < windows[file.topic_partition].lower <= file.last
        ]
        if straddling:
            paths = self._frame.sparkSession.createDataFrame(
                [(file.path,) for file in straddling], "path string"
            )
            keep += self._run(paths, lambda batches: rewrite_part_files(files, batches))
        kept = {file.path for file in keep}
        # After the rewrite: if that fails, the old files are still there for `discard` to delete.
        stale = [file.path for file in self._written if file.path not in kept]
        delete_files(files.filesystem(), stale)
        self._written = keep
        return keep

    def forget_committed(self, attempt: TableAttempt) -> None:
        """Forget the files that the table refers to, so that `discard` does not delete them.

        A commit may fail after it was made; then the conflict was with this batch itself.
        """
        if self._written:
            committed = attempt.paths()
            self._written = [file for file in self._written if file.path not in committed]

    def discard(self) -> list[WrittenFile]:
        """Delete the part files of a batch that the Delta writer will not commit, and forget them.

        Called if the batch fails or is in the table already. Returns the empty list, as the files
        to commit.
        """
        delete_files(self._files.filesystem(), [file.path for file in self._written or ()])
        self._written = []
        return self._written

    @staticmethod
    def _run(frame: DataFrame, write: WriteRows) -> list[WrittenFile]:
        files = frame.mapInArrow(write, from_arrow_schema(REPORT)).collect()
        return [WrittenFile(*row) for row in files]
