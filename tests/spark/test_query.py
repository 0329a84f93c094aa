"""What one query is told: faults in its options and its plan, lost data, columns."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from apportion.spark import OptionError, StatefulQuery, delta, guard
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes
from tests.spark.error_page import assert_on_page
from tests.spark.harness import Pipeline, until
from tests.spark.queries import Started, ended


def test_a_missing_group_is_refused_before_any_job_starts(
    spark: SparkSession, pipeline: Pipeline
) -> None:
    reader = (
        spark.readStream.format("apportion")
        .option("kafka.bootstrap.servers", pipeline.bootstrap)
        .option("subscribe", "t")
        .option("maxOffsetsPerTrigger", "100")
    )
    with pytest.raises(AnalysisException) as refusal:
        reader.load()
    assert_on_page("no group", str(refusal.value).splitlines()[0])


def test_a_missing_group_is_refused_at_the_latest_when_the_query_begins(
    spark: SparkSession, pipeline: Pipeline, started: Started
) -> None:
    rows = (
        spark.readStream.format("apportion")
        .option("kafka.bootstrap.servers", pipeline.bootstrap)
        .option("subscribe", pipeline.topic)
        .load()
    )
    with pytest.raises(OptionError) as refusal:
        guard(rows)
    assert_on_page("no group", refusal.value)
    said = ended(started(rows))
    assert_on_page("no group", said.splitlines()[0])
    assert "Traceback" not in said


def test_a_query_that_is_not_let_in_is_told_when_it_is_loaded(
    pipeline: Pipeline, source: Callable[..., DataFrame]
) -> None:
    with pytest.raises(AnalysisException) as refusal:
        source(**{"kafka.security.protocol": "SSL"})
    said = str(refusal.value)
    assert_on_page("no TLS at the address", said.splitlines()[0])
    assert "Traceback" not in said


def test_a_misspelt_option_is_refused_though_spark_hands_it_over_in_lower_case(
    source: Callable[..., DataFrame],
) -> None:
    with pytest.raises(AnalysisException) as failure:
        source(startingOffset="earliest")
    sentence = (
        "option startingoffset is unknown (Spark hands names over in lower case): did you "
        "mean startingOffsets?"
    )
    assert sentence in str(failure.value)
    assert_on_page("a misspelt option", failure.value)


def test_every_field_of_a_record_arrives(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    records = [
        (b"k", b"v", (("h", b"x"),)),
        (None, None, ()),
        (b"", b"", (("h", None), ("h", b""))),
    ]
    pipeline.cluster.produce(
        pipeline.partitions[1], encode_batch(records, timestamp_ms=1_700_000_000_123)
    )
    seen: list[Any] = []
    started(source(includeHeaders="true"), lambda frame, number: seen.extend(frame.collect()))
    until(lambda: len(seen) == 3, what="three rows")
    rows = [
        (
            row.key,
            row.value,
            row.partition,
            row.offset,
            row.timestamp.timestamp(),
            row.timestampType,
        )
        for row in seen
    ]
    assert rows == [
        (key, value, 1, at, 1_700_000_000.123, 0) for at, (key, value, _) in enumerate(records)
    ]
    assert [[tuple(header) for header in row.headers or ()] for row in seen] == [
        list(headers) for *_, headers in records
    ]


def test_max_offsets_per_trigger_limits_every_batch(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(100)
    sizes: list[int] = []
    started(source(maxOffsetsPerTrigger="30"), lambda frame, number: sizes.append(frame.count()))
    until(lambda: sum(sizes) == 100, what="all rows")
    assert [size for size in sizes if size] == [30, 30, 30, 10]


def test_two_sources_of_one_query_are_two_members_and_both_are_fenced(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    (other,) = partitions_of(pipeline.cluster.create_topic(f"{pipeline.topic}-two", 1))
    both = source().union(
        source(**{"kafka.group.id": f"{pipeline.group}-two", "subscribe": other.topic})
    )
    started(both.withColumn("value", F.col("value").cast("string")))

    def has_rows(count: int) -> Callable[[], bool]:
        return lambda: len(pipeline.rows()) == count

    for number in (1, 2):
        pipeline.produce(40)
        pipeline.cluster.produce(other, encode_batch([(None, b"other", ())] * 10, timestamp_ms=1))
        until(
            has_rows(50 * number),
            what="each record of both topics",
        )
    assert pipeline.rows() == sorted(
        [*pipeline.expected(), *((0, offset, "other") for offset in range(20))]
    )


@pytest.mark.parametrize(
    ("change", "page", "words"),
    [
        (
            lambda rows: rows.groupBy("topic", "partition").agg(F.max("offset").alias("offset")),
            "an aggregation, or another operator that keeps state",
            "an aggregation",
        ),
        (
            lambda rows: rows.dropDuplicates(["key"]),
            "an aggregation, or another operator that keeps state",
            "dropDuplicates()",
        ),
        (
            lambda rows: rows.select("topic", "partition", "value"),
            "the source's columns were dropped",
            "dropped offset",
        ),
        (
            lambda rows: rows.withColumn("offset", F.col("offset") + 1000),
            "a source's column was changed",
            "with offsets 1000 to 1004",
        ),
    ],
    ids=["aggregated", "without duplicates", "without offset", "with another offset"],
)
def test_the_writer_ends_a_query_of_which_it_cannot_write_each_record_once(
    pipeline: Pipeline,
    source: Callable[..., DataFrame],
    started: Started,
    change: Callable[[DataFrame], DataFrame],
    page: str,
    words: str,
) -> None:
    pipeline.produce(20)
    mode = "update" if words == "an aggregation" else "append"
    error = ended(started(change(source()), mode=mode))
    assert_on_page(page, error)
    assert words in error
    assert pipeline.rows() == []


def test_two_sources_of_one_topic_are_refused(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(40)
    error = ended(started(source().union(source(**{"kafka.group.id": f"{pipeline.group}-two"}))))
    assert f"two sources of this query read topic {pipeline.topic}" in error


@pytest.mark.parametrize(
    ("stateful", "operator"),
    [
        (lambda rows: rows.groupBy("topic").count(), "an aggregation"),
        (lambda rows: rows.dropDuplicates(["key"]), "dropDuplicates"),
        (lambda rows: rows.distinct(), "distinct|dropDuplicates|aggregation"),
        (lambda rows: rows.limit(5), "limit"),
    ],
)
def test_guard_stops_a_query_that_keeps_state(
    pipeline: Pipeline,
    source: Callable[..., DataFrame],
    stateful: Callable[[DataFrame], DataFrame],
    operator: str,
) -> None:
    query = (
        stateful(source())
        .writeStream.format("noop")
        .outputMode("update" if operator[3:] == "aggregation" else "append")
    )
    running = query.option("checkpointLocation", str(pipeline.path / "checkpoint")).start()
    with pytest.raises(StatefulQuery, match=operator):
        guard(running)
    assert not running.isActive


def test_guard_lets_a_stateless_query_run(
    pipeline: Pipeline, source: Callable[..., DataFrame]
) -> None:
    rows = source().where("offset >= 0").selectExpr("cast(value as string)")
    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(pipeline.path / "checkpoint"))
        .start()
    )
    assert guard(query) is query
    assert query.isActive
    query.stop()


def test_a_writer_that_is_given_a_second_frame_for_one_batch_refuses_it(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(4)
    writer = delta.Writer(str(pipeline.table))

    def halves(frame: DataFrame, number: int) -> None:
        writer(frame.where("offset % 2 = 0"), number)
        writer(frame.where("offset % 2 = 1"), number)

    error = ended(started(source(), halves, "checkpoint"))
    assert (
        f"the writer to {pipeline.table} was called a second time for batch 0: the rows of "
        "this call would not be written" in error
    )
    assert pipeline.rows() == []  # the first batch only asks the writers
    rows = source().selectExpr("topic", "partition", "offset", "cast(value as string) as value")
    started(rows, writer, "checkpoint")  # a new run, with the same writer
    until(lambda: pipeline.total_committed() == 4, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_a_pipeline_may_make_several_rows_of_one_record(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(40)
    started(
        source()
        .withColumn("word", F.explode(F.split(F.col("value").cast("string"), " ")))
        .drop("headers")
    )
    until(lambda: len(table_rows(pipeline)) == 120, what="three rows a record")
    assert sorted({(row["partition"], row["offset"]) for row in table_rows(pipeline)}) == sorted(
        pipeline.produced
    )


def table_rows(pipeline: Pipeline) -> list[dict[str, int]]:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        rows: list[dict[str, int]] = (
            DeltaTable(str(pipeline.table))
            .to_pyarrow_table()
            .select(["partition", "offset"])
            .to_pylist()
        )
    except TableNotFoundError:
        return []
    return rows


def test_a_topic_made_again_under_a_running_query_ends_it_and_says_which_offsets(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(40)
    query = started(source())
    until(lambda: pipeline.total_committed() == 40, what="the group's offsets")
    changes.delete_topic(pipeline.cluster, pipeline.topic)
    pipeline.cluster.create_topic(pipeline.topic, 4)
    error = ended(query)
    assert f"{pipeline.topic}-0 from offset 10" in error
    assert_on_page("a topic deleted meanwhile", error)


def test_without_fail_on_data_loss_the_query_goes_on_with_the_new_topic(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(40)
    seen: list[Any] = []
    started(
        source(failOnDataLoss="false"),
        lambda frame, number: seen.extend(row.value for row in frame.collect()),
    )
    until(lambda: len(seen) == 40, what="the old topic's rows")
    changes.delete_topic(pipeline.cluster, pipeline.topic)
    (partition, *_) = sorted(pipeline.partitions)
    topic = pipeline.cluster.create_topic(pipeline.topic, 4)
    pipeline.cluster.produce(
        partition._replace(topic_id=topic.id), encode_batch([(None, b"new", ())], timestamp_ms=1)
    )
    until(lambda: b"new" in seen, what="the new topic's row")
    assert len(seen) == 41
