"""Queries that share one Spark session in the process of the tests: they are begun, read the
stage's topic, and end.
"""

import pytest
from pyspark.errors import StreamingQueryException

from apportion.spark import delta
from tests.spark.application import spark_session


@pytest.fixture(scope="module")
def spark():
    session = spark_session()
    yield session
    session.stop()


@pytest.fixture
def source(spark, stage):
    """`source(**options)`: the stage's topic as a stream."""

    def load(**options):
        reader = spark.readStream.format("apportion").option(
            "kafka.bootstrap.servers", stage.bootstrap
        )
        reader = (
            reader.option("kafka.group.id", stage.group)
            .option("subscribe", stage.topic)
            .option("startingOffsets", "earliest")
        )
        return reader.options(**options).load()

    return load


@pytest.fixture
def started(stage):
    """`started(frame, function)`: a running query, with a checkpoint of its own; it is stopped at
    the end of the test.
    """
    queries = []

    def start(frame, function=None, checkpoint=None, **trigger):
        writer = frame.writeStream.foreachBatch(function or delta.Writer(str(stage.table)))
        writer = writer.option(
            "checkpointLocation", str(stage.path / (checkpoint or f"checkpoint-{len(queries)}"))
        )
        queries.append(
            writer.trigger(**(trigger or {"processingTime": "300 milliseconds"})).start()
        )
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def ended(query, seconds=60):
    """Why the query failed, in time."""
    with pytest.raises(StreamingQueryException) as failure:
        assert query.awaitTermination(seconds), "the query goes on"
    return str(failure.value)
