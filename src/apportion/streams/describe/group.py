"""The description of a Streams group from the bytes that DescribeGroups returns: processes, tasks,
versions.

A described group shows of each member what it said when it joined and what it was given; no more
than that is known here. Members whose bytes cannot be read, or come from a newer Kafka Streams, are
there with what can be known of them. Who holds back an upgrade is `upgrade_blockers.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, TypeVar

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
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from apportion.wire.records.consumer_serde import decode

V = TypeVar("V")

SCHEDULE_SINCE = 7
"""The first version of assignments that says when to rebalance next."""


class MemberDescription(NamedTuple):
    """One member as DescribeGroups returns it; subscription and assignment are empty while the
    group rebalances.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    subscription: Buffer = b""
    assignment: Buffer = b""


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    """One member: what it said and what it was given, None where that cannot be read; `unread` says
    why.

    active: its tasks with the partitions that they read; without these where the assignment does
    not say which are whose.
    """

    description: MemberDescription
    subscription: SubscriptionInfo | FutureInfo | None
    assignment: AssignmentInfo | FutureInfo | None
    active: Mapping[TaskId, tuple[TopicPartition, ...]]
    decode_errors: tuple[str, ...] = ()

    @property
    def versions(self) -> MetadataVersions | None:
        """The two version numbers of its subscription."""
        return (
            None
            if self.subscription is None
            else MetadataVersions(self.subscription.used, self.subscription.supported)
        )


@dataclass(frozen=True, slots=True)
class DescribedProcess:
    """One process and its consumers; id: 16 bytes, None for a consumer that does not say which
    process it is in.

    standby: its standby tasks and warm-ups, which look alike, with their source partitions. sums:
    what it had of tasks when it last
    joined: an offset sum, RUNNING or OFFSET_UNKNOWN.
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
        """Its id as Kafka Streams writes it in its logs, or the member id of a consumer that does
        not say it.
        """
        return (
            self.consumers[0].description.member_id
            if self.process_id is None
            else _uuid_text(self.process_id)
        )

    @property
    def label(self) -> str:
        """Its name, and where it is."""
        return (
            f"{self.name} ({self.endpoint or self.consumers[0].description.host.removeprefix('/')})"
        )

    @property
    def versions(self) -> MetadataVersions | None:
        """The version numbers of the consumer that understands least; None if none can be read."""
        said = [each.versions for each in self.consumers if each.versions is not None]
        return min(said, key=lambda spoken: (spoken.understood, spoken.used), default=None)


class StandbyKind(Enum):
    """What the copies of tasks are that are not active. Assignments call all of them standby
    tasks.
    """

    STANDBY = "standby"
    WARMUP = "warm-up"
    EITHER = "standby or warm-up"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in its current generation.

    processes: by id, and then the consumers that say none. copies: what the tasks in
    `DescribedProcess.standby` are.
    unowned: tasks that somebody ran when it joined and nobody was given, as far as can be read.
    next_rebalance_ms: the earliest time at which somebody
    rejoins without another reason, 0: at once; None: nobody does.
    """

    processes: tuple[DescribedProcess, ...]
    standby_kind: StandbyKind = StandbyKind.STANDBY
    unowned: tuple[TaskId, ...] = ()
    next_rebalance_ms: int | None = None

    @property
    def consumers(self) -> tuple[DescribedConsumer, ...]:
        """All consumers, by process."""
        return tuple(each for process in self.processes for each in process.consumers)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions that active tasks read, in order."""
        active = (
            partitions for process in self.processes for partitions in process.active.values()
        )
        return tuple(sorted(dict.fromkeys(each for partitions in active for each in partitions)))


def describe_group(members: Iterable[MemberDescription]) -> GroupDescription:
    """Describe the group of these members."""
    consumers = [_consumer(shown) for shown in _by_id(members)]
    processes: dict[bytes, list[DescribedConsumer]] = {}
    for each in consumers:
        if isinstance(each.subscription, SubscriptionInfo):
            processes.setdefault(bytes(each.subscription.process_id), []).append(each)
    named = [_process(process_id, tuple(processes[process_id])) for process_id in sorted(processes)]
    nameless = [
        _process(None, (each,))
        for each in consumers
        if not isinstance(each.subscription, SubscriptionInfo)
    ]
    times = [
        each.assignment.next_rebalance_ms
        for each in consumers
        if isinstance(each.assignment, AssignmentInfo)
    ]
    next_ms = min((time for time in times if time is not None), default=None)
    plain = GroupDescription((*named, *nameless), next_rebalance_ms=next_ms)
    return replace(plain, standby_kind=_standby_kind(plain), unowned=_unowned(plain))


def describe_without_metadata(members: Iterable[MemberDescription]) -> GroupDescription:
    """Describe the members of a group that rebalances, each as a process of its own, without
    metadata.
    """
    consumers = [DescribedConsumer(shown, None, None, {}) for shown in _by_id(members)]
    return GroupDescription(
        tuple(_process(None, (each,)) for each in consumers), StandbyKind.EITHER
    )


def _by_id(members: Iterable[MemberDescription]) -> list[MemberDescription]:
    return sorted(members, key=lambda shown: shown.member_id)


def _consumer(shown: MemberDescription) -> DescribedConsumer:
    """One member, as far as its bytes can be read."""
    unread: list[str] = []

    def attempt(what: str, read: Callable[[Buffer], V], blob: Buffer) -> V | None:
        try:
            return read(blob)
        except DecodeError as error:
            unread.append(f"its {what} cannot be read: {error}")
            return None

    said = attempt("subscription", _decode_subscription, shown.subscription)
    partitions, given = attempt("assignment", _decode_assignment, shown.assignment) or ((), None)
    active: Mapping[TaskId, tuple[TopicPartition, ...]] = {}
    if isinstance(given, AssignmentInfo):
        active = _partitions_by_task(given.active, partitions)
        if len(given.active) != len(partitions):
            unread.append(
                f"its assignment names the tasks of {len(given.active)} partitions and "
                f"gives {len(partitions)}"
            )
    return DescribedConsumer(shown, said, given, active, tuple(unread))


def _decode_subscription(blob: Buffer) -> SubscriptionInfo | FutureInfo:
    _, subscription = decode(ConsumerProtocolSubscription, blob)
    return decode_subscription(subscription.user_data or b"")


def _decode_assignment(
    blob: Buffer,
) -> tuple[tuple[TopicPartition, ...], AssignmentInfo | FutureInfo]:
    _, assignment = decode(ConsumerProtocolAssignment, blob)
    partitions = sorted(
        TopicPartition(each.topic, number)
        for each in assignment.assigned_partitions
        for number in each.partitions
    )
    return tuple(partitions), decode_assignment(assignment.user_data or b"")


def _partitions_by_task(
    tasks: tuple[TaskId, ...], partitions: tuple[TopicPartition, ...]
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Each task once, in order, with its partitions; with none at all where there are not as many
    as tasks.
    """
    pairs = zip(tasks, partitions, strict=True) if len(tasks) == len(partitions) else ()
    found: dict[TaskId, tuple[TopicPartition, ...]] = dict.fromkeys(in_order(tasks), ())
    for task, partition in pairs:
        found[task] = (*found[task], partition)
    return found


def _process(
    process_id: bytes | None, consumers: tuple[DescribedConsumer, ...]
) -> DescribedProcess:
    """Merge the metadata of the consumers of one process."""
    active = {task: partitions for each in consumers for task, partitions in each.active.items()}
    given = [each.assignment for each in consumers if isinstance(each.assignment, AssignmentInfo)]
    standby = {task: partitions for each in given for task, partitions in each.standby.items()}
    said = [
        each.subscription for each in consumers if isinstance(each.subscription, SubscriptionInfo)
    ]
    sums: dict[TaskId, int] = {}
    for each in said:
        for task, offsets in each.offset_sums.items():
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
        next((each.endpoint for each in said if each.endpoint), ""),
        next((each.tags for each in said if each.tags), {}),
    )


def _standby_kind(portrait: GroupDescription) -> StandbyKind:
    """Warm-ups go with a next rebalance that is told; they are all there is where a task of a
    subtopology with state has no copy.

    The second is so with the task assignors of Kafka Streams: whatever they make standbys of, each
    task with a state has as many, unless client tags are in the way or a task is just changing
    hands.
    """
    given = [each.assignment for each in portrait.consumers]
    if not all(isinstance(each, AssignmentInfo) and each.used >= SCHEDULE_SINCE for each in given):
        return StandbyKind.EITHER
    if portrait.next_rebalance_ms is None:
        return StandbyKind.STANDBY
    untagged = all(
        isinstance(each.subscription, SubscriptionInfo) and not each.subscription.tags
        for each in portrait.consumers
    )
    if portrait.next_rebalance_ms == 0 or not untagged:
        return StandbyKind.EITHER
    copied = dict.fromkeys(task for process in portrait.processes for task in process.standby)
    with_state = {(task.topology, task.subtopology) for task in copied}
    active = (task for process in portrait.processes for task in process.active)
    bare = any(
        task not in copied and (task.topology, task.subtopology) in with_state for task in active
    )
    return StandbyKind.WARMUP if bare else StandbyKind.EITHER


def _unowned(portrait: GroupDescription) -> tuple[TaskId, ...]:
    """What somebody ran and nobody was given. Nothing where some assignment cannot be read: it may
    be there.
    """
    if not all(isinstance(each.assignment, AssignmentInfo) for each in portrait.consumers):
        return ()
    owned = {task for process in portrait.processes for task in process.active}
    ran = (
        task
        for process in portrait.processes
        for task, offsets in process.offset_sums.items()
        if offsets == RUNNING
    )
    return tuple(in_order(task for task in ran if task not in owned))


def _uuid_text(uuid: bytes) -> str:
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def in_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """These tasks, each once, by topology and number."""
    return sorted(dict.fromkeys(tasks), key=lambda task: (task.topology or "", *task[:2]))
