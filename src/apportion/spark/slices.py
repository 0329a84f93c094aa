"""A span split into Spark tasks, and how a task reads its part as Arrow batches.

It asks no group anything.

Which rows a batch has follows from its span alone; how they are packed into tasks may depend on the
machine.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from apportion.client.cluster import EARLIEST, Cluster
from apportion.columns.read import to_arrow
from apportion.errors import Code, Refused
from apportion.member.batch.span import Span
from apportion.spark.options import SourceOptions
from apportion.topics import TopicIdPartition

OFFSETS_A_TASK = 100_000
# a task waits so long for a broker that is away: where Spark does not retry, its failure ends the
# query
READ_PATIENCE_MS = 120_000
RECORDS_GONE = (Code.OFFSET_OUT_OF_RANGE, Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)


class PartitionSlice(NamedTuple):
    """The offsets [start, end) of one partition."""

    place: TopicIdPartition
    start: int
    end: int


class TaskSlices(InputPartition):
    """The slices that one task reads."""

    def __init__(self, slices: tuple[PartitionSlice, ...]) -> None:
        super().__init__(None)
        self.slices = slices

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.place}[{part.start}, {part.end})" for part in self.slices)
        return f"Slices({parts})"


def split_into_tasks(span: Span, cores: int | None = None) -> list[TaskSlices]:
    """Return tasks that together read exactly the span: one per core, more for a large span."""
    slices = [
        PartitionSlice(place, start, end)
        for place, (start, end) in span.ranges.items()
        if end > start
    ]
    total = sum(part.end - part.start for part in slices)
    tasks = min(len(slices), max(cores or os.cpu_count() or 1, -(-total // OFFSETS_A_TASK)))
    packed: list[list[PartitionSlice]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for part in sorted(slices, key=lambda part: (part.start - part.end, part.place)):
        lightest = sizes.index(min(sizes))
        packed[lightest].append(part)
        sizes[lightest] += part.end - part.start
    return [TaskSlices(tuple(sorted(parts))) for parts in packed]


def read(task: TaskSlices, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of the task's slices, in order.

    Raises RuntimeError where records are gone, unless failOnDataLoss is false.
    """
    cluster = _cluster(options)
    for part in task.slices:
        try:
            yield from _rows(cluster, part, options)
        except Refused as refused:
            if refused.code not in RECORDS_GONE:
                raise
            if options.fail_on_data_loss:
                raise RuntimeError(
                    f"{refused.why}: this batch reads {part.place} from {part.start} to "
                    f"{part.end}. "
                    "Set failOnDataLoss to false to go on without these records."
                ) from refused
            yield from _what_is_left(cluster, part, options)


def _rows(
    cluster: Cluster, part: PartitionSlice, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    yield from to_arrow(
        cluster.fetch_range(
            part.place,
            part.start,
            part.end,
            timeout_ms=max(READ_PATIENCE_MS, options.request_timeout_ms),
        ),
        topic=part.place.topic,
        partition=part.place.partition,
        from_offset=part.start,
        before_offset=part.end,
        include_headers=options.include_headers,
    )


def _what_is_left(
    cluster: Cluster, part: PartitionSlice, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the slice that still exist; none if the topic was deleted."""
    try:
        start = max(part.start, cluster.list_offsets([part.place], EARLIEST)[part.place])
    except Refused:
        return
    if start < part.end:
        yield from _rows(cluster, part._replace(start=start), options)


_clusters: dict[tuple[int, str, str, int], Cluster] = {}


def _cluster(options: SourceOptions) -> Cluster:
    """Return this worker process's connections, made once; a forked worker makes its own."""
    key = (os.getpid(), options.bootstrap, options.client_id, options.request_timeout_ms)
    if key not in _clusters:
        _clusters[key] = Cluster(
            options.bootstrap, client_id=options.client_id, timeout_ms=options.request_timeout_ms
        )
    return _clusters[key]
