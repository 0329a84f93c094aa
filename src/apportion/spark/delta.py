"""The exactly-once writer for Delta Lake.

The table itself stores, for each group and Kafka partition, the next offset that it needs: the
partition's fence, kept as an app transaction of Delta's log (`txn`). A batch goes this way:

1. Read the fences from a fresh snapshot of the table, and admit of each partition's offset range
   only what lies at or above its fence (`member.batch.fences.admit_range`).
2. Executors write the admitted rows to Parquet files where the rows are (`delta_sink/files.py`). No
   row passes through the driver.
3. The driver commits all files and the moved fences in one transaction. Delta refuses it if another
   writer has moved one of these fences since the snapshot; then it all begins again at 1.

So a batch that Spark replays, and a batch of an application that lost its partitions without
knowing it, find the fences moved and write nothing.

    writer = delta.Writer("/lake/flights")
    events.writeStream.foreachBatch(writer).option("checkpointLocation", "/checkpoints/v1").start()
"""

import os
from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.spark.delta_sink.batch_admission import (
    AskedRewinds,
    FencePolicy,
    app_id_of,
    missing_records_or_none,
)
from apportion.spark.delta_sink.columns import SOURCE_COLUMNS, table_schema
from apportion.spark.delta_sink.connect_query import ConnectQuery
from apportion.spark.delta_sink.files import PartFileWriter
from apportion.spark.delta_sink.ownership import (
    explain_lost_offsets,
    fetch_group_progress,
    refuse_claimed_group,
    refuse_foreign_batch,
    table_location,
    table_name,
)
from apportion.spark.delta_sink.shared_directory import require_shared
from apportion.spark.delta_sink.table import CommitConflict, TableAttempt
from apportion.spark.delta_sink.table_checks import (
    refuse_unfit_local_table,
    refuse_unfit_table,
)
from apportion.spark.delta_sink.table_cleaning import DailyCleaning, clean
from apportion.spark.delta_sink.uncommitted_files import UncommittedFiles
from apportion.spark.delta_sink.writer_options import refuse_wrong_arguments
from apportion.spark.delta_sink.writer_work import WRITER_WORK
from apportion.spark.errors import NotWritable
from apportion.spark.options.stream import SourceOptions
from apportion.spark.processes import handover
from apportion.spark.processes.plain_errors import without_traceback
from apportion.spark.queries.checkpoints import warn_of_temporary_checkpoint
from apportion.spark.queries.frame_sources import is_classic, stream_options
from apportion.spark.queries.introspection import (
    ClassicQuery,
    RunningQuery,
    SourceReading,
    classic_query,
    is_classic_session,
)
from apportion.spark.queries.stateless import guard
from apportion.topics import TopicIdPartition

__all__ = ["Writer", "clean"]


class Writer:
    """A function for foreachBatch that writes every record's rows to a Delta table exactly once.

    table: path or URI, created on first use with the query's columns; columns that the table lacks
    are added. The query must keep the source's columns topic, partition and offset; one record may
    become no, one or several rows. It may have several sources, each with topics of its own.
    Several queries may write to one table, and those of one group must: the fences are the table's.
    A query may write to several tables, with a writer for each; it calls all of them once for every
    batch.

    adopt: begin in a group, or go on with a checkpoint, whose offsets did not come from this table,
    as if they had; the query waits for the group's members to leave, for a session timeout and 5 s.
    rewind: where something else has moved the group's offsets past what the table has, let the
    source go back to that, instead of raising LostOffsets.
    attempts: how often a batch may find the table changed by other writers before it fails.

    Files of lost hosts are removed daily, after the table's own retention (a week unless the table
    sets another), and no others.

    Raises, and so stops the query: AnotherSink where the batch belongs to a query with other
    tables; StatefulQuery for a query that keeps state; ValueError where the columns are missing or
    were changed, or have other types in the table, where the table cannot be written or a row
    breaks a constraint of it, where two sources read one topic, or where it is called twice for one
    batch; OSError where the driver does not find the files that executors have written; LostOffsets
    where records between the table's fence and the batch are missing (unless `fail_on_data_loss` is
    False).
    """

    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        fail_on_data_loss: bool = True,
        adopt: bool = False,
        rewind: bool = False,
        attempts: int = 30,
    ) -> None:
        flags = {"fail_on_data_loss": fail_on_data_loss, "adopt": adopt, "rewind": rewind}
        refuse_wrong_arguments(table, storage_options, flags, attempts)
        self.table = table_location(os.fspath(table))  # executors may run in other directories
        self.storage_options = storage_options
        self.fail_on_data_loss = fail_on_data_loss
        self.adopt, self.rewind = adopt, rewind
        self.attempts = attempts
        self.sink = table_name(self.table)
        self._rewinds: AskedRewinds = {}
        self._checked_runs: set[str] = set()  # run ids of the queries known to keep no state
        self._written: tuple[str, int] | None = None  # run id and batch id of the last batch
        self._cleaning = DailyCleaning(self.table, self.storage_options)
        self._connect_query = ConnectQuery()
        # Where Spark Connect lists the query, for a writer of a module that its server imports.
        self._connect_session = SparkSession.getActiveSession()
        # Through Spark Connect, paths are those of the server.
        if is_classic_session(self._connect_session):
            refuse_unfit_local_table(self.table, SOURCE_COLUMNS)
            handover.require_directory(self.sink)

    def _policy(self) -> FencePolicy:
        # New for each use: a program may have changed the options meanwhile.
        return FencePolicy(
            self.sink,
            self._rewinds,
            fail_on_data_loss=self.fail_on_data_loss,
            adopt=self.adopt,
            rewind=self.rewind,
        )

    def check(self, rows: DataFrame) -> Self:
        """Return this writer if a query can begin to write these rows.

        Raises at once, and so before `start()`, what the query's first batch would raise: as the
        writer does, OptionError for a source without a group, AnotherSink for a group that belongs
        to another table, and LostOffsets where the table lacks what its group has committed for it.
        """
        guard(rows)
        columns = table_schema(rows)
        if is_classic(rows):
            refuse_unfit_table(self.table, self.storage_options, columns, rows)
        for options in stream_options(rows):
            if not self.adopt:
                stored = refuse_claimed_group(options, self.sink)
                if is_classic(rows) and self.fail_on_data_loss and not self.rewind:
                    self._refuse_missing_records(options, stored)
        return self

    def _refuse_missing_records(
        self, options: SourceOptions, stored: Mapping[TopicIdPartition, OffsetAndMetadata]
    ) -> None:
        """Raise LostOffsets where the table lacks what its group has committed for it."""
        # Opened after the offsets were fetched: other applications of the group write meanwhile,
        # and a snapshot from before would lack what they have committed since.
        attempt = TableAttempt.on_existing_or_none(self.table, self.storage_options)
        lost = missing_records_or_none(attempt, options.group, stored, self.sink)
        if lost is not None:
            committed, log_start = fetch_group_progress(options.group, lost.partition, options)
            raise explain_lost_offsets(
                lost, options.group, self.sink, committed=committed, log_start=log_start
            )

    @WRITER_WORK.running()
    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write the rows of the batch that the table does not have yet, as foreachBatch's function.

        frame: the rows of the batch. batch_id: Spark's; a replayed batch has the same one again.
        """
        with without_traceback():
            self._write_batch(self._query(frame, batch_id), frame, batch_id)
        self._cleaning.start_if_due()

    def _query(self, frame: DataFrame, batch_id: int) -> RunningQuery:
        """Return the query that has called this writer."""
        if is_classic(frame):
            return classic_query(frame)
        self._connect_query.begin(self._connect_session, frame, batch_id)
        return self._connect_query

    def _write_batch(self, query: RunningQuery, frame: DataFrame, batch_id: int) -> None:
        """Write the rows of the batch, if the query may be written and this is the first call."""
        run = query.run
        if run not in self._checked_runs:
            # Not in __init__: the plan exists from the query's first batch on.
            query.refuse_state()
            if isinstance(query, ClassicQuery):
                warn_of_temporary_checkpoint(query.execution)
            self._checked_runs.add(run)
        # Within one run only: after a restart Spark replays the batch with the same number, and
        # that is the fences' affair.
        if self._written == (run, batch_id):
            raise NotWritable(
                f"the writer to {self.sink} was called a second time for batch "
                f"{batch_id}: the rows of this call would not be "
                "written, since the first has moved the fences of all partitions. Unite "
                "the frames and call it once for a batch"
            )
        self.write(frame, query.readings())
        # After the write: a batch that failed may be tried again in the same run.
        self._written = run, batch_id

    def write(self, frame: DataFrame, sources: list[SourceReading]) -> None:
        """Write the rows of `frame` and move the fences to the ends of the sources' spans.

        Tries again with a fresh snapshot while other writers commit first, `attempts` times at
        most. A span with a question number has no rows: its source asks for this sink's name.
        """
        # Before the sources, so that a query without the source's columns fails in its first batch.
        schema = table_schema(frame)
        # Before a row is written: rows of a batch that belongs to another sink could not be taken
        # back. A question may name sinks, too: then the group is claimed for them after it.
        if not self.adopt:
            refuse_foreign_batch(sources, self.sink)
        for reading in sources:
            if reading.span.question_number:
                self._answer_question(reading)
        sources = [reading for reading in sources if not reading.span.question_number]
        if not sources:
            return
        uncommitted = UncommittedFiles(
            frame, PartFileWriter(self.table, self.storage_options, schema, {})
        )
        conflict: CommitConflict | None = None
        for _ in range(self.attempts):
            try:
                rewinds = self._attempt(uncommitted, sources, schema)
                for number, reading in enumerate(sources):
                    self._report_rewinds(reading, rewinds.get(number, {}))
                return
            # The other writer has made progress, so a conflict is no failure; only the number of
            # attempts bounds the retries.
            except CommitConflict as error:
                conflict = error
            except NotWritable:
                self._discard_uncommitted(uncommitted)
                raise
        self._discard_uncommitted(uncommitted)
        raise RuntimeError(
            f"the Delta table {self.table} changed under {self.attempts} attempts in a row"
        ) from conflict

    def _discard_uncommitted(self, uncommitted: UncommittedFiles) -> None:
        """Delete the files of a batch that is given up, but for those that the table refers to."""
        if uncommitted.are_written():
            attempt = TableAttempt.on_existing_or_none(self.table, self.storage_options)
            if attempt is not None:  # else the table was removed meanwhile, with its files
                uncommitted.forget_committed(attempt)
                uncommitted.discard()

    def _attempt(
        self, uncommitted: "UncommittedFiles", sources: list[SourceReading], schema: pa.Schema
    ) -> dict[int, dict[TopicIdPartition, int]]:
        """Admit, write and commit once; return the rewinds, as in `BatchAdmission`.

        Raises CommitConflict where another writer was first.
        """
        # Opened anew for each attempt: after a conflict a DeltaTable stays at its old version.
        attempt = TableAttempt.on(
            self.table,
            self.storage_options,
            schema,
            # A table that was removed is not created anew before its records are known to be there.
            before_creation=lambda: self._policy().admit(sources, None),
        )
        # Before the admission, which may discard files: those that a commit with an unknown outcome
        # has added belong to the table.
        uncommitted.forget_committed(attempt)
        fit = attempt.fit(schema)
        uncommitted.adapt_to(fit)
        if fit.missing:  # last, since a query that is refused changes nothing
            attempt.add_columns(fit.missing)
        try:
            admission = self._policy().admit(sources, attempt)
            files = (
                uncommitted.fit_to_fences(admission.windows)
                if admission.fences
                else uncommitted.discard()
            )
            require_shared(self.table, {file.path: file.size for file in files})
        except BaseException:
            uncommitted.discard()
            raise
        # No fence to move means that every row is in the table already: a replay, or a zombie. An
        # empty commit would only grow the log.
        if admission.fences:
            # A commit that raises anything but CommitConflict and NotWritable may still have been
            # made: its checkpoint failed, or a response was lost. So the files stay. Spark's replay
            # of the batch finds the fences moved, or a cleaning finds the files.
            attempt.commit(files, admission.fences, schema)
        return admission.rewinds

    def _answer_question(self, reading: SourceReading) -> None:
        """Report this sink's name to the source, and whether the table has fences of the group.

        The source needs both before it joins: a group belongs to one sink.
        """
        attempt = TableAttempt.on_existing_or_none(self.table, self.storage_options)
        app_ids = (
            app_id_of(reading.group, partition)
            for partition in (*reading.span.ranges, *reading.span.unclaimed)
        )
        has_records = attempt is not None and any(
            attempt.fence_or_none(app_id) is not None for app_id in app_ids
        )
        rewinds: dict[TopicIdPartition, int] = {}
        if attempt is None and not self.adopt:
            # Where the group has no name of a sink, the checkpoint alone says what was written.
            rewinds = self._policy().admit([reading], None).rewinds.get(0, {})
            self._policy().record_rewinds(reading, rewinds)
        handover.write_report(
            reading.span, self.sink, adopt=self.adopt, has_records=has_records, rewind=rewinds
        )

    def _report_rewinds(
        self, reading: SourceReading, rewinds: Mapping[TopicIdPartition, int]
    ) -> None:
        """Report to the source which partitions to rewind.

        Without rewinds, report only where the span names other sinks than this one alone: the
        source then waits for a report of each.
        """
        self._policy().record_rewinds(reading, rewinds)
        sinks = reading.span.sinks
        if rewinds or (sinks is not None and sinks != (self.sink,)):
            handover.write_report(reading.span, self.sink, adopt=self.adopt, rewind=rewinds)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without notes on the batches of this process."""
        return {
            **self.__dict__,
            "_checked_runs": set(),
            "_rewinds": {},
            "_written": None,
            "_cleaning": DailyCleaning(self.table, self.storage_options),
            "_connect_query": None,
            "_connect_session": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of pickle, and the session that is active.

        A Connect server unpickles the function of foreachBatch in the session that started the
        query, and calls it with frames of a clone.
        """
        self.__dict__.update(state)
        self._connect_query = ConnectQuery()
        self._connect_session = SparkSession.getActiveSession()
