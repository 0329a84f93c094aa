"""What holds on every release of Spark, run by tests/compat/test_spark_versions.py in a pytest of
its own, whose pyspark is of that release. One Spark session serves all tests.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from apportion.server.embedded import EmbeddedBroker
from apportion.spark import UnsupportedTrigger, delta, guard, stop
from apportion.spark.versions import has_admission_control
from tests.spark.harness import PATIENCE_S, Pipeline, until
from tests.spark.queries import ended, source, spark, started

__all__ = ["source", "spark", "started"]

# PySpark 4.0 and 4.1 do not close the sockets that they collect rows from
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

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
