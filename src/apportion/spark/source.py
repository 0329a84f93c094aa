"""`spark.readStream.format("apportion")`: a Spark query that is a member of a Kafka consumer group.

Spark makes the reader in several processes; only the one that plans micro-batches ever joins the group, on the first call that
needs it. Everything that must survive a restart travels in Spark's own offsets (`member.spans`).
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from apportion.member.batch.span import EMPTY_SPAN, parse_span, sorted_span
from apportion.spark.batch_member import BatchMember
from apportion.spark.log_lines import log_like_spark
from apportion.spark.options import SourceOptions
from apportion.spark.slices import TaskSlices, read, split_into_tasks

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
HEADERS = ", headers array<struct<key: string, value: binary>>"

NO_WRITER = (
    'format("apportion") is a source only: write a stream with foreachBatch(apportion.spark.delta.Writer(path)), each record once, '
    "or with any sink of Spark's; to produce to Kafka, use Spark's own format(\"kafka\")"
)


class GroupSource(DataSource):
    """Kafka's records as a stream, in the columns of Spark's own Kafka source; the options are those of `SourceOptions`."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "apportion"

    def schema(self) -> str:
        """The columns, and the first look at the options: a fault ends `load()`."""
        return COLUMNS + (HEADERS if SourceOptions.parse(self.options).include_headers else "")

    def streamReader(self, schema: StructType) -> "GroupStreamReader":
        """The reader that Spark sends around."""
        return GroupStreamReader(SourceOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """There is none: a batch read has no membership."""
        raise ValueError(
            'format("apportion") is a stream: use spark.readStream; trigger(availableNow=True) reads what is there now and stops'
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """There is none: rows go to a sink of another format."""
        raise ValueError(NO_WRITER)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """There is none, as for streams."""
        raise ValueError(NO_WRITER)


class GroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches as a member of the group. Its state beside the options is the `BatchMember`, which no copy inherits."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._owner: BatchMember | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_owner": None}

    def initialOffset(self) -> dict[str, Any]:
        """A constant: real positions travel in the end of the first span."""
        return EMPTY_SPAN.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger, or everything."""
        return ReadMaxRows(self._options.max_offsets) if self._options.max_offsets else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends where its topics end now."""
        self._member().stop_at_present_ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """`start` is in the sink and committed to the group; the answer says what the next batch reads. `start` if nothing."""
        previous = parse_span(start)
        following = self._member().next_span(previous, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        return start if following == previous else following.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the owned partitions end, for the query's progress; None before the first look."""
        ends = self._member().ends()
        return sorted_span("", {place: (end, end) for place, end in ends.items()}).to_json() if ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of the batch, which follow from `end` alone."""
        self._member().touch()
        return [] if start == end else split_into_tasks(parse_span(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, in an executor."""
        assert isinstance(partition, TaskSlices)
        return read(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark says this late or never. `latestOffset` commits."""

    def stop(self) -> None:
        """The member has left the group; what was in flight stays uncommitted."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark's own signal must not cut the goodbye short
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.close()

    def _member(self) -> BatchMember:
        """This process's membership, begun now if it has none."""
        if self._owner is None:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, _leave_in_order)
            log_like_spark()
            self._owner = BatchMember(self._options)
        return self._owner


def _leave_in_order(number: int, frame: object) -> NoReturn:
    """SIGTERM is how Spark ends a query: unwind, so that `stop` is called."""
    sys.exit(0)
