"""`spark.readStream.format("apportion")`: a Spark query that is a member of a Kafka consumer group.

Spark creates the reader in several processes. Only the process that plans micro-batches joins the
group, on the first call that needs it. Everything that must survive a restart is in Spark's own
offset log, as spans (`member/batch/span.py`).
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from apportion.member.batch.span import EMPTY_SPAN, parse_span, sorted_span
from apportion.spark.batch_member import BatchMember
from apportion.spark.log_lines import log_like_spark
from apportion.spark.options import SourceOptions
from apportion.spark.plain_errors import without_traceback
from apportion.spark.planned_batches import PlannedBatchFile
from apportion.spark.slices import TaskSlices, read_task, split_into_tasks
from apportion.spark.source_columns import load_id, source_columns

NO_WRITER = (
    'format("apportion") is a source only: write a stream with '
    "foreachBatch(apportion.spark.delta.Writer(path)), each record once, "
    "or with any sink of Spark's; to produce to Kafka, use Spark's own format(\"kafka\")"
)


class GroupSource(DataSource):
    """Kafka records as a stream, with the columns of Spark's own Kafka source.

    For the options see `SourceOptions`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "apportion"

    def schema(self) -> StructType:
        """Return the columns.

        Spark calls this first: parsing all options here makes a wrong one fail in `load()`.
        """
        with without_traceback():
            include_headers = SourceOptions.parse(self.options).include_headers
        return source_columns(include_headers=include_headers)

    def streamReader(self, schema: StructType) -> "GroupStreamReader":
        """Return the reader that Spark serializes to its processes."""
        return GroupStreamReader(SourceOptions.parse(self.options), load_id(schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raise: a batch read has no membership."""
        raise ValueError(
            'format("apportion") is a stream: use spark.readStream; '
            "trigger(availableNow=True) reads what is there now and stops"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raise: rows go to a sink of another format."""
        raise ValueError(NO_WRITER)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raise, as for streams."""
        raise ValueError(NO_WRITER)


class GroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's stream reader: plans micro-batches as a member of the group, and reads their tasks.

    Spark pickles it for its executors. A copy has the options, and no member of its own until it
    plans a batch.
    """

    def __init__(self, options: SourceOptions, load: str = "") -> None:
        self._options = options
        self._batch_member: BatchMember | None = None
        self._planned_batch = PlannedBatchFile(load, options)

    def __getstate__(self) -> dict[str, Any]:
        # Sockets and threads cannot be pickled, and an executor's copy must never join the group.
        nothing_planned = PlannedBatchFile("", self._options)
        return {
            "_options": self._options,
            "_batch_member": None,
            "_planned_batch": nothing_planned,
        }

    def initialOffset(self) -> dict[str, Any]:
        """Return the empty span: the group's committed offsets say where the first one starts."""
        # A constant: when Spark replays batch 0 it calls this again and needs the same answer, as
        # its log keeps only the ends.
        return EMPTY_SPAN.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the option maxOffsetsPerTrigger as a limit, or no limit."""
        return (
            ReadMaxRows(self._options.max_offsets)
            if self._options.max_offsets
            else ReadAllAvailable()
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the topics' present ends."""
        with without_traceback():
            self._member().stop_at_present_ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Commit the batch whose span is `start`, and return the span of the next batch.

        Returns `start` if there is nothing to read. Spark calls this after it has logged the last
        batch as committed, so this is where the group's offsets may move.
        """
        previous = parse_span(start)
        with without_traceback():
            following = self._member().next_span(
                previous, limit.max_rows if isinstance(limit, ReadMaxRows) else None
            )
        # The very dict that Spark gave: it compares offsets as JSON text, and any difference starts
        # an empty batch.
        return start if following == previous else following.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end offsets of the owned partitions; None until a batch was planned.

        Spark shows them in StreamingQueryProgress.
        """
        ends = self._member().ends()
        return (
            sorted_span("", {partition: (end, end) for partition, end in ends.items()}).to_json()
            if ends
            else None
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch: the span to read is `end`, whatever `start` is."""
        # Spark may call this several times for one batch (a union of the stream with itself), so it
        # only keeps the member alive and changes nothing.
        self._member().touch()
        planned = parse_span(end)
        self._planned_batch.write(planned)
        return [] if start == end else split_into_tasks(planned)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task, in an executor."""
        assert isinstance(partition, TaskSlices)
        return read_task(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this late or never. `latestOffset` commits."""

    def stop(self) -> None:
        """Leave the group when Spark ends the query; an unfinished batch stays uncommitted."""
        if threading.current_thread() is threading.main_thread():
            # Spark sends SIGTERM soon after: it must not interrupt the request to leave.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._planned_batch.close()
        # Taken first, so that a second call of `stop` finds nothing to do.
        member, self._batch_member = self._batch_member, None
        if member is not None:
            member.close()

    def _member(self) -> BatchMember:
        """Return the query's group member in this process, creating it on first use."""
        if self._batch_member is None:
            # signal.signal works in the main thread alone. In tests, and where Spark calls from
            # another thread, the process ends as Spark wants it.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, _exit_on_sigterm)
            log_like_spark()
            self._batch_member = BatchMember(self._options)
        return self._batch_member


def _exit_on_sigterm(_number: int, _frame: object) -> NoReturn:
    """Unwind the stack when Spark ends a query by SIGTERM, so that `stop` is called."""
    sys.exit(0)
