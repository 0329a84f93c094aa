"""`apportion.StreamsConsumer`: a Python process in a Kafka Streams group.

Instances of Kafka Streams and Python processes run one application together: each task is assigned
to one of them, whichever leads the group. The program that uses this class does the processing: it
reads its tasks' records, writes what the topology says they write (repartition topics too), and
keeps their state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack
from uuid import uuid4

from apportion.client.consumer import Consumer
from apportion.client.fetcher import ConsumerRecord
from apportion.client.streams_options import StreamsOptions, streams_options
from apportion.errors import Refused
from apportion.member.membership import MemberAssignment, ShutDownApplication, TaskOffsetSums, View
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.settings import MAX_INT32, MAX_INT64
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.metadata.releases import known_release
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicIdPartition, TopicPartition


class TaskRecord(NamedTuple):
    """A record, and the task that it belongs to."""

    task: TaskId
    record: ConsumerRecord


class StreamsConsumer(Consumer):
    """A member of a Kafka Streams group that reads the records of its tasks.

    For one thread at a time. application_id: the group; internal topics carry it in front of their
    names. topology: what all instances run, as `Topology`, or as `topology_of` takes it. Options:
    `StreamsOptions` declares them; `release` is the release of Kafka Streams whose metadata version
    this process speaks, to try an upgrade out ("future": one that does not exist yet).
    on_tasks: called inside poll with a `TaskShare` when tasks came or went, after `on_revoked` or
    `on_lost` with the partitions of those that went. If it raises, so does poll, and the next poll
    calls it again. It is part of the poll, so what it restores has to be restored within
    `max_poll_interval_ms`.
    """

    # Without a source topic the group's leader ends the application with an error of its own.
    _warns_of_missing_topics = False

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        application_id: str,
        *,
        topology: Topology | Iterable[Mapping[str, Any]],
        **options: Unpack[StreamsOptions],
    ) -> None:
        """Join the group at once. Raises TopologyRefused, or ValueError for a wrong option."""
        self.topology = topology if isinstance(topology, Topology) else topology_of(topology)
        streams, consumer_options = streams_options(options)
        self._on_tasks: Callable[[TaskShare], object] | None = streams["on_tasks"]
        # As of the last poll: the leader's assignment, the part of it whose partitions are adopted,
        # and the tasks with which `on_tasks` was last called.
        self._assigned_tasks = self._active_tasks = self._reported_tasks = TaskShare()
        self._last_handled: tuple[TaskShare, MemberAssignment] = (self._assigned_tasks, ())
        self._task_by_partition: dict[TopicPartition, TaskId] = {}
        # `on_tasks` has returned with these, so their state is restored
        self._running: tuple[TaskId, ...] = ()
        self._revoked_tasks: list[TaskId] = []  # since the last call of `on_tasks`
        self._has_unreported_change = False  # `on_tasks` is yet to be called
        self._reported_sums: dict[TaskId, int] = {}
        self._streams = StreamsSettings(
            topology=self.topology,
            process_id=uuid4().bytes if streams["process_id"] is None else streams["process_id"],
            endpoint=streams["application_server"],
            tags=streams["client_tags"],
            upgrade_from=streams["upgrade_from"],
            release=known_release(streams["release"]),
            assignor=streams["task_assignor"],
            policy=AssignmentConfigs(
                num_standby_replicas=streams["num_standby_replicas"],
                acceptable_recovery_lag=streams["acceptable_recovery_lag"],
                max_warmup_replicas=streams["max_warmup_replicas"],
                rack_aware_tags=tuple(streams["rack_aware_assignment_tags"]),
            ),
            probing_interval_ms=streams["probing_rebalance_interval_ms"],
        )
        super().__init__(
            bootstrap_servers,
            application_id,
            topics=self.topology.source_topics,
            group_protocol="classic",
            auto_offset_reset=streams["auto_offset_reset"],
            **consumer_options,
        )

    @property
    def tasks(self) -> TaskShare:
        """The tasks that this process runs: those of which it has adopted every partition."""
        return self._active_tasks

    def poll_tasks(self, timeout_ms: int = 1_000) -> list[TaskRecord]:
        """Return the next records with their tasks, as `poll` does."""
        return [
            TaskRecord(
                self._task_by_partition[TopicPartition(record.topic, record.partition)], record
            )
            for record in self.poll(timeout_ms)
        ]

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to the topology's source topics; RuntimeError for any others."""
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if names != self.topology.source_topics:
            raise RuntimeError(
                "a Streams group reads the topics of its topology, "
                f"{', '.join(self.topology.source_topics)}"
            )
        super().subscribe(names)

    def report(self, offset_sums: Mapping[TaskId, int]) -> None:
        """Report the state that this process has of tasks which it does not run (KIP-441).

        The next rebalance carries it. offset_sums: for each task the sum of its changelogs' offsets
        that the state includes. The assignor prefers the process with the most state for a task.
        Raises ValueError for a task that the topology does not have, and for an impossible sum.
        """
        if not isinstance(offset_sums, Mapping):
            raise ValueError(
                f"offset_sums must map tasks to sums of offsets, not be {offset_sums!r}"
            )
        for task, offset_sum in offset_sums.items():
            if not self._has_task(task):
                raise ValueError(f"{task!r} is no task of this topology")
            if type(offset_sum) is not int or not 0 <= offset_sum <= MAX_INT64:
                raise ValueError(f"of task {task}: {offset_sum!r} is no sum of offsets")
        self._reported_sums = dict(offset_sums)
        self._send_offset_sums()

    def shut_down_application(self) -> None:
        """Ask every instance of the application to shut down (KIP-671).

        The next rebalance carries it; then `poll` raises Refused here, too.
        """
        self._membership.report(ShutDownApplication())

    def _membership_settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        settings = super()._membership_settings(chosen)
        # A Streams group has one protocol, "stream", and its assignor is the task assignor.
        del settings["assignors"]
        return settings | {"protocol": "streams", "streams": self._streams}

    def _has_task(self, task: object) -> bool:
        # Named topologies are known to the metadata only; a `Topology` here has none.
        if not isinstance(task, TaskId) or task.topology is not None:
            return False
        return task.subtopology in self.topology.subtopologies and 0 <= task.partition <= MAX_INT32

    def _read_membership(self) -> View:
        view, self._assigned_tasks = self._membership.snapshot()
        return view

    def _resolve_partitions(self, target: MemberAssignment) -> Sequence[TopicIdPartition]:
        return whole_tasks(super()._resolve_partitions(target), self._assigned_tasks)

    def _apply_assignment(self) -> None:
        try:
            super()._apply_assignment()
        except Refused:
            self._report_tasks()
            raise
        self._report_tasks()

    def _drop_partitions(self, dropped: Iterable[TopicIdPartition]) -> None:
        """Stop the tasks of these partitions, and report that to the group at once.

        Before the revocation is acknowledged: from then on another process may run them.
        """
        partitions = {partition.topic_partition: partition for partition in dropped}
        # First the positions: while the tasks are reported nothing of them may be delivered.
        super()._drop_partitions(partitions.values())
        kept = {
            task: task_partitions
            for task, task_partitions in self._active_tasks.active.items()
            if not any(partition in partitions for partition in task_partitions)
        }
        self._revoked_tasks += [task for task in self._active_tasks.active if task not in kept]
        self._active_tasks = replace(self._active_tasks, active=kept)
        self._running = tuple(task for task in self._running if task in kept)
        self._has_unreported_change = True
        self._send_offset_sums()

    def _report_tasks(self) -> None:
        """Call `on_tasks` if tasks came or went, then report the running ones to the group.

        The order must not change: the group may count a task as running only when `on_tasks` has
        restored its state. A task that was revoked and came back is left out of a first call and is
        in the second: another instance may have run it meanwhile.
        """
        if (
            not self._has_unreported_change
            and self._assigned_tasks is self._last_handled[0]
            and self._adopted is self._last_handled[1]
        ):
            return
        self._last_handled, self._has_unreported_change = (
            (self._assigned_tasks, self._adopted),
            True,
        )
        self._active_tasks = share = self._complete_tasks()
        returned = [
            task
            for task in self._revoked_tasks
            if task in share.active and task in self._reported_tasks.active
        ]
        if returned:
            without = {task: each for task, each in share.active.items() if task not in returned}
            self._call_on_tasks(replace(share, active=without))
        self._call_on_tasks(share)
        self._revoked_tasks, self._running, self._has_unreported_change = (
            [],
            tuple(share.active),
            False,
        )
        self._send_offset_sums()

    def _complete_tasks(self) -> TaskShare:
        """Return the tasks, assigned or not revoked yet, whose partitions are all owned."""
        owned = dict.fromkeys(self.assignment)
        # Assigned tasks last: their partitions replace those of an older assignment.
        active = {
            task: partitions
            for task, partitions in (
                *self._active_tasks.active.items(),
                *self._assigned_tasks.active.items(),
            )
            if all(partition in owned for partition in partitions)
        }
        self._task_by_partition = {
            partition: task for task, partitions in active.items() for partition in partitions
        }
        return replace(self._assigned_tasks, active=active)

    def _call_on_tasks(self, share: TaskShare) -> None:
        """Call the application's `on_tasks` if the active or standby tasks have changed."""
        before = self._reported_tasks
        if self._on_tasks is not None and (before.active, before.standby) != (
            share.active,
            share.standby,
        ):
            self._on_tasks(share)
        self._reported_tasks = share

    def _send_offset_sums(self) -> None:
        """Report the offset sums of the tasks to the assignor, for the next JoinGroup.

        A running task has the sum RUNNING (-2): it is not behind.
        """
        self._membership.report(
            TaskOffsetSums(
                self._reported_sums | dict.fromkeys(self._running, RUNNING), self._incarnation
            )
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
