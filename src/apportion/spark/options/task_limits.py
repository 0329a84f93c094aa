"""The options that limit how the tasks of a batch are cut, as values."""

from typing import NamedTuple

# Of a batch: Spark takes many more, but the process that heartbeats makes them, for seconds, and
# keeps some hundred bytes of each.
MOST_TASKS = 100_000


class TaskLimits(NamedTuple):
    """The fewest tasks (minPartitions), and the most offsets of one (maxRecordsPerPartition).

    None: no limit.
    """

    least_tasks: int | None = None
    most_offsets: int | None = None


NO_LIMITS = TaskLimits()
