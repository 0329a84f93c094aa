"""The lags of a Streams member's copies of state, and when it tells the group of them (KIP-848).

The application reports offset sums of tasks that it does not run (`TaskOffsetSums`); with the end
offsets of their changelogs they become lags, which the Streams chapter of KIP-848 has in a member's
metadata. There new lags need a reason, and each reason costs the group a new assignment. So the
group hears of them when they may change it, and no more often:
- WARM_UP_READY when a warm-up's lag is acceptable, so that the task may move; and again when the
  task has not moved, and the lag has halved or `probing.rebalance.interval.ms` has passed since.
- WARM_UP_READY when the lags of all standby tasks of the member are acceptable, for the first time:
  if an instance fails, its tasks go to instances that are known to have their state.
- WARM_UP_FAILED when the application says that it cannot restore a task.
"""

from collections.abc import Iterable, Mapping

from apportion.member.streams.assignor import TaskShare
from apportion.streams.metadata.kip848 import RESTORE_FAILED
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.topology import Subtopology, Topology
from apportion.topics import TopicPartition

Changelogs = Mapping[TaskId, tuple[TopicPartition, ...]]


class TaskLags:
    """The lags of one member's copies: its standby tasks and its warm-ups."""

    def __init__(self, acceptable_lag: int) -> None:
        """Begin without state. acceptable_lag: `acceptable.recovery.lag`."""
        self._acceptable_lag = acceptable_lag
        self._sums: dict[TaskId, int] = {}  # as the application reports them
        self._lags: dict[TaskId, int] = {}
        self._failed: dict[TaskId, None] = {}
        self._told: dict[TaskId, int] = {}  # the lags with which copies were said to be ready
        self._asked: Mapping[TaskId, int] = {}  # the sums for which ends were asked last

    def report(self, offset_sums: Mapping[TaskId, int], share: TaskShare) -> bool:
        """Take the offset sums of the process's state, by task; RUNNING for tasks that run.

        Return whether a task that could not be restored can be again: the application has state of
        it, although it is no copy here.
        """
        self._sums = {task: total for task, total in offset_sums.items() if total != RUNNING}
        copies = copies_of(share)
        failed = {task: None for task in self._failed if task not in self._sums or task in copies}
        is_news = len(failed) < len(self._failed)
        self._failed = failed
        return is_news

    def report_failed(self, tasks: Iterable[TaskId]) -> bool:
        """Note that the application cannot restore these tasks; return whether that is news."""
        news = [task for task in tasks if task not in self._failed]
        for task in news:
            self._failed[task] = None
            self._lags.pop(task, None)
        return bool(news)

    def take_assignment(self, share: TaskShare) -> None:
        """Forget what was said of tasks that are no copies of this member any more."""
        copies = copies_of(share)
        self._told, self._lags, self._asked = (
            {task: value for task, value in values.items() if task in copies}
            for values in (self._told, self._lags, self._asked)
        )

    def has_ready_warm_up(self, share: TaskShare) -> bool:
        """Return whether a warm-up was said to be ready, and its task has not moved."""
        return any(task in self._told for task in share.warmup)

    def in_metadata(self, share: TaskShare) -> dict[TaskId, int]:
        """Return the lags for the member's metadata: 0 of a task that it runs."""
        return (
            self._lags
            | dict.fromkeys(share.active, 0)
            | dict.fromkeys(self._failed, RESTORE_FAILED)
        )

    def changelogs_to_ask(self, topology: Topology, share: TaskShare) -> Changelogs:
        """Return the changelogs of copies whose reported state has changed since the last time."""
        copies = copies_of(share)
        changelogs = {
            task: partitions
            for task in self._sums
            if task in copies
            and task not in self._failed
            and (partitions := _changelogs_of(topology, task, copies[task]))
        }
        sums = {task: self._sums[task] for task in changelogs}
        return {} if sums == self._asked else changelogs

    def begin_asking(self, changelogs: Changelogs) -> None:
        """Note that the ends of these changelogs are asked for."""
        self._asked = {task: self._sums[task] for task in changelogs}

    def ask_again(self) -> None:
        """Note that the ends are not known: the cluster has not answered."""
        self._asked = {}

    def apply_ends(
        self, changelogs: Changelogs, ends: Mapping[TopicPartition, int], share: TaskShare
    ) -> bool:
        """Compute the lags; return whether the group has to hear that copies are ready."""
        copies = copies_of(share)
        for task, partitions in changelogs.items():
            if task in copies and task in self._asked and task not in self._failed:
                end = sum(ends.get(partition, 0) for partition in partitions)
                # As in Kafka: state beyond the end is of another changelog, so it is worth nothing.
                total = self._asked[task]
                self._lags[task] = end - total if total <= end else end
        return self.take_ready(share)

    def take_ready(self, share: TaskShare) -> bool:
        """Return whether the group has to hear that copies of these are ready, by the known lags.

        After an assignment, too: a standby task that is complete may have become a warm-up.
        """
        copies = copies_of(share)
        ready = {
            task: lag
            for task, lag in self._lags.items()
            if task in copies and lag <= self._acceptable_lag
        }
        is_news = any(
            task in share.warmup and self._is_news(task, lag) for task, lag in ready.items()
        )
        is_news |= all(task in ready for task in share.standby) and any(
            task not in self._told for task in share.standby
        )
        if is_news:
            self._told |= ready
        return is_news

    def _is_news(self, task: TaskId, lag: int) -> bool:
        """Return whether a ready warm-up was not said to be ready, or was twice as far behind."""
        told = self._told.get(task)
        return told is None or (lag < told and lag <= told // 2)


def copies_of(share: TaskShare) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Return the standby tasks and the warm-ups of a member, with their source partitions."""
    return {**share.standby, **share.warmup}


def _changelogs_of(
    topology: Topology, task: TaskId, sources: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Return the changelog partitions of a Streams task.

    A source topic that serves as a changelog may have fewer partitions than there are tasks.
    """
    part = topology.subtopologies.get(task.subtopology, Subtopology())
    read = dict.fromkeys(sources)
    partitions = [TopicPartition(topic.name, task.partition) for topic in part.changelogs]
    return tuple(
        each for each in partitions if each.topic not in part.source_topics or each in read
    )
