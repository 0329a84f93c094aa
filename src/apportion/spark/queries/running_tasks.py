"""The tasks of a Spark job that has failed: the driver waits until none of them runs any more.

An action raises as soon as one task of it has failed for good. Spark then kills the other tasks,
and does not wait for them: they may still write. A job is found by a tag of Spark, which the
thread of the action has while the action runs. Spark Connect shows no jobs, so there nothing is
waited for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from pyspark.sql import DataFrame

from apportion.spark.queries.frame_sources import is_classic

KILL_TIMEOUT_S = 5.0  # Spark ends a Python worker 2 s after its task was killed
POLL_INTERVAL_S = 0.02


@contextmanager
def tagged(frame: DataFrame, tag: str) -> Iterator[None]:
    """Give the Spark jobs of the frame's actions this tag while the block runs."""
    if not is_classic(frame):
        yield
        return
    context = frame.sparkSession.sparkContext
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)


def await_tasks(frame: DataFrame, tag: str) -> None:
    """Wait until no task of the jobs with this tag runs, for `KILL_TIMEOUT_S` at the longest."""
    if not is_classic(frame):
        return
    deadline_s = monotonic() + KILL_TIMEOUT_S
    # Nothing of Spark's waits for the tasks of a job that has ended.
    while _running_tasks(frame.sparkSession.sparkContext, tag) and monotonic() < deadline_s:
        sleep(POLL_INTERVAL_S)


def _running_tasks(context: Any, tag: str) -> int:
    """Return how many tasks of the jobs with this tag are running."""
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    stages = (tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds)
    return sum(stage.numActiveTasks for stage in stages if stage)
