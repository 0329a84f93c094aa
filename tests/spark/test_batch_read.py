"""Batch reads of a topic in Spark: which rows they have, and why they end."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.harness import Pipeline


@pytest.fixture
def read(spark: SparkSession, pipeline: Pipeline) -> Callable[..., DataFrame]:
    """`read(**options)`: the pipeline's topic as a batch."""

    def load(**options: Any) -> DataFrame:
        reader = spark.read.format("apportion").option(
            "kafka.bootstrap.servers", pipeline.bootstrap
        )
        return reader.option("subscribe", pipeline.topic).options(**options).load()

    return load


def offsets_json(pipeline: Pipeline, *offsets: int) -> str:
    """Spark's JSON of the offsets of the topic's partitions."""
    return json.dumps({pipeline.topic: {str(number): each for number, each in enumerate(offsets)}})


def rows_of(frame: DataFrame) -> list[tuple[int, int, str]]:
    """Partition, offset and value of each row."""
    rows = frame.selectExpr("partition", "offset", "cast(value as string) as value").collect()
    return sorted((row.partition, row.offset, row.value) for row in rows)


def test_a_batch_read_keeps_its_ranges_and_a_new_one_has_what_came_since(
    pipeline: Pipeline, read: Callable[..., DataFrame]
) -> None:
    pipeline.produce(40)
    earlier = pipeline.expected()
    frame = read(includeHeaders="true")
    assert frame.columns[-1] == "headers"
    assert rows_of(frame) == earlier
    pipeline.produce(4)
    assert rows_of(read()) == pipeline.expected()
    if frame.sparkSession.version.startswith("4.0."):
        earlier = pipeline.expected()  # this one plans each action anew
    # Spark keeps the plan of what was loaded: two actions see the same rows.
    assert rows_of(frame) == earlier
    assert frame.where("partition = 1").count() == len([row for row in earlier if row[0] == 1])


def test_a_batch_read_of_empty_topics_has_no_rows(read: Callable[..., DataFrame]) -> None:
    assert read().collect() == []


def test_deleted_records_fail_a_batch_read_and_the_error_says_which(
    pipeline: Pipeline, read: Callable[..., DataFrame]
) -> None:
    pipeline.produce(40)
    start = offsets_json(pipeline, 0, 10, 10, 10)
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap})
    for deleted in admin.delete_records([TopicPartition(pipeline.topic, 0, 4)]).values():
        deleted.result()
    with pytest.raises(AnalysisException) as failure:
        read(startingOffsets=start).collect()
    assert (
        f"DataLoss: {pipeline.topic}-0: offsets [0, 4) were deleted. Set failOnDataLoss to false "
        "to go on without these records." in str(failure.value)
    )
    assert "Traceback" not in str(failure.value)
    left = rows_of(read(startingOffsets=start, failOnDataLoss="false"))
    assert [row[:2] for row in left] == [(0, offset) for offset in range(4, 10)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "ReadRefused: there is no topic no-such-topic"),
        (
            {"kafka.group.id": "g"},
            "OptionError: option kafka.group.id says nothing in a batch read",
        ),
    ],
)
def test_a_batch_read_that_cannot_be_says_why_without_a_traceback(
    read: Callable[..., DataFrame], options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(AnalysisException) as failure:
        read(**options).collect()
    assert sentence in str(failure.value)
    assert "Traceback" not in str(failure.value)
