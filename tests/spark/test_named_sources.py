"""Named sources (`readStream.name()`), with which Spark writes its offset log in format 2."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from tests.spark.harness import Pipeline, until
from tests.spark.queries import Started

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@pytest.fixture(autouse=True)
def evolution(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(EVOLUTION, "true")
    yield
    spark.conf.unset(EVOLUTION)


def test_two_named_sources_may_change_places_over_a_restart(
    spark: SparkSession, pipeline: Pipeline, started: Started
) -> None:
    (other,) = partitions_of(pipeline.cluster.create_topic(f"{pipeline.topic}-two", 1))

    def rows(name: str, topic: str) -> DataFrame:
        reader: Any = spark.readStream.format("apportion").name(name)
        options = {
            "kafka.bootstrap.servers": pipeline.bootstrap,
            "kafka.group.id": f"{pipeline.group}-{name}",
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        loaded: DataFrame = reader.options(**options).load()
        return loaded.selectExpr("topic", "partition", "offset", "cast(value as string) as value")

    def united(*, swapped: bool) -> DataFrame:
        first, second = rows("flights", pipeline.topic), rows("others", other.topic)
        return second.union(first) if swapped else first.union(second)

    def write_more(query: StreamingQuery, count: int) -> None:
        pipeline.produce(40)
        pipeline.cluster.produce(other, encode_batch([(None, b"other", ())] * 10, timestamp_ms=1))
        until(lambda: len(pipeline.rows()) >= count or query.exception())

    for number, swapped in enumerate((False, True), 1):
        query = started(united(swapped=swapped), checkpoint="named")
        write_more(query, 50 * number)
        query.stop()
    assert pipeline.rows() == sorted(
        [*pipeline.expected(), *((0, offset, "other") for offset in range(20))]
    )
    logs = (pipeline.path / "named" / "offsets").glob("[0-9]*")
    assert {log.read_text().splitlines()[0] for log in logs} == {"v2"}
