"""The part files of one batch before a commit: written, fitted to the table's fences, or deleted.

Each attempt to commit reads the fences anew. If another application has moved one meanwhile, rows
that were written already are below it: whole files of such rows are deleted, and a file with rows
on both sides of the fence is written again without the lower ones.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from pyarrow import RecordBatch
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

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
from apportion.spark.delta_sink.row_constraints import Constraint
from apportion.spark.delta_sink.table import Fit, TableAttempt
from apportion.spark.errors import ELSEWHERE, NotWritable
from apportion.spark.queries.running_tasks import await_tasks, tagged
from apportion.topics import TopicPartition


class UncommittedFiles:
    """The part files of one batch that are not committed yet, over all attempts of `Writer`."""

    def __init__(self, frame: DataFrame, files: PartFileWriter) -> None:
        self._frame = self._checked = frame
        self._files = files
        self._constraints: list[Constraint] = []  # whose columns `_checked` has
        self._written: list[WrittenFile] | None = None  # None: not written yet

    def are_written(self) -> bool:
        """Return whether there are files of the batch, as far as the driver knows."""
        return bool(self._written)

    def adapt_to(self, fit: Fit) -> None:
        """Let the files be as the table requires now, and each row be checked when it is written.

        Files that were written otherwise are discarded, to be written again. Raises NotWritable
        where Spark cannot evaluate a constraint.
        """
        if (fit.constraints, fit.stored) != (self._constraints, self._files.stored):
            self._checked = with_constraints(self._files.table, self._frame, fit.constraints)
            self._constraints = fit.constraints
            self._files = self._files._replace(stored=fit.stored)
            self.discard()
            self._written = None

    def fit_to_fences(self, windows: Mapping[TopicPartition, OffsetWindow]) -> list[WrittenFile]:
        """Return part files with exactly the batch's rows from the lower bounds of `windows` on.

        The first call writes all of them; later calls, after a conflict, adapt what was written.
        Raises NotWritable for a row that breaks a constraint.
        """
        files = self._files._replace(windows=windows)
        if self._written is None:
            texts = tuple(constraint.text for constraint in self._constraints)
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


def with_constraints(path: str, frame: DataFrame, constraints: list[Constraint]) -> DataFrame:
    """Return the frame with one more column for each constraint, at its end: whether it is true.

    Raises NotWritable where Spark cannot evaluate it on the frame's columns.
    """
    if not constraints:
        return frame
    columns = [
        f"{_is_true(constraint.condition)} AS apportion_constraint_{number}"
        for number, constraint in enumerate(constraints)
    ]
    try:
        return _analysed(frame.selectExpr("*", *columns))
    except AnalysisException:
        for constraint, column in zip(constraints, columns, strict=True):
            _refuse_unevaluable(path, frame, constraint, column)
        raise


def _is_true(condition: str) -> str:
    """Return the SQL that is true where the condition is, and false where it is false or null.

    False also where Spark cannot evaluate it of a row, as with a division by zero: the error would
    end the task, and name neither the constraint nor the row.
    """
    # Spark has no `try` of any expression, but try_to_binary evaluates its argument in one. Within
    # a lambda, since what several conditions have in common is evaluated before all of them, and
    # outside of any `try`, but for what is in a lambda. The parenthesis is on a line of its own,
    # since the condition may end in a comment.
    evaluated = f"forall(array(0), apportion_once -> ({condition}\n))"
    return f"(try_to_binary(string({evaluated}), 'utf-8') <=> to_binary('true', 'utf-8'))"


def _refuse_unevaluable(path: str, frame: DataFrame, constraint: Constraint, column: str) -> None:
    """Raise NotWritable where Spark cannot evaluate this constraint on the frame's columns."""
    try:
        _analysed(frame.selectExpr(column))
    except AnalysisException as error:
        raise NotWritable(
            f"the Delta table {path} requires {constraint.text}, which Spark cannot evaluate "
            f"on the columns of this query ({str(error).splitlines()[0]}): add to the query "
            f"the columns that it names, {ELSEWHERE}"
        ) from None


def _analysed(frame: DataFrame) -> DataFrame:
    """Return the frame; Spark Connect analyses it when its schema is asked for."""
    frame.schema  # noqa: B018
    return frame
