"""A span split into Spark tasks, and how a task reads its part as Arrow batches.

Tasks are no members: they fetch offset ranges and send no request to the group's coordinator. Which
rows a batch has follows from its span alone, so a replay has the same rows; how the span is divided
among tasks may differ from machine to machine.
"""

import heapq
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyspark.sql.datasource import InputPartition

from apportion.member.batch.span import Span
from apportion.spark.connections.clusters import ClusterOptions, ConnectionSettings, cluster_of
from apportion.spark.connections.kept_open import KeptOpen
from apportion.spark.options.task_limits import MOST_TASKS, NO_LIMITS, TaskLimits
from apportion.spark.processes.plain_errors import without_traceback
from apportion.topics import TopicIdPartition

# A task imports what it reads with when it reads: the process that plans has no use for it.
if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from apportion.client.cluster import Cluster

OFFSETS_A_TASK = 100_000
# How long a task waits for a broker that cannot be reached: long enough for a restart. In local
# mode Spark does not retry a task, so that its failure would end the query.
READ_TIMEOUT_MS = 120_000
CLUSTERS_OF_A_WORKER = 8
"""The most clusters (by options and client id) whose connections a Python worker keeps."""
WORKER_CLUSTERS: "KeptOpen[ConnectionSettings, Cluster]" = KeptOpen(
    CLUSTERS_OF_A_WORKER, cluster_of
)


class TaskOptions(ClusterOptions, Protocol):
    """The options of a stream or of a batch read that a task needs."""

    @property
    def fail_on_data_loss(self) -> bool:
        """Return whether records that are gone are an error."""

    @property
    def include_headers(self) -> bool:
        """Return whether rows have the column headers."""


class ReadingOptions(NamedTuple):
    """The values of `TaskOptions` by themselves: a task imports nothing that parses options."""

    connection: ConnectionSettings
    fail_on_data_loss: bool
    include_headers: bool

    @classmethod
    def of(cls, options: TaskOptions) -> "ReadingOptions":
        """Return what a task needs of the options."""
        return cls(
            ConnectionSettings.of(options), options.fail_on_data_loss, options.include_headers
        )


class PartitionSlice(NamedTuple):
    """The offsets [start, end) of one partition."""

    partition: TopicIdPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start


class TaskSlices(InputPartition):
    """The slices that one task reads."""

    def __init__(self, slices: tuple[PartitionSlice, ...]) -> None:
        super().__init__(None)
        self.slices = slices

    def __repr__(self) -> str:
        texts = ", ".join(f"{part.partition}[{part.start}, {part.end})" for part in self.slices)
        return f"Slices({texts})"


class TaskReader:
    """The part of a reader that reads tasks, and all of it that is pickled for executors."""

    def __init__(self, options: ReadingOptions) -> None:
        self._reading_options = options

    def __reduce__(self) -> "tuple[type[TaskReader], tuple[ReadingOptions]]":
        # Sockets and threads cannot be pickled, an executor's copy must never join a group, and
        # this way it imports nothing with which to plan.
        return TaskReader, (self._reading_options,)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read the rows of one task; Spark calls this in an executor."""
        assert isinstance(partition, TaskSlices)
        return read_task(partition, self._reading_options)


def split_into_tasks(
    span: Span, limits: TaskLimits = NO_LIMITS, cores: int | None = None
) -> list[TaskSlices]:
    """Return tasks that together read exactly the span: one per core, more for a large span.

    A partition's range is divided only where the limits want it. The largest range goes first, each
    to the task with the fewest records so far (the longest-processing-time rule).

    Raises OptionError if that would be more than MOST_TASKS.
    """
    whole = [
        PartitionSlice(partition, start, end)
        for partition, (start, end) in span.ranges.items()
        if end > start
    ]
    slices = divide(whole, limits)
    if limits.most_offsets is not None:
        # Each is a task of its own: two together might have more than the limit.
        return [TaskSlices((part,)) for part in slices]
    total = sum(part.size for part in slices)
    # One task for each core and not for each partition: every Python task costs tens of
    # milliseconds, which dominate small batches.
    wanted = max(cores or os.cpu_count() or 1, -(-total // OFFSETS_A_TASK), limits.least_tasks or 0)
    tasks = min(len(slices), wanted)
    slices_by_task: list[list[PartitionSlice]] = [[] for _ in range(tasks)]
    # A heap of the records of each task: a search for the fewest would take hours for MOST_TASKS.
    heap = [(0, task) for task in range(tasks)]
    # The partition breaks ties, so one span always gives the same tasks on one machine.
    for part in sorted(slices, key=lambda part: (-part.size, part)):
        records, smallest = heap[0]
        slices_by_task[smallest].append(part)
        heapq.heapreplace(heap, (records + part.size, smallest))
    return [TaskSlices(tuple(sorted(parts))) for parts in slices_by_task]


def divide(slices: list[PartitionSlice], limits: TaskLimits) -> list[PartitionSlice]:
    """Return the slices in equal parts, none above the limit, and as many as tasks are wanted.

    Where there are too few parts, the slice whose parts are the largest is divided into one more,
    again and again, as long as a part has two offsets (the method of highest averages).
    Raises OptionError if the limit makes more parts than MOST_TASKS.

    Example: slices of 90 and 10 offsets, at least 4 tasks: 30, 30, 30 and 10.
    """
    most = limits.most_offsets
    parts = [1 if most is None else -(-part.size // most) for part in slices]
    if most is not None and sum(parts) > MOST_TASKS:
        from apportion.spark.options.values import OptionError

        raise OptionError(
            f"option maxRecordsPerPartition is {most}, which makes {sum(parts)} tasks of this "
            f"read, and {MOST_TASKS} are the most: raise it, or read less at once "
            "(maxOffsetsPerTrigger for the next batches of a stream, a later beginning or an "
            "earlier end in a batch read)."
        )
    # By the size of its parts; the smallest item of a heap comes first, hence the sign.
    heap = [(-part.size / parts[i], i) for i, part in enumerate(slices) if part.size > parts[i]]
    heapq.heapify(heap)
    for _ in range((limits.least_tasks or 0) - sum(parts)):
        if not heap:
            break
        _, i = heapq.heappop(heap)
        parts[i] += 1
        if slices[i].size > parts[i]:
            heapq.heappush(heap, (-slices[i].size / parts[i], i))
    return [
        PartitionSlice(
            part.partition,
            part.start + part.size * number // count,
            part.start + part.size * (number + 1) // count,
        )
        for part, count in zip(slices, parts, strict=True)
        for number in range(count)
    ]


def read_task(task: TaskSlices, options: ReadingOptions) -> "Iterator[pa.RecordBatch]":
    """Yield the records of the task's slices, in order, by the rule of `RangeReader`.

    Raises DataLoss where records are gone, unless failOnDataLoss is false.
    """
    # Shared by the tasks of a Python worker, which Spark reuses: connections outlive the task.
    with without_traceback(), WORKER_CLUSTERS.using(options.connection) as cluster:
        for part in task.slices:
            yield from _read_slice(cluster, part, options)


def _read_slice(
    cluster: "Cluster", part: PartitionSlice, options: ReadingOptions
) -> "Iterator[pa.RecordBatch]":
    """Fetch one executor's slice of a micro-batch and yield its rows as Arrow batches."""
    from apportion.columns.read import to_arrow

    timeout_ms = max(READ_TIMEOUT_MS, options.connection.request_timeout_ms)
    reader = cluster.range_reader(part.partition, (part.start, part.end), timeout_ms)
    for from_offset, rule in reader.parts(fail_on_data_loss=options.fail_on_data_loss):
        yield from to_arrow(
            cluster.deliver(rule),
            topic=part.partition.topic,
            partition=part.partition.partition,
            from_offset=from_offset,
            before_offset=part.end,
            include_headers=options.include_headers,
        )
