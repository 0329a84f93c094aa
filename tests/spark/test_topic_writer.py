"""Rows written to topics by `df.write` and `df.writeStream`, on our broker."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.conftest import Broker
from tests.spark.error_page import assert_on_page
from tests.spark.harness import Pipeline, until
from tests.spark.queries import ended
from tests.spark.test_topic_producer import read


@pytest.fixture
def target(pipeline: Pipeline) -> str:
    """A topic of three partitions to write to."""
    pipeline.cluster.create_topic(f"{pipeline.topic}-target", 3)
    return f"{pipeline.topic}-target"


@pytest.fixture
def write(pipeline: Pipeline) -> Callable[..., None]:
    """`write(frame, **options)`: append its rows."""

    def append(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("apportion").mode("append")
        writer.option("kafka.bootstrap.servers", pipeline.bootstrap).options(**options).save()

    return append


@pytest.fixture
def written(pipeline: Pipeline, target: str) -> Callable[[], list[tuple[Any, ...]]]:
    """`written()`: partition, key, value and headers of every record of the target."""
    return lambda: read({"bootstrap.servers": pipeline.bootstrap}, target, 3)


@pytest.fixture
def streamed(pipeline: Pipeline) -> Iterator[Callable[..., StreamingQuery]]:
    """`streamed(frame, **options)`: a running query that writes to topics, from one checkpoint."""
    queries: list[StreamingQuery] = []

    def start(frame: DataFrame, mode: str = "append", **options: str) -> StreamingQuery:
        writer = (
            frame.writeStream.format("apportion")
            .outputMode(mode)
            .option("kafka.bootstrap.servers", pipeline.bootstrap)
            .option("checkpointLocation", str(pipeline.path / "checkpoint"))
            .options(**options)
        )
        queries.append(writer.trigger(processingTime="300 milliseconds").start())
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def test_every_column_of_a_row_is_written(
    spark: SparkSession,
    write: Callable[..., None],
    target: str,
    written: Callable[[], list[tuple[Any, ...]]],
) -> None:
    frame = spark.createDataFrame(
        [
            ("k", b"v", 1, [("h", b"1"), ("h", None)], target, 7),
            (None, None, 2, None, target, 8),
            ("é", b"", 0, [], target, 9),
        ],
        "key string, value binary, partition int, "
        "headers array<struct<key: string, value: binary>>, topic string, offset long",
    )
    write(frame)
    assert written() == [
        (0, "é".encode(), b"", None),
        (1, b"k", b"v", [("h", b"1"), ("h", None)]),
        (2, None, None, None),
    ]


def test_the_option_topic_goes_before_the_column(
    spark: SparkSession,
    write: Callable[..., None],
    target: str,
    written: Callable[[], list[tuple[Any, ...]]],
) -> None:
    write(spark.createDataFrame([("v", None)], "value string, topic string"), topic=target)
    assert [value for _, _, value, _ in written()] == [b"v"]


def test_many_tasks_write_every_row_once(
    spark: SparkSession,
    write: Callable[..., None],
    target: str,
    written: Callable[[], list[tuple[Any, ...]]],
) -> None:
    frame = spark.range(0, 30_000, numPartitions=3).selectExpr(
        "cast(id as string) AS key", "cast(id as string) AS value"
    )
    write(frame, **{"topic": target, "kafka.compression.type": "lz4"})
    assert sorted(int(key) for _, key, _, _ in written()) == list(range(30_000))


def goes_on(query: StreamingQuery) -> bool:
    """True; a query that has ended fails the test with its reason."""
    assert query.isActive, query.exception()
    return True


def values(records: list[tuple[Any, ...]]) -> set[bytes]:
    return {value for _, _, value, _ in records}


def values_of(pipeline: Pipeline) -> set[bytes]:
    """The values that its topic was given."""
    return {value.encode() for value in pipeline.produced.values()}


def said_at_plan(act: Callable[[], object]) -> str:
    with pytest.raises(AnalysisException) as failure:
        act()
    return str(failure.value)


def test_a_wrong_write_is_refused_before_a_task_runs(
    spark: SparkSession, pipeline: Pipeline, write: Callable[..., None], target: str
) -> None:
    frame = spark.range(1).selectExpr("'v' AS value")
    wrong = "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: "
    before = f"{wrong}apportion.spark.topic_sink.records."
    after = "\n SQLSTATE: 38000"
    said = said_at_plan(lambda: write(frame))
    assert (said[: len(before)], said[-len(after) :]) == (before, after)
    assert_on_page('`df.write.format("apportion")` without a topic', said)
    said = said_at_plan(lambda: write(frame, topic="flihgts"))
    assert said.startswith(f"{before}NotWritten: topic flihgts does not exist at ")
    assert_on_page("a write to a topic that does not exist", said)
    assert said_at_plan(lambda: write(frame, topic=target, **{"kafka.acks": "0"})) == (
        f"{wrong}apportion.spark.options.values.OptionError: option kafka.acks is '0': give all or "
        f"-1: with less, a record could be lost after it was taken for written.{after}"
    )
    assert said_at_plan(
        lambda: write(frame, topic=target, **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    ) == (
        f"{before}NotWritten: topic {target}: no broker of 127.0.0.1:1 has answered: no "
        "connection to the broker at 127.0.0.1:1: Connection refused; see that a broker listens "
        "there and can be reached from this host, or give another "
        f"kafka.bootstrap.servers{after}"
    )
    overwriting = frame.write.format("apportion").mode("overwrite")
    assert_on_page('`mode("overwrite")`', said_at_plan(overwriting.save))


def test_a_record_that_fails_ends_the_job_with_a_sentence(
    spark: SparkSession, pipeline: Pipeline, write: Callable[..., None], target: str
) -> None:
    frame = spark.createDataFrame([("v", target, 3)], "value string, topic string, partition int")
    with pytest.raises(PythonException) as failure:
        write(frame)
    assert str(failure.value) == (
        "An exception was thrown from the Python worker:\n"
        f"apportion.spark.topic_sink.records.NotWritten: topic {target}: column partition is 3 in "
        "a row, and the topic has partitions 0 to 2: choose one of these, or add partitions"
    )
    last_line = str(failure.value).splitlines()[-1]
    assert_on_page("a row with a partition that its topic does not have", last_line)


def test_a_stream_that_is_stopped_amid_its_batches_loses_no_row(
    pipeline: Pipeline,
    source: Callable[..., DataFrame],
    streamed: Callable[..., StreamingQuery],
    target: str,
    written: Callable[[], list[tuple[Any, ...]]],
) -> None:
    pipeline.produce(200)
    rows = source(maxOffsetsPerTrigger=50).selectExpr("value", "partition AS source", "offset")
    query = streamed(rows, topic=target)
    until(lambda: goes_on(query) and len(written()) >= 50, what="the first batch")
    query.stop()
    pipeline.produce(50)
    again = streamed(rows, topic=target)
    until(lambda: goes_on(again) and values(written()) == values_of(pipeline), what="every row")


def test_a_stream_waits_for_a_broker_that_comes_back(
    broker: Broker,
    pipeline: Pipeline,
    source: Callable[..., DataFrame],
    streamed: Callable[..., StreamingQuery],
    target: str,
    written: Callable[[], list[tuple[Any, ...]]],
) -> None:
    pipeline.produce(50)
    query = streamed(source().select("value"), topic=target)
    until(lambda: goes_on(query) and len(written()) >= 50, what="the first rows")
    broker.kill()
    broker.start()
    pipeline.produce(50)
    until(lambda: goes_on(query) and values(written()) == values_of(pipeline), what="every row")


def test_a_stream_that_cannot_write_says_why_in_the_first_line_of_its_error(
    pipeline: Pipeline,
    source: Callable[..., DataFrame],
    streamed: Callable[..., StreamingQuery],
) -> None:
    pipeline.produce(1)
    said = ended(streamed(source().select("value"), topic="flihgts"))
    assert said.splitlines()[0].endswith(
        f"NotWritten: topic flihgts does not exist at {pipeline.bootstrap}, and a write creates "
        "none: is its name right? `apportion topics create flihgts --bootstrap "
        f"{pipeline.bootstrap}` creates it"
    )
    assert "Traceback" not in said


def test_each_batch_of_a_complete_result_is_written_whole(
    pipeline: Pipeline,
    spark: SparkSession,
    streamed: Callable[..., StreamingQuery],
    target: str,
    written: Callable[[], list[tuple[Any, ...]]],
) -> None:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    counts = rows.selectExpr("'all' AS key").groupBy("key").count()
    texts = counts.selectExpr("key", "cast(count AS string) AS value")
    query = streamed(texts, "complete", topic=target)
    until(lambda: goes_on(query) and len(written()) >= 2, what="two batches")
    assert {key for _, key, _, _ in written()} == {b"all"}
