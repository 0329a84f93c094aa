"""Describes a Streams group from the bytes that DescribeGroups returns, for operators.

The description has the processes of the group with their consumers, tasks and metadata versions. It
knows only the last subscription and assignment of each member, as brokers show no more. Members
whose bytes cannot be decoded, or come from a newer Kafka Streams, are included with what is
readable. `upgrade_blockers.py` says which processes delay an upgrade.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from apportion.errors import DecodeError
from apportion.streams.metadata.codec import decode_assignment, decode_subscription
from apportion.streams.metadata.model import (
    RUNNING,
    AssignmentInfo,
    FutureInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.streams.metadata.probing import MetadataVersions
from apportion.topics import TopicPartition
from apportion.wire.codec import Buffer
from apportion.wire.messages.describe_groups import DescribedGroupMember
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from apportion.wire.records.consumer_serde import decode

V = TypeVar("V")

SCHEDULE_SINCE = 7
"""The first metadata version whose assignments have the time of the next rebalance (KIP-441)."""


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    """One member with its decoded metadata.

    subscription, assignment: None where the bytes cannot be decoded; `decode_errors` says why.
    active: its active tasks with the partitions that they read; without partitions where the
    assignment does not match its list of partitions.
    """

    description: DescribedGroupMember
    subscription: SubscriptionInfo | FutureInfo | None
    assignment: AssignmentInfo | FutureInfo | None
    active: Mapping[TaskId, tuple[TopicPartition, ...]]
    decode_errors: tuple[str, ...] = ()

    @property
    def versions(self) -> MetadataVersions | None:
        """The two metadata version numbers of the described consumer's Streams subscription."""
        return (
            None
            if self.subscription is None
            else MetadataVersions(self.subscription.used, self.subscription.supported)
        )

    @property
    def place(self) -> str:
        """The endpoint of the described consumer's process, or its host if it says none."""
        if isinstance(self.subscription, SubscriptionInfo) and self.subscription.endpoint:
            return self.subscription.endpoint
        return self.description.client_host.removeprefix("/")


@dataclass(frozen=True, slots=True)
class DescribedProcess:
    """One process and its consumers.

    process_id: 16 bytes; None for a consumer whose subscription does not show it. standby: its
    standby tasks and warm-ups, which the metadata does not tell apart, with their source
    partitions. offset_sums: the state that it reported when it last joined: an offset sum for each
    task, RUNNING or OFFSET_UNKNOWN.
    """

    process_id: bytes | None
    consumers: tuple[DescribedConsumer, ...]
    active: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    standby: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    endpoint: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The process id as Kafka Streams logs it, or the member id where it is unknown."""
        return (
            self.consumers[0].description.member_id
            if self.process_id is None
            else _uuid_text(self.process_id)
        )

    @property
    def label(self) -> str:
        """The name and the endpoint, or the host without an endpoint."""
        host = self.consumers[0].description.client_host.removeprefix("/")
        return f"{self.name} ({self.endpoint or host})"

    @property
    def places(self) -> tuple[str, ...]:
        """The endpoints of its consumers, or the hosts where they say none, each once and in order.

        Kafka Streams keeps the id in a file of the state directory (KAFKA-10716): with more than
        one place the directory was copied, and the leader takes several processes for one.
        """
        return tuple(sorted(dict.fromkeys(each.place for each in self.consumers)))

    @property
    def versions(self) -> MetadataVersions | None:
        """The version numbers of the consumer that supports the least; None if none can be read."""
        readable = [
            consumer.versions for consumer in self.consumers if consumer.versions is not None
        ]
        return min(
            readable, key=lambda versions: (versions.understood, versions.used), default=None
        )


class StandbyKind(Enum):
    """The kind of all copies of a group that are not active.

    Assignments list warm-ups (KIP-441) as standby tasks.
    """

    STANDBY = "standby"
    WARMUP = "warm-up"
    EITHER = "standby or warm-up"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in its current generation.

    processes: by id, then the consumers without one. standby_kind: of all tasks in
    `DescribedProcess.standby`. unowned: tasks that a member ran when it joined and that no member
    was assigned, as far as can be decoded. next_rebalance_ms: the earliest wall-clock time at which
    a member rejoins without another reason, 0: at once; None: no member does.
    """

    processes: tuple[DescribedProcess, ...]
    standby_kind: StandbyKind = StandbyKind.STANDBY
    unowned: tuple[TaskId, ...] = ()
    next_rebalance_ms: int | None = None

    @property
    def consumers(self) -> tuple[DescribedConsumer, ...]:
        """All consumers, by process."""
        return tuple(consumer for process in self.processes for consumer in process.consumers)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions that active tasks read, in order."""
        active = (
            partitions for process in self.processes for partitions in process.active.values()
        )
        return tuple(
            sorted(dict.fromkeys(partition for partitions in active for partition in partitions))
        )


def describe_group(members: Iterable[DescribedGroupMember]) -> GroupDescription:
    """Describe the group of these members, for `apportion streams describe`."""
    consumers = [_consumer(member) for member in _by_id(members)]
    processes: dict[bytes, list[DescribedConsumer]] = {}
    for consumer in consumers:
        if isinstance(consumer.subscription, SubscriptionInfo):
            processes.setdefault(bytes(consumer.subscription.process_id), []).append(consumer)
    with_id = [
        _process(process_id, tuple(processes[process_id])) for process_id in sorted(processes)
    ]
    without_id = [
        _process(None, (consumer,))
        for consumer in consumers
        if not isinstance(consumer.subscription, SubscriptionInfo)
    ]
    times = [
        consumer.assignment.next_rebalance_ms
        for consumer in consumers
        if isinstance(consumer.assignment, AssignmentInfo)
    ]
    # One member that rejoins starts a rebalance of the whole group.
    next_ms = min((time for time in times if time is not None), default=None)
    description = GroupDescription((*with_id, *without_id), next_rebalance_ms=next_ms)
    return replace(
        description, standby_kind=_standby_kind(description), unowned=_unowned(description)
    )


def describe_without_metadata(members: Iterable[DescribedGroupMember]) -> GroupDescription:
    """Describe the members of a group that rebalances, each as a process of its own.

    Brokers show no metadata until the group is stable.
    """
    consumers = [DescribedConsumer(member, None, None, {}) for member in _by_id(members)]
    return GroupDescription(
        tuple(_process(None, (consumer,)) for consumer in consumers), StandbyKind.EITHER
    )


def _by_id(members: Iterable[DescribedGroupMember]) -> list[DescribedGroupMember]:
    return sorted(members, key=lambda member: member.member_id)


def _consumer(member: DescribedGroupMember) -> DescribedConsumer:
    """Describe one member of a Streams group: decode its metadata as far as possible."""
    errors: list[str] = []

    def decode_or_none(part: str, decode: Callable[[Buffer], V], blob: Buffer) -> V | None:
        """Decode a part of the member's metadata; note an error and return None if it fails."""
        try:
            return decode(blob)
        except DecodeError as error:
            errors.append(f"its {part} cannot be read: {error}")
            return None

    subscription = decode_or_none("subscription", _decode_subscription, member.member_metadata)
    decoded = decode_or_none("assignment", _decode_assignment, member.member_assignment)
    partitions, info = decoded or ((), None)
    active: Mapping[TaskId, tuple[TopicPartition, ...]] = {}
    if isinstance(info, AssignmentInfo):
        active = _partitions_by_task(info.active, partitions)
        if len(info.active) != len(partitions):
            errors.append(
                f"its assignment names the tasks of {len(info.active)} partitions and "
                f"gives {len(partitions)}"
            )
    return DescribedConsumer(member, subscription, info, active, tuple(errors))


def _decode_subscription(blob: Buffer) -> SubscriptionInfo | FutureInfo:
    """Decode a member's subscription as DescribeGroups shows it, down to its Streams metadata."""
    _, subscription = decode(ConsumerProtocolSubscription, blob)
    return decode_subscription(subscription.user_data or b"")


def _decode_assignment(
    blob: Buffer,
) -> tuple[tuple[TopicPartition, ...], AssignmentInfo | FutureInfo]:
    """Decode a member's assignment as DescribeGroups shows it: partitions and Streams metadata."""
    _, assignment = decode(ConsumerProtocolAssignment, blob)
    partitions = sorted(
        TopicPartition(topic.topic, number)
        for topic in assignment.assigned_partitions
        for number in topic.partitions
    )
    return tuple(partitions), decode_assignment(assignment.user_data or b"")


def _partitions_by_task(
    tasks: tuple[TaskId, ...], partitions: tuple[TopicPartition, ...]
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Return a described Streams member's active tasks, each with the partitions that it reads.

    AssignmentInfo lists one task for each assigned partition, in the order of the partitions: task
    i reads partition i, and a task of several partitions is listed several times. If the lists
    differ in length, they cannot be matched: each task then has no partitions.
    """
    pairs = zip(tasks, partitions, strict=True) if len(tasks) == len(partitions) else ()
    by_task: dict[TaskId, tuple[TopicPartition, ...]] = dict.fromkeys(in_order(tasks), ())
    for task, partition in pairs:
        by_task[task] = (*by_task[task], partition)
    return by_task


def _process(
    process_id: bytes | None, consumers: tuple[DescribedConsumer, ...]
) -> DescribedProcess:
    """Describe one process of a Streams group: merge the metadata of its consumers."""
    active = {
        task: partitions for consumer in consumers for task, partitions in consumer.active.items()
    }
    assignments = [
        consumer.assignment
        for consumer in consumers
        if isinstance(consumer.assignment, AssignmentInfo)
    ]
    standby = {
        task: partitions
        for consumer in assignments
        for task, partitions in consumer.standby.items()
    }
    subscriptions = [
        consumer.subscription
        for consumer in consumers
        if isinstance(consumer.subscription, SubscriptionInfo)
    ]
    sums: dict[TaskId, int] = {}
    for consumer in subscriptions:
        for task, offsets in consumer.offset_sums.items():
            # A thread that runs the task knows best; of copies the furthest counts.
            sums[task] = (
                RUNNING
                if RUNNING in (offsets, sums.get(task))
                else max(offsets, sums.get(task, offsets))
            )
    return DescribedProcess(
        process_id,
        consumers,
        {task: active[task] for task in in_order(active)},
        {task: standby[task] for task in in_order(standby)},
        sums,
        next((consumer.endpoint for consumer in subscriptions if consumer.endpoint), ""),
        next((consumer.tags for consumer in subscriptions if consumer.tags), {}),
    )


def _standby_kind(group: GroupDescription) -> StandbyKind:
    """Return whether the described Streams group's task copies are standbys, warm-ups or either.

    For `apportion streams describe`. Without a scheduled probing rebalance there are no warm-ups.
    With one, there are only warm-ups if some task of a stateful subtopology has no copy: the task
    assignors of Kafka Streams give every stateful task equally many standbys, unless client tags
    prevent it or a task just moves.
    """
    assignments = [consumer.assignment for consumer in group.consumers]
    if not all(
        isinstance(consumer, AssignmentInfo) and consumer.used >= SCHEDULE_SINCE
        for consumer in assignments
    ):
        return StandbyKind.EITHER
    if group.next_rebalance_ms is None:
        return StandbyKind.STANDBY
    untagged = all(
        isinstance(consumer.subscription, SubscriptionInfo) and not consumer.subscription.tags
        for consumer in group.consumers
    )
    # A rebalance at once (0) is for tasks that change hands, not for warm-ups; and client tags may
    # leave tasks without standbys (KIP-708).
    if group.next_rebalance_ms == 0 or not untagged:
        return StandbyKind.EITHER
    with_copy = dict.fromkeys(task for process in group.processes for task in process.standby)
    stateful = {(task.topology, task.subtopology) for task in with_copy}
    active = (task for process in group.processes for task in process.active)
    is_any_without_copy = any(
        task not in with_copy and (task.topology, task.subtopology) in stateful for task in active
    )
    return StandbyKind.WARMUP if is_any_without_copy else StandbyKind.EITHER


def _unowned(group: GroupDescription) -> tuple[TaskId, ...]:
    """Return the tasks of the described Streams group that a member ran and no member was assigned.

    A member reports what it runs when it joins. Returns none if some assignment cannot be decoded:
    the tasks may be in it.
    """
    if not all(isinstance(consumer.assignment, AssignmentInfo) for consumer in group.consumers):
        return ()
    owned = {task for process in group.processes for task in process.active}
    running = (
        task
        for process in group.processes
        for task, offsets in process.offset_sums.items()
        if offsets == RUNNING
    )
    return tuple(in_order(task for task in running if task not in owned))


def _uuid_text(uuid: bytes) -> str:
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def in_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Return these Streams tasks, each once, by topology, subtopology and partition."""
    return sorted(dict.fromkeys(tasks), key=lambda task: (task.topology or "", *task[:2]))
