"""Queries that share one Spark session in the process of the tests: they are begun, read the
pipeline's topic, and end.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from apportion.spark import delta
from tests.spark.application import spark_session
from tests.spark.harness import Pipeline

COLUMNS = ("topic", "partition", "offset", "cast(value as string) as value")
Started = Callable[..., StreamingQuery]


@pytest.fixture
def spark() -> SparkSession:
    """The session of this process, with the settings that it began with; a new one of the same JVM
    where a test has stopped it.
    """
    return spark_session()


@pytest.fixture
def source(spark: SparkSession, pipeline: Pipeline) -> Callable[..., DataFrame]:
    """`source(**options)`: the pipeline's topic as a stream."""

    def load(name: str = "apportion", **options: Any) -> DataFrame:
        given = {
            "kafka.bootstrap.servers": pipeline.bootstrap,
            "kafka.group.id": pipeline.group,
            "subscribe": pipeline.topic,
            "startingOffsets": "earliest",
            **options,
        }
        return spark.readStream.format(name).options(**given).load()

    return load


@pytest.fixture
def rows(source: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """`rows(**options)`: the topic with its values as texts, as the pipeline expects them."""
    return lambda *name, **options: source(*name, **options).selectExpr(*COLUMNS)


@pytest.fixture
def started(pipeline: Pipeline) -> Iterator[Started]:
    """`started(frame, function)`: a running query, with a checkpoint of its own; it is stopped at
    the end of the test.
    """
    queries: list[StreamingQuery] = []

    def start(
        frame: DataFrame,
        function: Callable[[DataFrame, int], None] | None = None,
        checkpoint: str | None = None,
        mode: str = "append",
        **trigger: Any,
    ) -> StreamingQuery:
        place = pipeline.path / (checkpoint or f"checkpoint-{len(queries)}")
        writer = frame.writeStream.foreachBatch(function or delta.Writer(str(pipeline.table)))
        writer = writer.outputMode(mode).option("checkpointLocation", str(place))
        writer = writer.trigger(**(trigger or {"processingTime": "300 milliseconds"}))
        queries.append(start_patiently(writer))
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def start_patiently(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query, again while the host is too slow for Spark's fixed 10 s.

    A Connect server gives the process of a function of foreachBatch no longer to begin.
    """
    for _ in range(5):
        try:
            return writer.start()
        except PySparkException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    return writer.start()


def ended(query: StreamingQuery, seconds: int = 60) -> str:
    """Why the query failed, in time."""
    with pytest.raises(StreamingQueryException) as failure:
        assert query.awaitTermination(seconds), "the query goes on"
    return str(failure.value)
