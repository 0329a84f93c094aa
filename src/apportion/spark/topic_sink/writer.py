"""`df.write.format("apportion")` and `df.writeStream.format("apportion")`: rows go to Kafka topics.

At least once: a task that Spark runs again, and a batch that it replays, write their records again.
Within a task the producer is idempotent. A task ends when the brokers have acknowledged each of its
records, and fails with the first that they do not; so a batch of a stream is committed once all its
records are in their topics.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from apportion.spark.monitoring.log_lines import log_like_spark
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.processes.plain_errors import without_traceback
from apportion.spark.topic_sink.producer import PRODUCERS
from apportion.spark.topic_sink.records import (
    ColumnPlaces,
    NotWritten,
    OutgoingRecord,
    record_columns,
    records_of_batch,
    records_of_rows,
)
from apportion.spark.topic_sink.unwritten_records import NO_LIBRARY
from apportion.spark.topic_sink.writable_topics import PLANNED_TOPICS

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter

    TAKES_ARROW = True
except ImportError:  # Spark 4.0 gives rows to the writer of a stream
    from pyspark.sql.datasource import (  # type: ignore[assignment]
        DataSourceStreamWriter as StreamWriter,
    )

    TAKES_ARROW = False

OVERWRITE = 'records of a topic cannot be overwritten: use mode("append")'


def batch_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceWriter:
    """Return the writer of `df.write`, after all checks that can be made before a task runs."""
    with without_traceback():
        if overwrite:
            raise NotWritten(OVERWRITE)
        # Whoever waits for a batch job learns at once that no broker answers.
        return TopicWriter(*_checked(options, schema, is_patient=False))


def stream_writer(options: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
    """Return the writer of `df.writeStream`, after the same checks.

    Spark calls this for every batch. In the output mode `complete` a batch writes all rows of the
    result, as with Spark's own sink.
    """
    with without_traceback():
        return TopicStreamWriter(*_checked(options, schema, is_patient=True))


def _checked(
    options: Mapping[str, str], schema: StructType, *, is_patient: bool
) -> tuple[TopicWriterOptions, ColumnPlaces]:
    """Return the options and columns of a write.

    is_patient: whether a broker that does not answer is waited for. Raises OptionError and
    NotWritten.
    """
    parsed = TopicWriterOptions.parse(options)
    columns = record_columns(schema, parsed.topic)
    if find_spec("confluent_kafka") is None:
        raise NotWritten(NO_LIBRARY)
    if parsed.topic is not None:
        with PLANNED_TOPICS.using(parsed) as topics:
            topics.require(parsed.topic, is_patient=is_patient)
    return parsed, columns


class TopicWriter(DataSourceArrowWriter):
    """The writer of a batch; Spark pickles it for its executors."""

    def __init__(self, options: TopicWriterOptions, columns: ColumnPlaces) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; return once the brokers have acknowledged each."""
        batches = (records_of_batch(batch, self._columns) for batch in iterator)
        return _write(chain.from_iterable(batches), self._options)


class TopicStreamWriter(StreamWriter):
    """The writer of a stream; Spark pickles it for its executors."""

    def __init__(self, options: TopicWriterOptions, columns: ColumnPlaces) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows of a micro-batch, as those of a batch."""
        if not TAKES_ARROW:
            return _write(records_of_rows(iterator, self._columns), self._options)
        batches = (records_of_batch(batch, self._columns) for batch in iterator)
        return _write(chain.from_iterable(batches), self._options)


def _write(records: Iterable[OutgoingRecord], options: TopicWriterOptions) -> WriterCommitMessage:
    """Write the records of one task, in an executor."""
    log_like_spark()
    with without_traceback(), PRODUCERS.using(options) as producer:
        try:
            producer.write(records)
        except BaseException:
            # After a failure it is of no use any more.
            PRODUCERS.discard(options)
            raise
        return WriterCommitMessage()
