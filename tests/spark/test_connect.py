"""The Delta writer and the guard through Spark Connect, with a server in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from apportion.spark import PrometheusListener, StatefulQuery, delta, guard, seeds, stop
from apportion.spark.monitoring.source_report import SourceReport, parse_report
from apportion.topics import partitions_of
from tests.spark.connect_server import connect_server, connect_session, start_patiently
from tests.spark.harness import ROOT, Pipeline, until
from tests.spark.queries import ended, source
from tests.spark.test_query_metrics import series

__all__ = ["source"]

COLUMNS = ("topic", "partition", "offset", "cast(value as string) as value")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("connect") / "server.log"
    with connect_server(log) as address, connect_session(address) as session:
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
    ) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(function or delta.Writer(str(pipeline.table)))
        writer = writer.trigger(processingTime="300 milliseconds").option(
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


def test_a_named_source_writes_each_record_once(
    spark: SparkSession, started: Started, pipeline: Pipeline
) -> None:
    spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    options = {
        "kafka.bootstrap.servers": pipeline.bootstrap,
        "kafka.group.id": pipeline.group,
        "subscribe": pipeline.topic,
        "startingOffsets": "earliest",
    }
    reader: Any = spark.readStream.format("apportion").name("events")
    started(reader.options(**options).load().selectExpr(*COLUMNS))
    pipeline.produce(20)
    pipeline.until_written()
    spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
    assert pipeline.rows() == pipeline.expected()


def test_a_program_with_a_server_of_its_own_writes_each_record_once(pipeline: Pipeline) -> None:
    pipeline.produce(20)
    where = (str(pipeline.table), str(pipeline.path / "checkpoint"))
    program = subprocess.run(
        [
            *(sys.executable, "-m", "tests.spark.connect_application"),
            *(pipeline.bootstrap, pipeline.group, pipeline.topic, *where),
        ],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert (program.returncode, pipeline.rows()) == (0, pipeline.expected()), program.stderr


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
    started(rows())
    until(lambda: len(pipeline.rows()) >= len(pipeline.produced))
    error = ended(started(rows(), delta.Writer(str(pipeline.path / "other"))), 200)
    assert "belongs to" in error


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
