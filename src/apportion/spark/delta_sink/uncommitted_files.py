"""The part files of one batch before a commit: written, fitted to the table's fences, or deleted.

Each attempt to commit reads the fences anew. If another application has moved one meanwhile, rows
that were written already are below it: whole files of such rows are deleted, and a file with rows
on both sides of the fence is written again without the lower ones.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from pyarrow import RecordBatch
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from apportion.spark.delta_sink.constraint_columns import with_constraints
from apportion.spark.delta_sink.files import (
    OUTCOME,
    OffsetWindow,
    PartFileWriter,
    WrittenFile,
    delete_files,
    files_of_job,
    new_job_name,
    report_or_refuse,
    rewrite_part_files,
)
from apportion.spark.delta_sink.table import Fit, TableAttempt
from apportion.spark.errors import NotWritable
from apportion.spark.queries.running_tasks import await_tasks, tagged
from apportion.topics import TopicPartition


class UncommittedFiles:
    """The part files of one batch that are not committed yet, over all attempts of `Writer`."""

    def __init__(self, frame: DataFrame, files: PartFileWriter) -> None:
        self._frame = self._checked = frame
        self._files = files
        self._fit = Fit([], [], files.schema)  # by which the files are written
        self._written: list[WrittenFile] | None = None  # None: not written yet

    def are_written(self) -> bool:
        """Return whether there are files of the batch, as far as the driver knows."""
        return bool(self._written)

    def adapt_to(self, fit: Fit) -> None:
        """Let the files be as the table requires now, and each row be checked when it is written.

        Files that were written otherwise are discarded, to be written again. Raises NotWritable
        where Spark cannot evaluate a constraint.
        """
        if (fit.constraints, fit.stored) != (self._fit.constraints, self._fit.stored):
            self._checked = with_constraints(self._files.table, self._frame, fit.constraints)
            self._fit = fit
            self.discard()
            self._written = None

    def fit_to_fences(self, windows: Mapping[TopicPartition, OffsetWindow]) -> list[WrittenFile]:
        """Return part files with exactly the batch's rows from the lower bounds of `windows` on.

        The first call writes all of them; later calls, after a conflict, adapt what was written.
        Raises NotWritable for a row that breaks a constraint.
        """
        files = self._files._replace(windows=windows, stored=self._fit.stored)
        if self._written is None:
            texts = tuple(constraint.text for constraint in self._fit.constraints)
            self._written = self._run(
                self._checked, files._replace(constraints=texts), PartFileWriter.write
            )
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
            keep += self._run(paths, files, rewrite_part_files)
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

    def _run(
        self, frame: DataFrame, files: PartFileWriter, write: Callable[..., Iterator[RecordBatch]]
    ) -> list[WrittenFile]:
        """Return the files of a job; where it fails, or a task refused a row, delete them.

        Raises NotWritable for the row, and otherwise what the job has raised.
        """
        job = new_job_name()
        task = partial(report_or_refuse, partial(write, files._replace(job=job)))
        try:
            with tagged(frame, job):
                reported = frame.mapInArrow(task, from_arrow_schema(OUTCOME)).collect()
        except BaseException:
            # The driver has no report of any task, and Spark has not waited for those that run.
            await_tasks(frame, job)
            with suppress(OSError):  # a later cleaning finds what stays: nothing refers to it
                delete_files(files.filesystem(), files_of_job(files.filesystem(), job))
            raise
        written = [WrittenFile(*report) for *report, refusal in reported if refusal is None]
        refusals = [refusal for *_, refusal in reported if refusal is not None]
        if refusals:
            delete_files(files.filesystem(), [file.path for file in written])
            raise NotWritable(min(refusals))
        return written
