"""`apportion.StreamsConsumer`: a Python process in a Kafka Streams group.

Instances of Kafka Streams and Python processes run one application together: whoever leads, each
task is assigned to one of them. Processing is the owner's: it reads its tasks' records, writes what
the topology says they write (repartition topics too), and keeps their state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack
from uuid import uuid4

from apportion.client.consumer import Consumer
from apportion.client.fetcher import ConsumerRecord
from apportion.client.streams_options import StreamsOptions, streams_options
from apportion.errors import Refused
from apportion.member.membership import Assignment, ShutDownApplication, TaskOffsetSums, View
from apportion.member.streams.assignor import StreamsSettings, TaskShare
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
    """A member of a Kafka Streams group that reads the records of its tasks. For one thread at a
    time.

    application_id: the group; internal topics carry it in front of their names. topology: what all
    instances run, as `Topology`, or as `topology_of` takes it. Options are those of `Consumer` and
    of STREAMS; `upgrade_from` is Kafka Streams' upgrade.from, and `release` which of its releases
    this process speaks like, to try an upgrade out ("future": one that does not exist yet).
    on_tasks: called inside poll with a `TaskShare` when tasks came or went, after `on_revoked` or
    `on_lost` with the partitions of those that went. If it raises, so does poll, and the next poll
    calls it again. It is part of the poll, so what it restores has to be restored within
    `max_poll_interval_ms`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        application_id: str,
        *,
        topology: Topology | Iterable[Mapping[str, Any]],
        **options: Unpack[StreamsOptions],
    ) -> None:
        """The process joins its group at once. TopologyRefused or ValueError says what is wrong."""
        self.topology = topology if isinstance(topology, Topology) else topology_of(topology)
        streams, others = streams_options(options)
        self._on_tasks: Callable[[TaskShare], object] | None = streams["on_tasks"]
        self._assigned_tasks = self._active_tasks = self._reported_tasks = (
            TaskShare()
        )  # as of the last look; as far as taken up; as the owner heard last
        self._last_handled: tuple[TaskShare, Assignment] = (self._assigned_tasks, ())
        self._task_by_partition: dict[TopicPartition, TaskId] = {}
        # those that the owner has heard of, and so has restored
        self._running: tuple[TaskId, ...] = ()
        self._revoked_tasks: list[TaskId] = []  # since the owner heard last
        self._has_unreported_change = False  # there is something that the owner has not heard
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
        defaults = {"group_protocol": "classic", "auto_offset_reset": "earliest"}
        super().__init__(
            bootstrap_servers,
            application_id,
            topics=self.topology.source_topics,
            **(defaults | others),
        )

    @property
    def tasks(self) -> TaskShare:
        """The tasks that this process runs as of the last poll: those of which it has adopted every
        partition.
        """
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
        """RuntimeError for any topics but those of the topology, from which follows what is
        read.
        """
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if names != self.topology.source_topics:
            raise RuntimeError(
                "a Streams group reads the topics of its topology, "
                f"{', '.join(self.topology.source_topics)}"
            )
        super().subscribe(names)

    def report(self, offset_sums: Mapping[TaskId, int]) -> None:
        """Report the state that this process has of tasks which it does not run.

        The next rebalance carries it.

        offset_sums: for each task the sum of its changelogs' offsets up to which the state goes.
        The process with most of it is the best to take the task over. Raises ValueError for a task
        that the topology does not have, and for a value that is no sum of offsets.
        """
        if not isinstance(offset_sums, Mapping):
            raise ValueError(
                f"offset_sums must map tasks to sums of offsets, not be {offset_sums!r}"
            )
        for task, offset_sum in offset_sums.items():
            if not self._has_task(task):
                raise ValueError(f"{task!r} is no task of this topology")
            if type(offset_sum) is not int or not 0 <= offset_sum < 2**63:
                raise ValueError(f"of task {task}: {offset_sum!r} is no sum of offsets")
        self._reported_sums = dict(offset_sums)
        self._send_offset_sums()

    def shut_down_application(self) -> None:
        """Ask every instance of the application to shut down (KIP-671).

        Here a later poll raises Refused.
        """
        self._membership.report(ShutDownApplication())

    def _membership_settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        settings = super()._membership_settings(chosen)
        # A Streams group has one protocol, "stream", and its assignor is the task assignor.
        del settings["assignors"]
        return settings | {"protocol": "streams", "streams": self._streams}

    def _topics_to_watch(self, names: Sequence[str]) -> Sequence[str]:
        # Without a source topic the group's leader ends the application with an error of its own.
        return ()

    def _has_task(self, task: object) -> bool:
        if not isinstance(task, TaskId) or task.topology is not None:
            return False
        return task.subtopology in self.topology.subtopologies and 0 <= task.partition < 2**31

    def _read_membership(self) -> View:
        view, self._assigned_tasks = self._membership.snapshot()
        return view

    def _resolve_partitions(self, target: Assignment) -> Sequence[TopicIdPartition]:
        return whole_tasks(super()._resolve_partitions(target), self._assigned_tasks)

    def _apply_assignment(self) -> None:
        try:
            super()._apply_assignment()
        except Refused:
            self._report_tasks()
            raise
        self._report_tasks()

    def _drop_partitions(self, gone: Iterable[TopicIdPartition]) -> None:
        """The group does not hear any more that this process runs what it has let go of; before it
        may give that to others.
        """
        super()._drop_partitions(gone)
        lost = {place.topic_partition: None for place in gone}
        kept = {
            task: places
            for task, places in self._active_tasks.active.items()
            if not any(place in lost for place in places)
        }
        self._revoked_tasks += [task for task in self._active_tasks.active if task not in kept]
        self._active_tasks = replace(self._active_tasks, active=kept)
        self._running = tuple(task for task in self._running if task in kept)
        self._has_unreported_change = True
        self._send_offset_sums()

    def _report_tasks(self) -> None:
        """Call `on_tasks` with the owner's tasks; only then may the group hear that it runs them.

        A task that was revoked and came back is reported as revoked first: another instance may
        have run it meanwhile.
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
        back = [
            task
            for task in self._revoked_tasks
            if task in share.active and task in self._reported_tasks.active
        ]
        if back:
            without = {task: places for task, places in share.active.items() if task not in back}
            self._call_on_tasks(replace(share, active=without))
        self._call_on_tasks(share)
        self._revoked_tasks, self._running, self._has_unreported_change = (
            [],
            tuple(share.active),
            False,
        )
        self._send_offset_sums()

    def _complete_tasks(self) -> TaskShare:
        """Return the assigned tasks of which every partition is adopted, and those not revoked
        yet.
        """
        owned, given = dict.fromkeys(self.assignment), self._assigned_tasks
        whole = {
            task: places
            for task, places in given.active.items()
            if all(place in owned for place in places)
        }
        kept = {
            task: places
            for task, places in self._active_tasks.active.items()
            if all(place in owned for place in places)
        }
        active = kept | whole
        self._task_by_partition = {
            place: task for task, places in active.items() for place in places
        }
        return replace(given, active=active)

    def _call_on_tasks(self, share: TaskShare) -> None:
        before = self._reported_tasks
        if self._on_tasks is not None and (before.active, before.standby) != (
            share.active,
            share.standby,
        ):
            self._on_tasks(share)
        self._reported_tasks = share

    def _send_offset_sums(self) -> None:
        self._membership.report(
            TaskOffsetSums(
                self._reported_sums | dict.fromkeys(self._running, RUNNING), self._incarnation
            )
        )


def whole_tasks(
    places: Iterable[TopicIdPartition], given: TaskShare
) -> tuple[TopicIdPartition, ...]:
    """Return the partitions of tasks that are complete among `places`.

    A task that also reads a topic which has not been seen yet has to wait for it.
    """
    seen = {place.topic_partition: place for place in places}
    whole = (task for task in given.active.values() if all(name in seen for name in task))
    return tuple(seen[name] for task in whole for name in task)
