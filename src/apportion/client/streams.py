"""`apportion.StreamsConsumer`: a Python process in a Kafka Streams group.

In a classic group instances of Kafka Streams and Python processes run one application together:
each task is assigned to one of them, whichever leads the group. In a consumer group (KIP-848's
Streams chapter) all instances are of apportion, and so is the broker: Apache Kafka never shipped
client-side assignors. The program that uses this class does the processing: it reads its tasks'
records, writes what the topology says they write (repartition topics too), and keeps their state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Unpack
from uuid import uuid4

from apportion.client.consumer import Consumer
from apportion.client.member_answers import Answers
from apportion.client.options import membership_settings
from apportion.client.streams_membership import StreamsMembership
from apportion.client.streams_options import StreamsOptions, streams_options
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.member.records.streams_consumer import (
    CallTaskListener,
    ReadStreamsMembership,
    ReportTaskOffsetSums,
    StreamsRecordConsumer,
)
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.client_side_machine import (
    ChangeTopology,
    ClientSideStreamsEvent,
    ClientSideStreamsMember,
    WarmUpFailed,
)
from apportion.member.streams.machine import (
    ShutDownApplication,
    StreamsEvent,
    StreamsMember,
    TaskOffsetSums,
)
from apportion.settings import MAX_INT32, MAX_INT64
from apportion.streams.metadata.model import TaskId
from apportion.streams.metadata.releases import known_release
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from apportion.wire.uuids import new_member_id


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
    _membership: StreamsMembership[StreamsEvent]
    _client_side: StreamsMembership[ClientSideStreamsEvent] | None

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
            group_protocol=streams["group_protocol"],
            auto_offset_reset=streams["auto_offset_reset"],
            **consumer_options,
        )

    @property
    def tasks(self) -> TaskShare:
        """The tasks that this process runs: those of which it has adopted every partition."""
        return self._tasks.active_tasks

    def poll_tasks(self, timeout_ms: int = 1_000) -> list[TaskRecord]:
        """Return the next records with their tasks, as `poll` does."""
        records = self.poll(timeout_ms)
        task_of = self._tasks.task_by_partition
        return [
            TaskRecord(task_of[TopicPartition(record.topic, record.partition)], record)
            for record in records
        ]

    def subscribe(self, topics: Iterable[str] | None = (), *, pattern: str | None = None) -> None:
        """Subscribe to the topology's source topics; RuntimeError for any others, or a pattern."""
        names = tuple(topics) if isinstance(topics, Iterable) else ()
        names = (topics,) if isinstance(topics, str) else names
        if names != self.topology.source_topics or pattern is not None:
            raise RuntimeError(
                "a Streams group reads the topics of its topology, "
                f"{', '.join(self.topology.source_topics)}"
            )
        super().subscribe(names)

    def report(self, offset_sums: Mapping[TaskId, int]) -> None:
        """Report the state that this process has of tasks which it does not run (KIP-441).

        In a classic group the next rebalance carries it; in a consumer group the member asks for a
        new assignment when a warm-up has caught up. offset_sums: for each task the sum of its
        changelogs' offsets that the state includes. The assignor prefers the process with the most
        state for a task. Raises ValueError for a task that the topology does not have, and for an
        impossible sum.
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
        self._run(self._tasks.report(offset_sums))

    def report_failed_warm_ups(self, tasks: Iterable[TaskId]) -> None:
        """Report that this process cannot restore these tasks, which it warms up (KIP-848).

        The process is assigned no warm-up of them until it is started anew, or reports state of
        them when they were taken from it. Raises ValueError for a task that the topology does not
        have, RuntimeError in a classic group.
        """
        membership = self._client_side_membership("a failed warm-up")
        # A task is a tuple itself.
        is_list = isinstance(tasks, Iterable) and not isinstance(tasks, TaskId | str)
        if not is_list:
            raise ValueError(
                f"tasks must be a list of those that cannot be restored, not {tasks!r}"
            )
        failed = tuple(tasks)
        for task in failed:
            if not self._has_task(task):
                raise ValueError(f"{task!r} is no task of this topology")
        membership.report(WarmUpFailed(failed))

    def change_topology(self, topology: Topology | Iterable[Mapping[str, Any]]) -> None:
        """Run another topology from now on (KIP-848).

        While instances run different topologies, each goes on with the tasks that it has. The group
        assigns those of the new one as soon as all instances run it. Raises TopologyRefused,
        RuntimeError in a classic group.
        """
        membership = self._client_side_membership("a change of the topology")
        self.topology = topology if isinstance(topology, Topology) else topology_of(topology)
        # The member subscribes with it; the rest of the consumer has to know the topics too.
        membership.report(ChangeTopology(self.topology))
        self.subscribe(self.topology.source_topics)

    def _client_side_membership(self, what: str) -> StreamsMembership[ClientSideStreamsEvent]:
        """Return the membership in a consumer group; refuse `what` in a classic one."""
        if self._client_side is None:
            raise RuntimeError(
                f"the classic protocol has no place for {what}; use group_protocol='consumer'"
            )
        return self._client_side

    def shut_down_application(self) -> None:
        """Ask every instance of the application to shut down (KIP-671).

        The next rebalance carries it; then `poll` raises Refused here, too.
        """
        self._membership.report(ShutDownApplication())

    def _new_membership(
        self, group_id: str, chosen: Mapping[str, Any]
    ) -> StreamsMembership[StreamsEvent]:
        settings, check = membership_settings(chosen), self._check_before_join
        # A Streams group has one assignor, "stream", which is the task assignor.
        del settings["assignors"]
        if settings.pop("protocol") == "classic":
            classic = StreamsMember(self._streams, ClassicSettings(group_id, (), **settings))
            self._client_side = None
            return StreamsMembership(self._cluster, classic, (), before_join=check)
        member_id = new_member_id(uuid4().bytes)
        consumer = ConsumerSettings(group_id, member_id=member_id, **settings)
        member = ClientSideStreamsMember(self._streams, consumer)
        self._client_side = StreamsMembership(self._cluster, member, (), before_join=check)
        return self._client_side

    def _has_task(self, task: object) -> bool:
        # Named topologies are known to the metadata only; a `Topology` here has none.
        if not isinstance(task, TaskId) or task.topology is not None:
            return False
        return task.subtopology in self.topology.subtopologies and 0 <= task.partition <= MAX_INT32

    def _new_rule(self, settings: RecordConsumerSettings) -> StreamsRecordConsumer:
        self._tasks = StreamsRecordConsumer(settings)
        return self._tasks

    def _call_task_listener(self, query: CallTaskListener) -> None:
        if self._on_tasks is not None:
            with self._running("on_tasks"):
                self._on_tasks(query.share)

    _answers: ClassVar[Answers] = {
        **Consumer._answers,
        CallTaskListener: _call_task_listener,
        ReadStreamsMembership: lambda consumer, _query: consumer._membership.snapshot(),
        ReportTaskOffsetSums: lambda consumer, query: consumer._membership.report(
            TaskOffsetSums(query.offset_sums, query.incarnation)
        ),
    }
