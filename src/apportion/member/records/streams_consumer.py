"""The rule of a Kafka Streams member that works in Python: partitions come and go by tasks.

A task reads one partition of each of its topics, and runs only while all of them are owned. Its
state may have to be restored before it counts as running, which the group learns in the
subscription of the next JoinGroup (task offset sums, KIP-441).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from apportion.errors import Refused
from apportion.member.membership import MemberAssignment, View
from apportion.member.queries import MembershipSnapshot
from apportion.member.records.record_consumer import RecordConsumer
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.member.streams.assignor import TaskShare
from apportion.rules import Rule, RuleQuery
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.topics import TopicIdPartition, TopicPartition


@dataclass(frozen=True, slots=True)
class CallTaskListener(RuleQuery):
    """Call the application's `on_tasks` with the tasks that it runs from now on. Answer: None."""

    share: TaskShare


@dataclass(frozen=True, slots=True)
class ReportTaskOffsetSums(RuleQuery):
    """Give the member the task offset sums for its next subscription. Answer: None.

    incarnation: of the membership in which the running tasks were assigned.
    """

    offset_sums: Mapping[TaskId, int]
    incarnation: int


@dataclass(frozen=True, slots=True)
class StreamsSnapshot(MembershipSnapshot):
    """A Kafka Streams member's state, and its tasks as of the same step."""

    tasks: TaskShare


@dataclass(frozen=True, slots=True)
class ReadStreamsMembership(RuleQuery):
    """Read the state of a Kafka Streams member and its tasks. Answer: `StreamsSnapshot`."""


class StreamsRecordConsumer(RecordConsumer):
    """The tasks of one consumer in a Kafka Streams group, beside its partitions.

    active_tasks: the part of the leader's assignment whose partitions are adopted. reported_sums:
    what the application reports of tasks that it does not run.
    """

    def __init__(self, settings: RecordConsumerSettings) -> None:
        super().__init__(settings)
        # As of the last poll: the leader's assignment, the part of it whose partitions are adopted,
        # and the tasks with which `on_tasks` was last called.
        self._assigned_tasks = self.active_tasks = self._listened_tasks = TaskShare()
        self._last_handled = (self._assigned_tasks, self.changes)
        self.task_by_partition: dict[TopicPartition, TaskId] = {}
        # `on_tasks` has returned with these, so their state is restored
        self._running: tuple[TaskId, ...] = ()
        self._revoked_tasks: list[TaskId] = []  # since the last call of `on_tasks`
        self._has_unreported_change = False  # `on_tasks` is yet to be called
        self._reported_sums: dict[TaskId, int] = {}

    def report(self, offset_sums: Mapping[TaskId, int]) -> Rule[None]:
        """Report the state that the application has of tasks which it does not run (KIP-441)."""
        self._reported_sums = dict(offset_sums)
        yield self._offset_sums()

    def refresh_membership(self) -> Rule[StreamsSnapshot]:
        """Read the member's present state, and keep its tasks."""
        self.check_join()
        snapshot: StreamsSnapshot = yield ReadStreamsMembership()
        self._assigned_tasks = snapshot.tasks
        return snapshot

    def resolve_partitions(self, target: MemberAssignment) -> Rule[Sequence[TopicIdPartition]]:
        """Return the partitions of complete tasks among those of a target."""
        return whole_tasks((yield from super().resolve_partitions(target)), self._assigned_tasks)

    def apply_assignment(self) -> Rule[View | None]:
        """Apply the member's target, then call `on_tasks` if tasks came or went."""
        try:
            applied = yield from super().apply_assignment()
        except Refused:
            yield from self._report_tasks()
            raise
        yield from self._report_tasks()
        return applied

    def drop_partitions(self, dropped: Iterable[TopicIdPartition]) -> Rule[None]:
        """Stop the tasks of these partitions, and report that to the group at once.

        Before the revocation is acknowledged: from then on another process may run them.
        """
        partitions = {partition.topic_partition: partition for partition in dropped}
        # First the positions: while the tasks are reported nothing of them may be delivered.
        yield from super().drop_partitions(partitions.values())
        kept = {
            task: task_partitions
            for task, task_partitions in self.active_tasks.active.items()
            if not any(partition in partitions for partition in task_partitions)
        }
        self._revoked_tasks += [task for task in self.active_tasks.active if task not in kept]
        self.active_tasks = replace(self.active_tasks, active=kept)
        self._running = tuple(task for task in self._running if task in kept)
        self._has_unreported_change = True
        yield self._offset_sums()

    def _report_tasks(self) -> Rule[None]:
        """Call `on_tasks` if tasks came or went, then report the running ones to the group.

        The order must not change: the group may count a task as running only when `on_tasks` has
        restored its state. A task that was revoked and came back is left out of a first call and is
        in the second: another instance may have run it meanwhile.
        """
        if (
            not self._has_unreported_change
            and self._assigned_tasks is self._last_handled[0]
            and self.changes == self._last_handled[1]
        ):
            return
        self._last_handled = (self._assigned_tasks, self.changes)
        self._has_unreported_change = True
        self.active_tasks = share = self._complete_tasks()
        self.task_by_partition = {
            partition: task for task, partitions in share.active.items() for partition in partitions
        }
        returned = [
            task
            for task in self._revoked_tasks
            if task in share.active and task in self._listened_tasks.active
        ]
        if returned:
            without = {task: each for task, each in share.active.items() if task not in returned}
            yield from self._call_on_tasks(replace(share, active=without))
        yield from self._call_on_tasks(share)
        self._revoked_tasks = []
        self._running = tuple(share.active)
        self._has_unreported_change = False
        yield self._offset_sums()

    def _complete_tasks(self) -> TaskShare:
        """Return the tasks, assigned or not revoked yet, whose partitions are all owned."""
        owned = {partition.topic_partition: None for partition in self.positions}
        # Assigned tasks last: their partitions replace those of an older assignment.
        active = {
            task: partitions
            for task, partitions in (
                *self.active_tasks.active.items(),
                *self._assigned_tasks.active.items(),
            )
            if all(partition in owned for partition in partitions)
        }
        return replace(self._assigned_tasks, active=active)

    def _call_on_tasks(self, share: TaskShare) -> Rule[None]:
        before = self._listened_tasks
        if (before.active, before.standby, before.warmup) != (
            share.active,
            share.standby,
            share.warmup,
        ):
            yield CallTaskListener(share)
        self._listened_tasks = share

    def _offset_sums(self) -> ReportTaskOffsetSums:
        return ReportTaskOffsetSums(
            self._reported_sums | dict.fromkeys(self._running, RUNNING), self.incarnation
        )


def whole_tasks(
    partitions: Iterable[TopicIdPartition], share: TaskShare
) -> tuple[TopicIdPartition, ...]:
    """Return those partitions whose active task is complete among `partitions`.

    A task may also read a topic whose metadata this process has not seen yet: the task has to wait.
    """
    known = {partition.topic_partition: partition for partition in partitions}
    complete = (task for task in share.active.values() if all(name in known for name in task))
    return tuple(known[name] for task in complete for name in task)
