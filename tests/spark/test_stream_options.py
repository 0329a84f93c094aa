"""Options of streams that the writer and Spark have a part in: topics by a pattern, partitions by
hand, divided ranges, and batches that wait for enough records. One Spark session serves all tests.
"""

import json
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.harness import Pipeline, until
from tests.spark.queries import source, spark, started

__all__ = ["source", "spark", "started"]


def test_a_pattern_and_divided_ranges_reach_the_table_each_record_once(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Callable[..., StreamingQuery]
) -> None:
    pipeline.produce(40)
    rows = source(subscribe="", subscribePattern=f"{pipeline.topic}|none", minPartitions="6")
    started(rows.withColumn("value", F.col("value").cast("string")))
    until(lambda: len(pipeline.rows()) == 40, what="all records")
    pipeline.produce(40)
    until(lambda: pipeline.total_committed() == 80, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_assigned_partitions_reach_the_table_and_are_committed(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Callable[..., StreamingQuery]
) -> None:
    pipeline.produce(40)
    assigned = json.dumps({pipeline.topic: [1, 3]})
    rows = source(subscribe="", assign=assigned)
    started(rows.withColumn("value", F.col("value").cast("string")))
    until(lambda: pipeline.total_committed() == 20, what="the group's offsets")
    assert pipeline.rows() == pipeline.expected(lambda partition, _offset: partition in (1, 3))
    assert pipeline.committed() == {0: None, 1: 10, 2: None, 3: 10}


def test_a_batch_waits_for_enough_records_and_has_enough_tasks(
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Callable[..., StreamingQuery]
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
    pipeline: Pipeline, source: Callable[..., DataFrame], started: Callable[..., StreamingQuery]
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
