"""Queries that share one Spark session in the process of the tests: they are begun, read the
pipeline's topic, and end.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from apportion.spark import delta
from tests.spark.application import spark_session
from tests.spark.harness import Pipeline


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session()
    yield session
    session.stop()


@pytest.fixture
def source(spark: SparkSession, pipeline: Pipeline) -> Callable[..., DataFrame]:
    """`source(**options)`: the pipeline's topic as a stream."""

    def load(**options: Any) -> DataFrame:
        reader = spark.readStream.format("apportion").option(
            "kafka.bootstrap.servers", pipeline.bootstrap
        )
        reader = (
            reader.option("kafka.group.id", pipeline.group)
            .option("subscribe", pipeline.topic)
            .option("startingOffsets", "earliest")
        )
        return reader.options(**options).load()

    return load


@pytest.fixture
def started(pipeline: Pipeline) -> Iterator[Callable[..., StreamingQuery]]:
    """`started(frame, function)`: a running query, with a checkpoint of its own; it is stopped at
    the end of the test.
    """
    queries: list[StreamingQuery] = []

    def start(
        frame: DataFrame,
        function: Callable[[DataFrame, int], None] | None = None,
        checkpoint: str | None = None,
        **trigger: Any,
    ) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(function or delta.Writer(str(pipeline.table)))
        writer = writer.option(
            "checkpointLocation", str(pipeline.path / (checkpoint or f"checkpoint-{len(queries)}"))
        )
        queries.append(
            writer.trigger(**(trigger or {"processingTime": "300 milliseconds"})).start()
        )
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def ended(query: StreamingQuery, seconds: int = 60) -> str:
    """Why the query failed, in time."""
    with pytest.raises(StreamingQueryException) as failure:
        assert query.awaitTermination(seconds), "the query goes on"
    return str(failure.value)
