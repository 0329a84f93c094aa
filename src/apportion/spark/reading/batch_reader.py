"""`spark.read.format("apportion")`: topics read from a beginning to an end, without a membership.

The offset ranges are chosen when Spark first plans a job of what was loaded. Spark keeps its tasks:
each further action on the same `load()` reads the same ranges. Spark 4.0 keeps none, and plans each
action anew.
"""

import logging
from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceReader, InputPartition

from apportion.client import cluster_answers
from apportion.client.cluster_answers import ClusterAnswers
from apportion.drive.notes import log_note
from apportion.errors import Refused, Unanswerable
from apportion.machine import Note
from apportion.member.batch.bounded_read import ReadRefused, read_ranges
from apportion.member.batch.retry_limits import remedy
from apportion.rules import run_rule
from apportion.spark.connections.clusters import cluster_of, refuse_unknown_hosts
from apportion.spark.monitoring.log_lines import log_like_spark
from apportion.spark.options.batch_read import BatchOptions
from apportion.spark.processes.plain_errors import without_traceback
from apportion.spark.reading.slices import ReadingOptions, TaskReader, TaskSlices, split_into_tasks

log = logging.getLogger("apportion.spark")


class BatchReader(TaskReader, DataSourceReader):
    """Spark's reader of one batch read: chooses the offset ranges, and reads their tasks."""

    def __init__(self, options: BatchOptions) -> None:
        super().__init__(ReadingOptions.of(options))
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks of the read, with offset ranges that are chosen now."""
        log_like_spark()
        with without_traceback():
            # For no tasks Spark makes one with a partition of its own.
            return self._planned_tasks() or [TaskSlices(())]

    def _planned_tasks(self) -> Sequence[InputPartition]:
        options = self._options
        refuse_unknown_hosts(options)
        cluster = cluster_of(options)
        try:
            span = run_rule(
                read_ranges(options.read),
                lambda query: ANSWERS[type(query)](cluster, options.group or "", query),
            )
        except (Refused, Unanswerable) as error:
            raise ReadRefused(
                f"the topics at {options.bootstrap} cannot be read: {error}{remedy(error)}"
            ) from None
        finally:
            cluster.close()
        return split_into_tasks(span, options.task_limits)


ANSWERS: ClusterAnswers = {
    **cluster_answers.ANSWERS,
    Note: lambda _cluster, group, note: log_note(log, note, group),
}
