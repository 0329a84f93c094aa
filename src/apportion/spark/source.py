"""`format("apportion")`: queries that are members of a consumer group, batch reads, and writes.

Spark creates the reader in several processes. Only the process that plans micro-batches joins the
group, on the first call that needs it. Everything that must survive a restart is in Spark's own
offset log, as spans (`member/batch/span.py`).

A short job starts five of these processes and more, one after the other, each of which has one
task: to find the source, to say its columns, to plan batches, to pickle the reader, to read. So
each of them imports what its own task needs, where it needs it.
"""

import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from json import JSONDecodeError
from traceback import walk_tb
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from apportion.member.batch.span import EMPTY_SPAN, Span, SpanError, parse_span
from apportion.settings import MAX_INT64
from apportion.spark.monitoring.log_lines import log_like_spark
from apportion.spark.processes.plain_errors import without_traceback
from apportion.spark.queries.planned_batches import PlannedBatchFile
from apportion.spark.reading.admission_control import (
    ReadAllAvailable,
    ReaderWithoutStart,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    suited_to_spark,
)
from apportion.spark.reading.slices import (
    ReadingOptions,
    TaskReader,
    split_into_tasks,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from apportion.spark.membership.batch_member import BatchMember
    from apportion.spark.options.stream import SourceOptions
    from apportion.spark.reading.batch_reader import BatchReader


class GroupSource(DataSource):
    """Kafka records as a stream or a batch, with the columns of Spark's own Kafka source.

    Rows are written to topics, too. For the options see `SourceOptions`, `BatchOptions` and
    `TopicWriterOptions`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "apportion"

    def schema(self) -> "StructType":
        """Return the columns.

        Spark calls this first, in `load()`, where a wrong option and a cluster that does not let a
        stream in are said at once.
        """
        from apportion.spark.options.batch_read import loaded_options
        from apportion.spark.options.stream import SourceOptions
        from apportion.spark.reading.source_columns import source_columns

        with without_traceback():
            options = loaded_options(self.options)
            if isinstance(options, SourceOptions):
                from apportion.spark.membership.first_look import look_at_cluster

                log_like_spark()
                look_at_cluster(options)
        return source_columns(include_headers=options.include_headers)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        """Return the reader that Spark serializes to its processes."""
        from apportion.spark.options.stream import SourceOptions
        from apportion.spark.options.values import OptionError
        from apportion.spark.reading.source_columns import load_id

        try:
            options = SourceOptions.parse(self.options)
        except OptionError as error:
            from apportion.spark.reading.refused_stream import RefusedStreamReader

            return suited_to_spark(RefusedStreamReader(error))
        return suited_to_spark(GroupStreamReader(options, load_id(schema)))

    def reader(self, schema: "StructType") -> "BatchReader":
        """Return the reader of a batch read, which joins no group."""
        from apportion.spark.options.batch_read import BatchOptions
        from apportion.spark.reading.batch_reader import BatchReader

        with without_traceback():
            return BatchReader(BatchOptions.parse(self.options))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream to topics."""
        from apportion.spark.topic_sink.writer import stream_writer

        return stream_writer(self.options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch to topics."""
        from apportion.spark.topic_sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)


class GroupStreamReader(TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's stream reader: plans micro-batches as a member of the group, and reads their tasks.

    Its methods are those of Spark 4.2; `reading/admission_control.py` suits them to 4.0 and 4.1.
    Pickled for executors, it is a `TaskReader`.
    """

    def __init__(self, options: "SourceOptions", load: str = "") -> None:
        super().__init__(ReadingOptions.of(options))
        self._options = options
        self._batch_member: BatchMember | None = None
        self._planned_batch = PlannedBatchFile(load, options)

    def initialOffset(self) -> dict[str, Any]:
        """Return the empty span: the group's committed offsets say where the first one starts."""
        # A constant: when Spark replays batch 0 it calls this again and needs the same answer, as
        # its log keeps only the ends.
        return EMPTY_SPAN.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the option maxOffsetsPerTrigger as a limit, or no limit."""
        if self._options.max_offsets:
            return ReadMaxRows(self._options.max_offsets)
        # ReadAllAvailable would not tell a trigger that reads everything, such as once, from one
        # that may wait for minOffsetsPerTrigger. Spark has no limit of both kinds.
        return ReadMaxRows(MAX_INT64) if self._options.min_offsets else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the topics' present ends."""
        with without_traceback():
            self._member().stop_at_present_ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Commit the batch whose span is `start`, and return the span of the next batch.

        Returns `start` if there is nothing to read. Spark calls this after it has logged the last
        batch as committed, so this is where the group's offsets may move.
        """
        with without_traceback():
            previous = _logged_span(start)
            following = self._member().next_span(
                previous,
                limit.max_rows if isinstance(limit, ReadMaxRows) else None,
                reads_all=isinstance(limit, ReadAllAvailable),
            )
        self._planned_batch.expect(following)
        # The very dict that Spark gave: it compares offsets as JSON text, and any difference starts
        # an empty batch.
        return start if following == previous else following.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the report on this membership, and what it waits for; None if there is neither.

        Spark shows it in StreamingQueryProgress, as the latest offset of the source.
        """
        report, waits_for = self._member().source_report(), self._member().waits_for
        fields = {} if report is None else report.to_json()
        return (fields | {"waitsFor": waits_for} if waits_for else fields) or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch: the span to read is `end`, whatever `start` is."""
        # Spark may call this several times for one batch (a union of the stream with itself), so it
        # only keeps the member alive and changes nothing.
        with without_traceback():
            planned = _logged_span(end)
            self._member().begin_batch(planned)
            self._planned_batch.write(planned)
            if start == end:
                return []
            return split_into_tasks(planned, self._options.task_limits)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this late or never. `latestOffset` commits."""

    def stop(self) -> None:
        """Leave the group when Spark ends the query; an unfinished batch stays uncommitted.

        The last batch is committed if `apportion.spark.stop` says that it is finished. Raises
        SpanError if Spark ends it for an offset that is no JSON.
        """
        self._planned_batch.close()
        # Taken first, so that a second call of `stop` finds nothing to do.
        member, self._batch_member = self._batch_member, None
        if member is not None:
            member.close()
        _refuse_unread_offset(sys.exception())

    def _member(self) -> "BatchMember":
        """Return the query's group member in this process, creating it on first use."""
        if self._batch_member is None:
            from apportion.spark.membership.batch_member import BatchMember

            # signal.signal works in the main thread alone. In tests, and where Spark calls from
            # another thread, the process ends as Spark wants it.
            if threading.current_thread() is threading.main_thread():
                uninterrupted = (
                    GroupStreamReader.stop.__code__,
                    ReaderWithoutStart.stop.__code__,
                    BatchMember.leave_in_order.__code__,
                )
                signal.signal(signal.SIGTERM, partial(_exit_on_sigterm, uninterrupted))
                # Ctrl-C is the driver's affair, and a terminal sends it to this process as well.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            log_like_spark()
            self._batch_member = BatchMember(self._options)
        return self._batch_member


def _logged_span(offset: dict[str, Any] | str) -> Span:
    """Return the span of an offset that Spark has from its log; raise SpanError with a remedy."""
    try:
        return parse_span(offset)
    except SpanError as error:
        raise SpanError(
            f"the checkpoint has an offset that is none of apportion's: {error}; give the query a "
            "checkpoint of its own, with which it begins at the group's offsets"
        ) from None


def _refuse_unread_offset(error: BaseException | None) -> None:
    """Raise SpanError with a remedy if the error is of an offset that is no JSON.

    Spark reads the offsets of a checkpoint itself, before it calls the reader; then it calls `stop`
    while its error is on the way. So this is the one place where the remedy can be said.
    """
    if isinstance(error, JSONDecodeError) and not _came_through_here(error.__traceback__):
        with without_traceback():
            _logged_span(error.doc)


def _came_through_here(trace: TracebackType | None) -> bool:
    """Return whether an error was raised by a call of this module."""
    return any(frame.f_globals is globals() for frame, _ in walk_tb(trace))


def _exit_on_sigterm(
    uninterrupted: tuple[CodeType, ...], _number: int, frame: FrameType | None
) -> None:
    """Unwind the stack when Spark ends a query by SIGTERM, so that `stop` is called.

    uninterrupted: the functions that go on to their end.
    Spark closes its connection first, so `stop` may run by then, from its first line on; and where
    the driver has asked for an end, a trigger that begins between its request and the signal finds
    the request, and leaves. Neither must be interrupted, or the member would stay in the group
    until its session times out. The process ends all the same, as its connection is closed.
    """
    while frame is not None:
        if frame.f_code in uninterrupted:
            return
        frame = frame.f_back
    sys.exit(0)
