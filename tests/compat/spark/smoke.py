"""What holds on every release of Spark, run by tests/compat/test_spark_versions.py in a pytest of
its own, whose pyspark is of that release. One Spark session serves all tests.
"""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from apportion.server.embedded import EmbeddedBroker
from apportion.spark import PrometheusListener, UnsupportedTrigger, delta, guard, stop
from apportion.spark.versions import has_admission_control
from tests.spark.harness import PATIENCE_S, Pipeline, until
from tests.spark.queries import ended, source, spark, started
from tests.spark.test_query_metrics import series
from tests.spark.test_topic_producer import read

__all__ = ["source", "spark", "started"]

SETTINGS: dict[str, Any] = {"group.consumer.heartbeat.interval.ms": 500}

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker whose sessions outlast what a busy machine does to their heartbeats."""
    with EmbeddedBroker(**SETTINGS) as running:
        yield running


@pytest.fixture
def pipeline(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, broker.bootstrap, f"spark-{next(_numbers)}", 2)
    yield made
    made.close()


@pytest.fixture
def rows(source: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """`rows(**options)`: what the tests write of the pipeline's topic."""

    def read(**options: str) -> DataFrame:
        return source(**options).selectExpr(
            "topic", "partition", "offset", "timestamp", "cast(value as string) as value"
        )

    return read


def test_the_session_is_of_the_release_that_was_asked_for(spark: SparkSession) -> None:
    assert spark.version.startswith(os.environ["APPORTION_SPARK_RELEASE"] + ".")


def test_a_batch_that_failed_between_deltas_commit_and_sparks_is_written_once(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Callable[..., StreamingQuery],
) -> None:
    pipeline.produce(40)
    writer = delta.Writer(str(pipeline.table))

    def fail_between(frame: DataFrame, number: int) -> None:
        writer(frame, number)
        if pipeline.rows():
            raise RuntimeError("between the two commits")

    assert "between the two commits" in ended(
        started(rows(), fail_between, "checkpoint"), PATIENCE_S
    )
    assert (pipeline.rows(), pipeline.total_committed()) == (pipeline.expected(), 0)
    pipeline.produce(10)
    started(rows(), checkpoint="checkpoint")
    until(lambda: pipeline.total_committed() == 50, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_a_query_takes_over_what_another_one_leaves(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Callable[..., StreamingQuery],
) -> None:
    old = started(rows(**{"kafka.client.id": "old"}))
    pipeline.until_owned_by("old")
    started(rows(**{"kafka.client.id": "heir"}))
    pipeline.until_owned_by("old", "heir")
    pipeline.produce(40)
    pipeline.until_written()
    old.stop()
    pipeline.until_owned_by("heir")
    pipeline.produce(40)
    until(lambda: pipeline.total_committed() == 80, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_a_query_between_two_triggers_commits_its_last_batch_as_it_ends(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Callable[..., StreamingQuery],
) -> None:
    pipeline.produce(8)
    begun = started(rows(), checkpoint="kept")
    pipeline.until_written()
    assert stop(begun) is True
    pipeline.produce(8)
    waiting = started(rows(), checkpoint="kept", processingTime="30 seconds")
    pipeline.until_written()
    until(lambda: not waiting.status["isTriggerActive"], 25)
    assert stop(waiting) is True
    assert pipeline.total_committed() == 16


def test_available_now_reads_everything_or_is_refused(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Callable[..., StreamingQuery],
) -> None:
    pipeline.produce(40)
    query = started(rows(maxOffsetsPerTrigger="15"), availableNow=True)
    if has_admission_control():
        assert query.awaitTermination(PATIENCE_S)
        assert pipeline.rows() == pipeline.expected()
    else:
        assert "trigger(availableNow=True) needs Spark 4.2 or newer" in ended(query, PATIENCE_S)
        assert pipeline.rows() == []
        elsewhere = rows().writeStream.format("noop").trigger(availableNow=True)
        elsewhere.option("checkpointLocation", str(pipeline.path / "checkpoint-noop"))
        with pytest.raises(UnsupportedTrigger):
            guard(elsewhere.start())


def test_the_writer_stops_a_query_that_keeps_state(
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Callable[..., StreamingQuery],
) -> None:
    pipeline.produce(4)
    assert "this query keeps state" in ended(started(rows().dropDuplicates(["value"])), PATIENCE_S)
    assert pipeline.rows() == []


def test_a_listener_shows_where_a_query_is(
    spark: SparkSession,
    pipeline: Pipeline,
    source: Callable[..., DataFrame],
) -> None:
    listener = PrometheusListener(port=0)
    spark.streams.addListener(listener)
    pipeline.produce(40)
    writer = source(maxOffsetsPerTrigger="30").writeStream.queryName("shown").format("noop")
    writer = writer.option("checkpointLocation", str(pipeline.path / "shown"))
    query = writer.trigger(processingTime="300 milliseconds").start()
    offset = ("apportion_spark_committed_offset", "shown", "0", pipeline.topic)
    until(lambda: series(listener.text()).get((*offset, "1")) == 20, what="all records")
    values = series(listener.text())
    shown = {key[0].removeprefix("apportion_spark_") for key in values}
    always = {
        *("batches_total", "batch_duration_seconds", "rows_total"),
        *("assigned_partitions", "committed_offset"),
    }
    reported = {
        *("waiting", "member_info", "member_epoch", "max_poll_interval_seconds"),
        *("latest_offset", "lag", "out_of_range"),
    }
    assert shown == (always | reported if has_admission_control() else always)
    assert values["apportion_spark_rows_total", "shown", "0"] == 40
    assert values["apportion_spark_assigned_partitions", "shown", "0"] == 2
    query.stop()
    until(lambda: series(listener.text()) == {}, what="the end")
    spark.streams.removeListener(listener)
    listener.close()


def test_reads_begin_at_the_first_record_of_a_time(
    spark: SparkSession,
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Callable[..., StreamingQuery],
) -> None:
    for partition in (0, 1):
        for second in (1, 2, 3):
            pipeline.producer.produce(
                pipeline.topic, b"x", partition=partition, timestamp=second * 1_000
            )
    pipeline.producer.flush()
    batch = (
        spark.read.format("apportion")
        .option("kafka.bootstrap.servers", pipeline.bootstrap)
        .option("subscribe", pipeline.topic)
        .options(startingTimestamp="2000", endingTimestamp="3000")
        .load()
    )
    places = [(row.partition, row.offset) for row in batch.select("partition", "offset").collect()]
    assert sorted(places) == [(0, 1), (1, 1)]
    times = json.dumps({pipeline.topic: {"0": 2_000, "1": 3_000}})
    started(rows(startingOffsetsByTimestamp=times))
    until(lambda: pipeline.total_committed() == 6, what="the group's offsets")
    assert [row[:2] for row in pipeline.rows()] == [(0, 1), (0, 2), (1, 2)]


def test_a_batch_and_a_stream_are_written_to_a_topic(
    spark: SparkSession, pipeline: Pipeline
) -> None:
    """Spark 4.0 gives the rows of a stream one by one, and the others give Arrow."""
    options = {"kafka.bootstrap.servers": pipeline.bootstrap, "topic": pipeline.topic}
    headers = "array(struct('h' AS key, cast('1' AS binary) AS value)) AS headers"
    batch = spark.createDataFrame([("b", "of a batch")], "key string, value string")
    batch = batch.selectExpr("key", "value", headers)
    batch.write.format("apportion").mode("append").options(**options).save()
    files = pipeline.path / "files"
    files.mkdir()
    row = {"key": "s", "value": "of a stream", "partition": 1}
    (files / "one.json").write_text(json.dumps(row))
    stream = spark.readStream.schema("key string, value string, partition int").json(str(files))
    query = (
        stream.selectExpr("key", "cast(value AS binary) AS value", "partition", headers)
        .writeStream.format("apportion")
        .options(**options)
        .option("checkpointLocation", str(pipeline.path / "written"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    found = read({"bootstrap.servers": pipeline.bootstrap}, pipeline.topic, 2)
    assert sorted((key, value, headers) for _, key, value, headers in found) == [
        (b"b", b"of a batch", [("h", b"1")]),
        (b"s", b"of a stream", [("h", b"1")]),
    ]
    assert {key: partition for partition, key, _, _ in found}[b"s"] == 1
