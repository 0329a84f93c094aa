"""The rebalance of a Streams group by its leader (Kafka's StreamsPartitionAssignor): from
subscriptions to assignments.

A generator. It yields what it must ask the cluster (`queries.py`) and goes on with the answers:
1. decide the metadata versions (`metadata/probing.py`), and stop if a member requested a shutdown;
2. create internal topics and list the tasks of the topology;
3. fetch the end offsets of changelogs; without them the `fallback` assignor runs;
4. run the task assignor, then assign each client's tasks to its consumers (`assignor/threads.py`);
5. withhold every task that another consumer still owns; the consumer that waits for it rejoins at
   once (cooperative rebalancing, KIP-429). The plan itself does not depend on that.

Faulty subscriptions and missing topics do not raise: all members get an empty assignment with an
error code. Only incompatible versions make a leader of a release before 2.4 fail.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from apportion.errors import Refused, Unanswerable
from apportion.streams.metadata.model import (
    LATEST,
    AssignmentInfo,
    AssignorError,
    HostInfo,
    SubscriptionInfo,
)
from apportion.streams.metadata.probing import MetadataVersions, VersionDecision, decide_versions
from apportion.streams.metadata.releases import Release, VersionNegotiation
from apportion.streams.queries import (
    ClusterQuery,
    CreateInternalTopics,
    FetchCommittedOffsets,
    ListEndOffsets,
)
from apportion.streams.task_assignment.client_metadata import (
    ClientMetadata,
    ConsumerMetadata,
    TaskIndex,
    build_client_states,
    group_by_process,
    index_tasks,
    lags_behind,
    task_arrays,
    task_offset_sums,
)
from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    Longs,
    TaskAssignment,
    Tasks,
)
from apportion.streams.task_assignment.task_assignors import TASK_ASSIGNORS
from apportion.streams.task_assignment.threads import (
    ProcessTasks,
    ThreadTasks,
    assign_tasks_to_threads,
)
from apportion.streams.topology import MissingSources, Topology, TopologyRefused
from apportion.topics import TopicPartition

MAX_OFFSET_SUM = 2**63 - 1
"""The greatest offset sum that an int64 holds."""
UNREADABLE_SUBSCRIPTION = AssignmentInfo(LATEST, LATEST, error=AssignorError.ASSIGNMENT_ERROR)
"""The assignment of a member whose subscription cannot be decoded."""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """Who leads, and how. member: the leader's own id. release: what it speaks. assignor: a name in
    TASK_ASSIGNORS.

    probing_interval_ms: how long until the group looks again whether warm-ups have caught up.
    """

    member_id: str
    topology: Topology
    release: Release
    assignor: str = "highavailability"
    configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    probing_interval_ms: int = 600_000


class ConsumerAssignment(NamedTuple):
    """The assignment of one consumer: partitions in order of topic and number, and the user data
    for them.
    """

    partitions: tuple[TopicPartition, ...]
    info: AssignmentInfo


class GroupAssignment(NamedTuple):
    """What everybody is given, by member id. unfinished: see `VersionDecision`. notes: for people,
    one sentence each.
    """

    assignments: dict[str, ConsumerAssignment]
    upgrade_pending: bool = False
    notes: tuple[str, ...] = ()


def assign_as_leader(
    mine: LeaderSettings,
    exist: Mapping[str, int],
    said: Mapping[str, ConsumerMetadata],
    wall_ms: int,
) -> Generator[ClusterQuery, Any, GroupAssignment]:
    """The plan of one rebalance. exist: the partitions of the topics that exist. said: what each
    consumer told, by member id.

    Who cannot be read, or reads other topics, gets nothing; what it holds is withheld from the
    others all the same. Refused where the versions of the members do not go together and the
    leader's release fails then.
    """
    versions = {
        member: MetadataVersions(info.used, info.supported)
        for member, (info, _, _) in said.items()
        if info is not None
    }
    try:
        ruling = decide_versions(versions, mine.release)
    except Refused as refused:
        if mine.release.negotiation is not VersionNegotiation.SHARES:
            raise
        oldest = min((spoken.used for spoken in versions.values()), default=LATEST)
        return _assign_nothing(said, oldest, AssignorError.ASSIGNMENT_ERROR, refused.why)
    for member, consumer in sorted(said.items()):
        if (
            isinstance(consumer.info, SubscriptionInfo)
            and consumer.info.error == AssignorError.SHUTDOWN_REQUESTED
        ):
            why = f"{member} asks all instances to shut down"
            return _assign_nothing(
                said, ruling.versions.used, AssignorError.SHUTDOWN_REQUESTED, why
            )
    try:
        numbers = yield from _create_topics_and_index_tasks(mine.topology, exist)
    except MissingSources as missing:
        return _assign_nothing(
            said, ruling.versions.used, AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA, missing.why
        )
    except TopologyRefused as refused:
        return _assign_nothing(
            said, ruling.versions.used, AssignorError.ASSIGNMENT_ERROR, refused.why
        )
    present = {
        member: said[member]
        for member in versions
        if said[member].subscribes_to_topology and member not in ruling.empty_members
    }
    nothing = AssignmentInfo(ruling.future_versions.used, ruling.future_versions.supported)
    empty = {
        member: ConsumerAssignment((), nothing if member in versions else UNREADABLE_SUBSCRIPTION)
        for member in said
        if member not in present
    }
    if not present:
        return GroupAssignment(empty)
    end, notes = yield from _end_offset_sums(numbers, mine.topology)
    processes = group_by_process(present)
    tasks = task_arrays(numbers, np.zeros(len(numbers.tasks), np.int64) if end is None else end)
    crew = build_client_states(processes, present, numbers, tasks.end_offset_sum)
    shares = TASK_ASSIGNORS["fallback" if end is None else mine.assignor](tasks, crew, mine.configs)
    told = _assign_consumers(
        _AssignmentInput(
            processes, present, numbers, tasks, crew, _current_owners(said, present, numbers)
        ),
        shares,
        ruling,
    )
    if shares.needs_probing_rebalance:
        _schedule_probing_rebalance(told, processes, mine, wall_ms)
    return GroupAssignment(told | empty, ruling.upgrade_pending, notes)


def _assign_nothing(
    said: Mapping[str, ConsumerMetadata], used: int, error: AssignorError, why: str
) -> GroupAssignment:
    """Everybody is given nothing, in a version that all can read; versions below 4 cannot say
    why.
    """
    used = max(1, min(used, LATEST))
    info = AssignmentInfo(used, used if used >= 3 else -1, error=error)
    return GroupAssignment(
        {member: ConsumerAssignment((), info) for member in said},
        notes=(f"nobody gets anything: {why}",),
    )


def _create_topics_and_index_tasks(
    topology: Topology, exist: Mapping[str, int]
) -> Generator[ClusterQuery, Any, TaskIndex]:
    """The tasks, with their internal topics made. Refused as by `partition_counts`, or if a topic
    has other partitions.
    """
    counts = topology.partition_counts(exist)
    wanted = topology.internal_topics(counts)
    there: Mapping[str, int] = {}
    while any(topic.name not in there for topic in wanted):
        try:
            there = yield CreateInternalTopics(wanted)
        except Unanswerable:
            # until it is answered, or the coordinator has waited for its leader long enough
            continue
        except Refused as refused:
            raise TopologyRefused(f"the internal topics cannot be made: {refused.why}") from refused
    for topic in wanted:
        if there[topic.name] != topic.partitions:
            why = (
                f"internal topic {topic.name} has {there[topic.name]} partitions and should "
                f"have {topic.partitions}"
            )
            raise TopologyRefused(
                f"{why}: reset the application, or give its topics the partitions they had"
            )
    return index_tasks(topology.tasks(counts))


def _end_offset_sums(
    numbers: TaskIndex, topology: Topology
) -> Generator[ClusterQuery, Any, tuple[Longs | None, tuple[str, ...]]]:
    """The sum of the ends of each task's changelogs; None, and a note, where the cluster does not
    tell.

    Of a source that serves as a changelog only what the group has committed counts: beyond that
    there is no state yet.
    """
    read = dict.fromkeys(topology.source_topics)
    own = tuple(
        place for task in numbers.tasks for place in task.changelogs if place.topic not in read
    )
    shared = tuple(
        place for task in numbers.tasks for place in task.changelogs if place.topic in read
    )
    ends: dict[TopicPartition, int] = {}
    try:
        if own:
            ends |= yield ListEndOffsets(own)
        if shared:
            ends |= yield FetchCommittedOffsets(shared)
    except (Unanswerable, Refused) as problem:
        return None, (
            f"everybody keeps what it has, as the ends of changelogs are unknown: {problem}",
        )
    return np.array(
        [
            min(MAX_OFFSET_SUM, sum(ends.get(place, 0) for place in task.changelogs))
            for task in numbers.tasks
        ],
        np.int64,
    ), ()


class _AssignmentInput(NamedTuple):
    """Everything that the assignment of consumers is made from."""

    processes: Sequence[ClientMetadata]
    said: Mapping[str, ConsumerMetadata]
    numbers: TaskIndex
    tasks: Tasks
    crew: ClientStates
    owners: Mapping[int, str]


def _assign_consumers(
    group: _AssignmentInput, shares: TaskAssignment, ruling: VersionDecision
) -> dict[str, ConsumerAssignment]:
    """Return the assignment of every consumer, without a probing rebalance."""
    active_hosts, standby_hosts = _partitions_by_host(group, shares)
    spoken = ruling.versions
    template = AssignmentInfo(
        spoken.used, spoken.supported, active_hosts=active_hosts, standby_hosts=standby_hosts
    )
    told = {}
    for number, process in enumerate(group.processes):
        roles = assign_tasks_to_threads(process.consumers, _process_tasks(group, number, shares))
        for member in process.consumers:
            told[member] = _consumer_assignment(
                group, roles[member], _AssignedConsumer(member, number, group.owners), template
            )
    return told


SEVERAL_OWNERS = ""
"""In place of a member id: several members report that they own the task."""


class _AssignedConsumer(NamedTuple):
    """A consumer that is given something. owners: who holds each task that somebody holds, by
    number; or SEVERAL.
    """

    member: str
    process: int
    owners: Mapping[int, str]

    def waits_for(self, task: int) -> bool:
        """Return True if another consumer still owns the task, which is withheld then (guard:
        withheld).
        """
        return self.owners.get(task, self.member) != self.member


def _current_owners(
    said: Mapping[str, ConsumerMetadata],
    present: Mapping[str, ConsumerMetadata],
    numbers: TaskIndex,
) -> dict[int, str]:
    """Who holds each task that somebody holds, whether or not he can be given anything; SEVERAL if
    one of several can be.
    """
    owners: dict[int, str] = {}
    for member, consumer in sorted(said.items()):
        for place in consumer.owned_partitions:
            task = numbers.index_of_partition.get(place)
            if task is None:
                continue
            before = owners.setdefault(task, member)
            if before != member and (member in present or before in present):
                owners[task] = SEVERAL_OWNERS
    return owners


def _process_tasks(group: _AssignmentInput, number: int, shares: TaskAssignment) -> ProcessTasks:
    """The tasks of one process, and what each of its consumers holds, and then has, with the least
    lag first.
    """
    active = np.flatnonzero(shares.active == number)
    stateful = group.tasks.stateful[active]
    copies = np.concatenate((shares.standby, shares.warmup))
    standby = np.sort(copies[copies[:, 0] == number, 1])
    had: dict[str, list[int]] = {}
    held: dict[str, list[int]] = {}
    for task in active.tolist():
        held.setdefault(group.owners.get(task, SEVERAL_OWNERS), []).append(task)
    for member in group.processes[number].consumers:
        told, sums = task_offset_sums(group.said[member], group.numbers)
        tasks = np.array(told, np.int64)
        tasks, sums = tasks[tasks >= 0], sums[tasks >= 0]
        nearest = tasks[
            np.lexsort((tasks, lags_behind(sums, group.tasks.end_offset_sum[tasks])))
        ].tolist()
        had[member] = list(dict.fromkeys([*held.get(member, ()), *nearest]))
    return ProcessTasks(
        active[stateful].tolist(), standby.tolist(), active[~stateful].tolist(), had
    )


def _consumer_assignment(
    group: _AssignmentInput, roles: ThreadTasks, holder: _AssignedConsumer, template: AssignmentInfo
) -> ConsumerAssignment:
    """Return the assignment of one consumer; withheld tasks of which it has state become
    standbys.
    """
    tasks = group.numbers.tasks
    withheld = [task for task in roles.active if holder.waits_for(task)]
    waits = dict.fromkeys(withheld)
    places = sorted(
        [
            (place, tasks[task].id)
            for task in roles.active
            if task not in waits
            for place in tasks[task].sources
        ]
    )
    kept = [
        task
        for task in withheld
        if group.tasks.stateful[task] and _has_standby_state(group.crew, holder.process, task)
    ]
    info = replace(
        template,
        active=tuple(id_ for _, id_ in places),
        standby={tasks[task].id: tasks[task].sources for task in sorted((*roles.standby, *kept))},
        next_rebalance_ms=0
        if any(_may_be_released_soon(group, task) for task in withheld)
        else None,
    )
    return ConsumerAssignment(tuple(place for place, _ in places), info)


def _may_be_released_soon(group: _AssignmentInput, task: int) -> bool:
    """Whether it is worth to join again at once: who is told of nothing comes when he has let go,
    and one that never does must not keep the others busy.
    """
    owner = group.owners[task]
    return owner == SEVERAL_OWNERS or owner in group.said


def _has_standby_state(crew: ClientStates, process: int, task: int) -> bool:
    """Return True if the client has state of the task as a standby."""
    start, stop = np.searchsorted(crew.process, (process, process + 1))
    row = start + int(np.searchsorted(crew.task[start:stop], task))
    return bool(row < stop and crew.task[row] == task and not crew.previously_active[row])


Hosts = dict[HostInfo, tuple[TopicPartition, ...]]


def _partitions_by_host(group: _AssignmentInput, shares: TaskAssignment) -> tuple[Hosts, Hosts]:
    """Return the active and the standby source partitions of each host that serves interactive
    queries.
    """
    active: dict[HostInfo, list[TopicPartition]] = {
        process.host: [] for process in group.processes if process.host
    }
    standby: dict[HostInfo, list[TopicPartition]] = {host: [] for host in active}
    for task, owner in enumerate(shares.active.tolist()):
        if (host := group.processes[owner].host) is not None:
            active[host] += group.numbers.tasks[task].sources
    for owner, task in (*shares.standby.tolist(), *shares.warmup.tolist()):
        if (host := group.processes[owner].host) is not None:
            standby[host] += group.numbers.tasks[task].sources
    return _in_order(active), _in_order(standby)


def _in_order(hosts: Mapping[HostInfo, list[TopicPartition]]) -> Hosts:
    return {host: tuple(sorted(dict.fromkeys(places))) for host, places in sorted(hosts.items())}


def _schedule_probing_rebalance(
    told: dict[str, ConsumerAssignment],
    processes: Sequence[ClientMetadata],
    mine: LeaderSettings,
    wall_ms: int,
) -> None:
    """Schedule a probing rebalance for one consumer of the leader's process, unless one rejoins at
    once anyway.
    """
    own = next(
        (process.consumers for process in processes if mine.member_id in process.consumers), ()
    )
    if own and all(told[member].info.next_rebalance_ms is None for member in own):
        first = told[own[0]]
        at_ms = min(MAX_OFFSET_SUM - 1, wall_ms + mine.probing_interval_ms)
        told[own[0]] = first._replace(info=replace(first.info, next_rebalance_ms=at_ms))
