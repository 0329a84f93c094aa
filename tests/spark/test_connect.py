"""The Delta writer and the guard through Spark Connect, with a server in a process of its own."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from apportion.spark import StatefulQuery, delta, guard
from apportion.topics import partitions_of
from tests.spark.connect_server import connect_server, connect_session, start_patiently
from tests.spark.harness import Pipeline, until
from tests.spark.queries import ended, source

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
    progress: Any = until(lambda: again.lastProgress)
    (read,) = progress.sources
    end, latest = json.loads(read.endOffset), json.loads(read.latestOffset)
    spans = end["topics"][pipeline.topic]["span"]
    assert sum(to for _, to in spans.values()) == len(pipeline.produced)
    assert {number: to for number, (_, to) in spans.items()} == {
        number: to for number, (_, to) in latest["topics"][pipeline.topic]["span"].items()
    }


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
    rows: Callable[..., DataFrame], started: Started, pipeline: Pipeline
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
    assert pipeline.rows() == []


def test_a_wrong_option_is_named_at_the_start(source: Callable[..., DataFrame]) -> None:
    with pytest.raises(AnalysisException) as error:
        source(startingOffset="earliest").columns  # noqa: B018
    assert "did you mean startingOffsets?" in str(error.value)
