"""Spark's `processAllAvailable`: it returns once everything that was there has been read."""

import shutil
from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from apportion.spark import stop
from tests.spark.harness import Pipeline
from tests.spark.queries import Started


def test_it_reads_all_for_a_function_when_a_query_starts_again(
    pipeline: Pipeline, rows: Callable[..., DataFrame], started: Started
) -> None:
    counts: list[int] = []
    for _ in range(3):
        pipeline.produce(10)
        query = started(rows(), lambda frame, _number: counts.append(frame.count()), "checkpoint")
        query.processAllAvailable()
        query.stop()
    assert [count for count in counts if count] == [10, 10, 10]


def test_it_reads_all_for_a_table_at_each_start_and_misses_a_removed_one(
    pipeline: Pipeline, rows: Callable[..., DataFrame], started: Started
) -> None:
    written = []
    for _ in range(3):
        pipeline.produce(10)
        query = started(rows(), checkpoint="checkpoint")
        query.processAllAvailable()
        written.append(len(pipeline.rows()))
        assert stop(query)
    assert written == [10, 20, 30]
    shutil.rmtree(pipeline.table)
    pipeline.produce(10)
    query = started(rows(), checkpoint="checkpoint")
    with pytest.raises(StreamingQueryException, match="LostOffsets"):
        query.processAllAvailable()
