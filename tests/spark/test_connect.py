"""The Delta writer and the guard through Spark Connect, with a server in a process of its own."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from apportion.spark import PrometheusListener, StatefulQuery, delta, guard, run, seeds, stop
from apportion.spark.monitoring.source_report import SourceReport, parse_report
from apportion.spark.processes.stop_requests import request_or_none
from apportion.spark.queries.stopping import committed_spans
from apportion.topics import partitions_of
from tests.spark import readme
from tests.spark.application import pass_gate
from tests.spark.connect_server import connect_server, connect_session, start_patiently
from tests.spark.harness import PATIENCE_S, Pipeline, until
from tests.spark.queries import ended, source
from tests.spark.test_named_sources import EVOLUTION
from tests.spark.test_query_metrics import series

__all__ = ["source"]

COLUMNS = ("topic", "partition", "offset", "cast(value as string) as value")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect") / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def spark(address: str) -> Iterator[SparkSession]:
    with connect_session(address) as session:
        yield session


Started = Callable[..., StreamingQuery]


@pytest.fixture
def started(pipeline: Pipeline) -> Iterator[Started]:
    """`started(frame, function, checkpoint=)`: a running query; it is stopped at the end."""
    queries: list[StreamingQuery] = []

    def start(
        frame: DataFrame,
        function: Callable[[DataFrame, int], None] | None = None,
        checkpoint: str | None = None,
        **trigger: Any,
    ) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(function or delta.Writer(str(pipeline.table)))
        writer = writer.trigger(**(trigger or {"processingTime": "300 milliseconds"})).option(
            "checkpointLocation", str(pipeline.path / (checkpoint or f"checkpoint-{len(queries)}"))
        )
        queries.append(start_patiently(writer))
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


@pytest.fixture
def rows(source: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """`rows(**options)`: the topic with its values as texts."""
    return lambda **options: source(**options).selectExpr(*COLUMNS)


def report_on(progress: Any) -> SourceReport | None:
    """The source's report in the progress of a batch; None while there is none."""
    return parse_report(progress.sources[0].latestOffset) if progress else None


def test_a_restarted_query_writes_each_record_once(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    query = started(rows(), checkpoint="v1")
    for _ in range(2):
        pipeline.produce(20)
        until(lambda: len(pipeline.rows()) >= len(pipeline.produced), what=str(query.exception()))
    query.stop()
    pipeline.produce(20)
    again = started(rows(), checkpoint="v1")
    until(lambda: len(pipeline.rows()) >= len(pipeline.produced))
    assert pipeline.rows() == pipeline.expected()
    report = until(lambda: report_on(again.lastProgress))
    assert (report.group_id, len(report.positions)) == (pipeline.group, len(pipeline.partitions))
    assert sum(position.next for position in report.positions.values()) == len(pipeline.produced)


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


def test_a_query_is_stopped_in_order(
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    query = started(rows())
    pipeline.produce(20)
    pipeline.until_written()
    assert stop(query) is True
    assert (query.isActive, pipeline.owners()) == (False, {})
    assert (pipeline.total_committed(), pipeline.rows()) == (20, pipeline.expected())


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


def test_a_program_whose_query_fails_ends_with_code_1_and_the_reason_last(
    rows: Callable[..., DataFrame], started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    query = started(rows().selectExpr("value"))
    assert run(query) == 1
    assert caplog.records[-1].getMessage() == (
        f"query {query.id} has failed: the Delta writer needs the source's columns topic, "
        "partition and offset to write each record once; this query dropped topic, partition, "
        'offset: keep them, as in .select("topic", "partition", "offset", ...)'
    )


def test_readmes_application_runs_through_a_server(address: str, tmp_path: Path) -> None:
    readme.play(tmp_path, {"SPARK_REMOTE": address})


def test_readmes_application_runs_with_a_server_of_its_own(tmp_path: Path) -> None:
    readme.play(tmp_path, {"SPARK_REMOTE": "local[2]"})


def test_an_aggregation_is_refused_by_the_writer(
    source: Callable[..., DataFrame], started: Started, pipeline: Pipeline
) -> None:
    frame = source().dropDuplicates(["topic", "partition", "offset"])
    error = ended(started(frame), 200)
    assert "this query keeps state (StreamingDeduplicate)" in error
    assert pipeline.rows() == []


def test_the_guard_refuses_an_aggregation_before_and_after_its_start(
    rows: Callable[..., DataFrame], source: Callable[..., DataFrame], pipeline: Pipeline
) -> None:
    plain, counted = rows(), source().groupBy("topic").count()
    assert guard(plain) is plain
    with pytest.raises(StatefulQuery, match="StateStoreSave"):
        guard(counted)
    writer = delta.Writer(str(pipeline.table))
    assert writer.check(plain) is writer
    with pytest.raises(StatefulQuery, match="StateStoreSave"):
        writer.check(counted)
    query = (
        counted.writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(pipeline.path / "counted"))
        .start()
    )
    with pytest.raises(StatefulQuery, match="StateStoreSave"):
        guard(query)
    assert not query.isActive


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


def test_a_wrong_option_is_named_at_the_start(source: Callable[..., DataFrame]) -> None:
    with pytest.raises(AnalysisException) as error:
        source(startingOffset="earliest").columns  # noqa: B018
    reason = str(error.value).splitlines()[0]
    assert reason.endswith(
        "OptionError: option startingoffset is unknown (Spark hands names over in lower case): did "
        "you mean startingOffsets?"
    )


def test_seeds_are_played_through_spark_connect(spark: SparkSession) -> None:
    played = seeds.seeds(spark, 2, duration_ms=10_000)
    assert sorted(row.seed for row in played.select("seed").collect()) == [0, 1]
