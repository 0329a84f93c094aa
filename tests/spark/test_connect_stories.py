"""What takes longer through Spark Connect: takeovers, ends, refusals while a query runs, and what
the client sees.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from apportion.spark import PrometheusListener, delta, run, seeds
from apportion.spark.processes.stop_requests import request_or_none
from apportion.spark.queries.stopping import committed_spans
from apportion.topics import partitions_of
from tests.spark import readme
from tests.spark.application import pass_gate
from tests.spark.connect_server import address, spark
from tests.spark.harness import PATIENCE_S, Pipeline, until
from tests.spark.queries import COLUMNS, Started, ended
from tests.spark.test_named_sources import EVOLUTION
from tests.spark.test_query_metrics import series

__all__ = ["address", "spark"]


def test_a_second_query_takes_over_and_each_record_is_written_once(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    first = started(rows(**{"kafka.client.id": "first"}))
    pipeline.produce(20)
    pipeline.until_owned_by("first")
    started(rows(**{"kafka.client.id": "second"}))
    for _ in range(3):
        pipeline.produce(20)
    pipeline.until_owned_by("first", "second")
    pipeline.produce(20)
    first.stop()
    pipeline.until_owned_by("second")
    pipeline.produce(20)
    pipeline.until_written()
    assert pipeline.rows() == pipeline.expected()


def test_a_named_source_writes_each_record_once_over_a_restart(
    spark: SparkSession, started: Started, pipeline: Pipeline, request: pytest.FixtureRequest
) -> None:
    options = {
        "kafka.bootstrap.servers": pipeline.bootstrap,
        "kafka.group.id": pipeline.group,
        "subscribe": pipeline.topic,
        "startingOffsets": "earliest",
    }
    spark.conf.set(EVOLUTION, "true")
    request.addfinalizer(lambda: spark.conf.unset(EVOLUTION))
    for _ in range(2):
        reader: Any = spark.readStream.format("apportion").name("events")
        query = started(reader.options(**options).load().selectExpr(*COLUMNS), checkpoint="named")
        pipeline.produce(20)
        pipeline.until_written()
        query.stop()
    assert pipeline.rows() == pipeline.expected()
    logs = (pipeline.path / "named" / "offsets").glob("[0-9]*")
    assert {log.read_text().splitlines()[0] for log in logs} == {"v2"}


def test_a_program_that_is_told_to_end_finishes_its_batch_commits_and_leaves(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    gate, writer = pipeline.path / "gate", delta.Writer(str(pipeline.table))
    gate.mkdir()

    def write(frame: DataFrame, batch_id: int) -> None:
        writer(frame, batch_id)
        pass_gate(gate)

    def tell_to_end() -> None:
        until(lambda: signal.getsignal(signal.SIGTERM) != handler, what="a program that waits")
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: request_or_none(span.id) is not None, what="a source that is asked to stop")
        (gate / "closed").unlink()

    handler = signal.getsignal(signal.SIGTERM)
    query = started(rows(), write)
    pipeline.produce(20)
    until(lambda: pipeline.total_committed() == 20, what="the group's offsets")
    (span,) = committed_spans(query)
    (gate / "closed").touch()
    pipeline.produce(1)  # which is in one batch
    until(lambda: any(gate.glob("entered-*")), what="a batch that runs")
    threading.Thread(target=tell_to_end).start()
    assert run(query) == 0
    assert (query.isActive, pipeline.owners()) == (False, {})
    assert (pipeline.total_committed(), pipeline.rows()) == (21, pipeline.expected())


def test_a_program_ends_with_code_0_once_everything_is_read(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    pipeline.produce(20)
    assert run(started(rows(), availableNow=True)) == 0
    assert (pipeline.total_committed(), pipeline.rows()) == (20, pipeline.expected())


def test_readmes_application_runs_with_a_server_of_its_own(tmp_path: Path) -> None:
    readme.play(tmp_path, {"SPARK_REMOTE": "local[2]"})


def test_an_aggregation_is_refused_by_the_writer(
    source: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    frame = source().dropDuplicates(["topic", "partition", "offset"])
    error = ended(started(frame), 200)
    assert "this query keeps state (StreamingDeduplicate)" in error
    assert pipeline.rows() == []


def test_a_second_table_of_a_group_is_refused_in_one_sentence(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    pipeline.produce(4)
    first = started(rows())
    until(lambda: pipeline.total_committed() == 4, what="the group's offsets")
    other = pipeline.path / "other"
    error = ended(started(rows(), delta.Writer(str(other))), 200)
    _, _, sentence = error.splitlines()[0].partition("apportion.member.group_claims.AnotherSink: ")
    assert sentence == (
        f"group {pipeline.group}: it belongs to the sink {pipeline.table}, as the committed "
        f"offset of {pipeline.topic}-0 says, and this query writes to {other}: each of the two "
        "would get a part of the records. Give this query a group of its own (kafka.group.id); "
        "or, if the table was moved, stop all members of the group and start again, with the same "
        "checkpoint and delta.Writer(..., adopt=True)"
    )
    assert "Traceback (most recent call last)" not in error
    assert (first.isActive, other.exists()) == (True, False)
    pipeline.produce(4)
    pipeline.until_written()
    assert pipeline.rows() == pipeline.expected()


def test_queries_that_spark_connect_hides_from_the_writer_are_refused(
    spark: SparkSession, rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    pipeline.produce(4)
    by_text = rows().mapInArrow(
        lambda batches: batches, "topic string, partition int, offset long, value string"
    )
    error = ended(started(by_text), 200)
    assert "does not say which source it came from" in error
    (other,) = partitions_of(pipeline.cluster.create_topic(f"{pipeline.topic}-two", 1))
    two = rows().union(
        rows(**{"kafka.group.id": f"{pipeline.group}-two", "subscribe": other.topic})
    )
    error = ended(started(two), 200)
    assert "more than once" in error
    numbers = spark.readStream.format("rate").load()
    beside = numbers.selectExpr(
        "'t' as topic", "0 as partition", "value as offset", "cast(value as string) as value"
    )
    error = ended(started(rows().union(beside)), 200)
    assert "another stream beside" in error
    assert pipeline.rows() == []


def test_a_listener_in_the_client_shows_a_query_until_it_ends(
    spark: SparkSession, source: Callable[..., DataFrame], pipeline: Pipeline
) -> None:
    def committed() -> list[float]:
        values = series(listener.text())
        return [values[key] for key in values if key[0] == "apportion_spark_committed_offset"]

    listener = PrometheusListener(port=0)
    spark.streams.addListener(listener)
    pipeline.produce(20)
    writer = source().writeStream.queryName("observed").format("noop")
    query = writer.option("checkpointLocation", str(pipeline.path / "observed")).start()
    until(lambda: committed() == [5] * 4, what="the records of each partition")
    values = series(listener.text())
    (member,) = (key for key in values if key[0] == "apportion_spark_member_info")
    assert (member[1], member[3]) == ("observed", pipeline.group)
    assert values["apportion_spark_assigned_partitions", "observed", "0"] == 4
    assert values["apportion_spark_rows_total", "observed", "0"] == 20
    query.stop()
    until(lambda: series(listener.text()) == {}, what="the end")
    spark.streams.removeListener(listener)
    listener.close()


def test_rows_are_written_to_a_topic_and_read_as_a_batch(
    spark: SparkSession, source: Callable[..., DataFrame], pipeline: Pipeline
) -> None:
    pipeline.produce(20)
    copy = f"{pipeline.topic}-copy"
    pipeline.cluster.create_topic(copy, 1)
    broker = {"kafka.bootstrap.servers": pipeline.bootstrap}
    batch = spark.createDataFrame([("of a batch",)], "value string").write.format("apportion")
    batch.mode("append").options(topic=copy, **broker).save()
    stream = source().select("value").writeStream.format("apportion")
    query = (
        stream.options(topic=copy, **broker)
        .option("checkpointLocation", str(pipeline.path / "copy"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    rows = spark.read.format("apportion").options(subscribe=copy, **broker).load()
    values = [row.value for row in rows.selectExpr("cast(value as string) as value").collect()]
    assert sorted(values) == sorted(["of a batch", *pipeline.produced.values()])


def test_seeds_are_played_through_spark_connect(spark: SparkSession) -> None:
    played = seeds.seeds(spark, 2, duration_ms=10_000)
    assert sorted(row.seed for row in played.select("seed").collect()) == [0, 1]
