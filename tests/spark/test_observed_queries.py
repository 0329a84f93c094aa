"""What running queries show to Prometheus and in their progress, against what their group says."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.spark import PrometheusListener
from apportion.topics import TopicPartition, partitions_of
from tests.spark.batch_members import produce
from tests.spark.conftest import Broker
from tests.spark.harness import ROOT, Pipeline, until
from tests.spark.test_query_metrics import Series, read, series

IDLE_INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"
PAGE = (ROOT / "docs/spark-metrics.md").read_text()


@pytest.fixture(autouse=True)
def soon_idle(spark: SparkSession) -> Iterator[None]:
    """A query without records says so at once, and not each 10 s."""
    spark.conf.set(IDLE_INTERVAL, "300")
    yield
    spark.conf.unset(IDLE_INTERVAL)


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[PrometheusListener]:
    listener = PrometheusListener(port=0)
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)
    listener.close()


@pytest.fixture
def started(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> Iterator[Callable[..., StreamingQuery]]:
    """`started(name, group, topic, **options)`: a running query of that name."""
    queries: list[StreamingQuery] = []

    def start(name: str, group: str, topic: str, **options: str) -> StreamingQuery:
        frame: DataFrame = (
            spark.readStream.format("apportion")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("kafka.group.id", group)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )
        writer = frame.writeStream.queryName(name).format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        queries.append(writer.trigger(processingTime="300 milliseconds").start())
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def described(broker: Broker, group: str) -> Any:
    """The group that `apportion groups describe --json` prints."""
    words = ["groups", "describe", group, "--bootstrap-server", broker.bootstrap, "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def shown(listener: PrometheusListener) -> Series:
    """What Prometheus reads over HTTP."""
    status, text = read(listener.address, "/metrics")
    assert status == 200
    return series(text)


def members(values: Series) -> dict[str, tuple[str, str]]:
    """query -> the group and the member that it is."""
    return {key[1]: (key[3], key[4]) for key in values if key[0] == "apportion_spark_member_info"}


def test_prometheus_reads_of_two_queries_what_the_group_says_of_them(
    broker: Broker,
    pipeline: Pipeline,
    listener: PrometheusListener,
    started: Callable[..., StreamingQuery],
) -> None:
    def assigned() -> dict[str, float]:
        name = "apportion_spark_assigned_partitions"
        return {key[1]: value for key, value in shown(listener).items() if key[0] == name}

    pipeline.produce(40)
    started("one", pipeline.group, pipeline.topic)
    until(lambda: assigned() == {"one": 4}, what="one with all partitions")
    two = started("two", pipeline.group, pipeline.topic)
    until(lambda: assigned() == {"one": 2, "two": 2}, what="two with a half")
    # Both have a batch now with the epoch that the group has come to.
    pipeline.produce(20)
    until(lambda: pipeline.total_committed() == 60, what="the commits")

    def committed() -> float:
        name = "apportion_spark_committed_offset"
        return sum(value for key, value in shown(listener).items() if key[0] == name)

    until(lambda: committed() == 60, what="the listener's last event")

    group, values = described(broker, pipeline.group), shown(listener)
    its_members = {member["member"]: member for member in group["members"]}
    assert {its for its, _ in members(values).values()} == {pipeline.group}
    owners = {query: its_members[member] for query, (_, member) in members(values).items()}
    assert owners.keys() == {"one", "two"}
    expected: Series = {
        ("apportion_spark_member_epoch", query, "0"): member["epoch"]
        for query, member in owners.items()
    }
    rows = {TopicPartition(row["topic"], row["partition"]): row for row in group["offsets"]}
    for query, member in owners.items():
        for number in member["owns"][pipeline.topic]:
            row = rows[TopicPartition(pipeline.topic, number)]
            labels = query, "0", pipeline.topic, str(number)
            expected |= {
                ("apportion_spark_committed_offset", *labels): row["committed"],
                ("apportion_spark_latest_offset", *labels): row["end"],
                ("apportion_spark_lag", *labels): row["lag"],
            }
    assert len(expected) == 2 + 3 * 4
    names = {key[0] for key in expected}
    assert {key: value for key, value in values.items() if key[0] in names} == expected
    rows_read = [value for key, value in values.items() if key[0] == "apportion_spark_rows_total"]
    assert (len(rows_read), sum(rows_read)) == (2, 60)

    two.stop()
    until(lambda: assigned() == {"one": 4}, what="one with all partitions again")
    assert {key[1] for key in shown(listener)} == {"one"}


def test_an_idle_query_shows_the_epoch_that_others_have_brought(
    broker: Broker,
    pipeline_on: Callable[..., Pipeline],
    listener: PrometheusListener,
    started: Callable[..., StreamingQuery],
) -> None:
    pipeline = pipeline_on(broker.bootstrap, partitions=1)
    pipeline.produce(5)

    def owner_batches() -> float | None:
        return shown(listener).get(("apportion_spark_batches_total", "owner"))

    def epochs() -> dict[str, float]:
        name = "apportion_spark_member_epoch"
        return {key[1]: value for key, value in shown(listener).items() if key[0] == name}

    def described_epochs() -> dict[str, float]:
        by_id = {each["member"]: each["epoch"] for each in described(broker, group)["members"]}
        return {query: by_id[member] for query, (_, member) in members(shown(listener)).items()}

    group = pipeline.group
    started("owner", group, pipeline.topic)
    # The first batch of a checkpoint reads nothing.
    until(lambda: owner_batches() == 2 and epochs().keys() == {"owner"}, what="the second batch")
    first = epochs()["owner"]
    started("spare", group, pipeline.topic)
    until(
        lambda: (
            epochs().keys() == {"owner", "spare"}
            and epochs()["owner"] > first
            and epochs() == described_epochs()
        ),
        what="the epoch with two members",
    )
    assert owner_batches() == 2


def test_a_query_waits_for_a_topic_until_it_has_a_partition_of_it(
    pipeline: Pipeline, listener: PrometheusListener, started: Callable[..., StreamingQuery]
) -> None:
    def waiting() -> float | None:
        return shown(listener).get(("apportion_spark_waiting", "early", "0"))

    later = f"{pipeline.topic}-later"
    query = started("early", pipeline.group, "", subscribePattern=f"{later}|none")
    until(lambda: waiting() == 1, what="a query that waits")
    progress: Any = query.lastProgress
    waits_for = json.loads(progress.sources[0].latestOffset)["waitsFor"]
    assert waits_for == f"no topic matched {later}|none as the query began"
    pipeline.cluster.create_topic(later, 1)
    until(lambda: waiting() == 0, what="a query with a partition")


def test_the_progress_of_a_query_is_as_the_docs_show_it(
    broker: Broker, pipeline: Pipeline, started: Callable[..., StreamingQuery]
) -> None:
    first, second = partitions_of(pipeline.cluster.create_topic("flights", 2))
    produce(pipeline.cluster, first, 30)
    produce(pipeline.cluster, second, 10)
    query = started("etl", "flights-etl", "flights", maxOffsetsPerTrigger="20")
    until(lambda: len(batches(query)) == 2, what="two batches")
    text = re.search(r"<!-- latest offset of a query -->\n```json\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None
    printed = json.loads(text[1])
    latest = json.loads(batches(query)[0].sources[0].latestOffset)
    for volatile in ("memberId", "memberEpoch"):
        assert type(latest.pop(volatile)) is type(printed.pop(volatile))
    assert latest == printed
    assert dict(batches(query)[0].sources[0].metrics) == {}


def batches(query: StreamingQuery) -> list[Any]:
    """The progress of each batch that had records."""
    return [each for each in query.recentProgress if each.numInputRows]
