"""Options of streams that the writer and Spark have a part in, and which batches there are: topics
by a pattern, partitions by hand, divided ranges, batches that wait for enough records, none when
idle.
"""

import json
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.application import gated_source
from tests.spark.harness import Pipeline, until
from tests.spark.queries import Started


def test_a_pattern_and_divided_ranges_reach_the_table_each_record_once(
    pipeline: Pipeline, rows: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(40)
    started(rows(subscribe="", subscribePattern=f"{pipeline.topic}|none", minPartitions="6"))
    until(lambda: len(pipeline.rows()) == 40, what="all records")
    pipeline.produce(40)
    until(lambda: pipeline.total_committed() == 80, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_assigned_partitions_reach_the_table_and_are_committed(
    pipeline: Pipeline, rows: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(40)
    started(rows(subscribe="", assign=json.dumps({pipeline.topic: [1, 3]})))
    until(lambda: pipeline.total_committed() == 20, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected(lambda partition, _offset: partition in (1, 3))
    assert pipeline.committed() == {0: None, 1: 10, 2: None, 3: 10}


def test_a_batch_waits_for_enough_records_and_has_enough_tasks(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(4)
    sizes: list[tuple[int, int]] = []

    def measure(frame: DataFrame, _number: int) -> None:
        if count := frame.count():
            sizes.append((count, frame.rdd.getNumPartitions()))

    started(source(minOffsetsPerTrigger="40", maxTriggerDelay="1h", minPartitions="7"), measure)
    until(lambda: len(sizes) == 1, what="the first batch")
    pipeline.produce(20)
    pipeline.produce(20)
    until(lambda: len(sizes) == 2, what="a batch of enough records")
    assert sizes == [(4, 4), (40, 7)]


def test_no_task_of_a_stream_reads_more_than_its_most_records_and_all_arrive_once(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Started
) -> None:
    pipeline.produce(45)
    tasks: list[list[tuple[int, int]]] = []  # the partition and offset of each task's rows

    def collect_tasks(frame: DataFrame, _number: int) -> None:
        rows = frame.withColumn("task", F.spark_partition_id()).collect()
        tasks.extend(
            [(row.partition, row.offset) for row in rows if row.task == number]
            for number in range(frame.rdd.getNumPartitions())
        )

    started(source(maxRecordsPerPartition="5"), collect_tasks)
    until(lambda: sum(map(len, tasks)) == 45, what="the first batch")
    pipeline.produce(6, partition=2)
    until(lambda: sum(map(len, tasks)) == 51, what="all records")
    assert sorted(len(rows) for rows in tasks if rows) == [3] * 5 + [4] * 9
    assert sorted(position for rows in tasks for position in rows) == sorted(pipeline.produced)


def test_an_idle_stream_makes_no_empty_batches_in_ten_triggers(
    spark: SparkSession,
    pipeline: Pipeline,
    rows: Callable[..., DataFrame],
    started: Started,
) -> None:
    def batches(kind: str) -> list[str]:
        """Spark's own log of its batches."""
        logged = (pipeline.path / "checkpoint" / kind).glob("*")
        return sorted(entry.name for entry in logged if entry.name.isdigit())

    def triggers() -> int:
        return (pipeline.path / "answered").stat().st_size

    spark.dataSource.register(gated_source(pipeline.path))
    pipeline.produce(40)
    started(rows("gated"), checkpoint="checkpoint")
    until(lambda: pipeline.total_committed() == 40, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()
    before, idle_from = batches("offsets"), triggers()
    until(lambda: triggers() >= idle_from + 10, what="ten triggers")
    assert batches("offsets") == batches("commits") == before != []


def test_a_filter_that_drops_the_last_rows_of_a_batch_does_not_stop_the_next(
    pipeline: Pipeline, rows: Callable[..., DataFrame], started: Started
) -> None:
    started(rows().where("offset % 10 < 5"))
    for _ in range(3):
        pipeline.produce(40)
        until(lambda: pipeline.total_committed() == len(pipeline.produced), what="the batch")
    assert pipeline.rows() == pipeline.expected(lambda _partition, offset: offset % 10 < 5)
