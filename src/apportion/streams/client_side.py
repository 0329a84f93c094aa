"""The assignment of a Streams group by one of its members: a client-side assignor of KIP-848.

The coordinator of a consumer group chooses a member, which computes the group's target assignment.
Who should run which task is decided as by the leader of a classic group (`task_planning.py`). What
differs:
- The coordinator agrees with the members on a version, so no version is probed.
- Nothing is withheld: the coordinator gives a partition to its new owner when the older one has
  stopped using it.
- A member sends lags, not offset sums, and may send new ones only with a reason. So a task of the
  group's older target counts as running at its member, whatever that member has said since.
- Warm-ups are apart from standby tasks, and no probing rebalance is scheduled: a member asks for a
  new assignment when a warm-up is ready (Reason.WARM_UP_READY).
- An error is the whole group's, and stands beside the assignments.

While members have different topologies, as in a rolling upgrade, every member keeps its older
target, and the error says why: the group assigns anew when one topology is left. The coordinator
keeps the tasks of a target that stays, and they name their topology by its hash. The member that
computes compares them with the topology that it runs. What the group knows of its own may be older,
as the coordinator keeps a changed one back for a while; and tasks of a topology of which nobody has
heard are tasks that no other member can run.

The coordinator knows of a repartition topic some time after it was created, and may refuse its
partitions until then. So the tasks that read it follow in the next assignment: new topics have the
coordinator ask for one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.rules import Rule
from apportion.streams.metadata.kip848 import (
    RESTORE_FAILED,
    AssignmentError,
    Kip848ActiveTask,
    Kip848AssignmentMetadata,
    Kip848HostPartitions,
    Kip848MemberMetadata,
    Kip848Replica,
    Kip848TopicPartitions,
    Reason,
    topology_hash,
)
from apportion.streams.metadata.model import LATEST, RUNNING, SubscriptionInfo, TaskId
from apportion.streams.settings import TASK_ASSIGNOR
from apportion.streams.task_assignment.client_metadata import (
    ConsumerMetadata,
    TaskIndex,
    index_tasks,
)
from apportion.streams.task_assignment.client_states import AssignmentConfigs, TaskAssignment
from apportion.streams.task_planning import (
    GroupTasks,
    KnownTasks,
    TaskAssignorChoice,
    consumer_tasks,
    create_topics_and_index_tasks,
    fetch_end_offset_sums,
    partitions_by_host,
    plan_tasks,
)
from apportion.streams.topology import InternalTopic, MissingSources, Topology, TopologyRefused
from apportion.topics import TopicPartition, grouped

NO_TASKS = Kip848AssignmentMetadata()
"""The assignment metadata of a member that is assigned no task."""


@dataclass(frozen=True, slots=True)
class ClientSideSettings:
    """The topology of the member that computes, and its settings, as in `LeaderSettings`."""

    topology: Topology
    assignor: str = TASK_ASSIGNOR.default
    configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)


class AssignableInstance(NamedTuple):
    """One member of the group, as the coordinator describes it to the member that computes.

    metadata: None if it cannot be decoded; the member gets nothing then. reason: with which it sent
    that metadata. target: its partitions in the group's older target.
    """

    topics: tuple[str, ...]
    metadata: Kip848MemberMetadata | None
    reason: int = Reason.NONE
    target: tuple[TopicPartition, ...] = ()


class InstanceTasks(NamedTuple):
    """The partitions of one member's target, and the metadata beside them."""

    partitions: tuple[TopicPartition, ...] = ()
    metadata: Kip848AssignmentMetadata = NO_TASKS


class ClientSideAssignment(NamedTuple):
    """The assignment of each member, and the group's error.

    notes: one sentence each, for logs. is_fallback: the ends of changelogs were unknown, so no task
    has moved; the group has to be assigned anew some time later. missing: as in `GroupAssignment`.
    """

    assignments: dict[str, InstanceTasks]
    error: AssignmentError = AssignmentError.NONE
    notes: tuple[str, ...] = ()
    is_fallback: bool = False
    missing: tuple[str, ...] = ()


def assign_client_side(
    settings: ClientSideSettings,
    existing: Mapping[str, int],
    members: Mapping[str, AssignableInstance],
) -> Rule[ClientSideAssignment]:
    """Compute the target assignment of a Streams group, as the member that is chosen for that.

    A generator without I/O, as `assign_as_leader`: `member/streams/client_side.py` drives it.
    existing: the partition counts of the topics that exist.
    """
    # KIP-671: one member's request is answered to all, whatever else is wrong. It stands until the
    # member has left, so no other member's computation can lose it.
    for member, instance in sorted(members.items()):
        if instance.reason == Reason.SHUTDOWN:
            why = f"{member} asks all instances to shut down"
            return _assign_nothing(members, AssignmentError.SHUTDOWN, why)
    topology = settings.topology
    own_hash = hash_of_topology(topology)
    for member, instance in sorted(members.items()):
        if instance.metadata is not None and instance.metadata.topology_hash != own_hash:
            return _keep_older_target(members, existing, other=member)
    try:
        index = yield from create_topics_and_index_tasks(topology, existing)
    except MissingSources as missing:
        refused = _assign_nothing(members, AssignmentError.MISSING_SOURCES, missing.why)
        return refused._replace(missing=missing.topics)
    except TopologyRefused as error:
        return _assign_nothing(members, AssignmentError.ASSIGNMENT_ERROR, error.why)
    index = _readable_tasks(index, existing)
    assignable, notes = _assignable_members(
        members, [topic for topic in topology.source_topics if topic in existing]
    )
    nothing = dict.fromkeys(
        members, InstanceTasks(metadata=Kip848AssignmentMetadata(topology_hash=own_hash))
    )
    if not assignable or not index.tasks:
        return ClientSideAssignment(nothing, notes=notes)
    end_offset_sums, warnings = yield from fetch_end_offset_sums(index, topology)
    known = KnownTasks(index, end_offset_sums)
    consumers = {
        member: _consumer_metadata(instance, metadata, known)
        for member, (instance, metadata) in assignable.items()
    }
    group, assignment = _plan_tasks(settings, known, consumers, assignable)
    return ClientSideAssignment(
        nothing | _encode_tasks(group, assignment, own_hash),
        notes=(*notes, *warnings),
        is_fallback=end_offset_sums is None,
    )


def hash_of_topology(topology: Topology) -> bytes:
    """Return the topology hash that a member with this Streams topology sends."""
    return topology_hash(
        tuple(
            (
                number,
                tuple(sorted(part.sources)),
                _sorted_topics(part.repartition_sources),
                tuple(sorted(part.repartition_sinks)),
                _sorted_topics(part.changelogs),
                tuple(sorted(tuple(sorted(group)) for group in part.copartition)),
            )
            for number, part in sorted(topology.subtopologies.items())
        )
    )


def _sorted_topics(topics: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
    return tuple(sorted(topic._replace(configs=tuple(sorted(topic.configs))) for topic in topics))


def _assign_nothing(
    members: Iterable[str], error: AssignmentError, why: str
) -> ClientSideAssignment:
    """Return empty assignments with an error, for all members of a Streams group."""
    return ClientSideAssignment(
        dict.fromkeys(members, InstanceTasks()), error, (f"nobody gets anything: {why}",)
    )


def _keep_older_target(
    members: Mapping[str, AssignableInstance], existing: Mapping[str, int], *, other: str
) -> ClientSideAssignment:
    """Return the older target, while members of the Streams group have different topologies.

    Without metadata: the coordinator knows those of the older target. Partitions that it would
    refuse, since their topic is gone or no longer subscribed, are left out.
    other: a member whose metadata are of another topology than this one runs.
    """
    kept = {
        member: InstanceTasks(
            tuple(
                partition
                for partition in instance.target
                if partition.topic in instance.topics
                and partition.partition < existing.get(partition.topic, 0)
            )
        )
        for member, instance in members.items()
    }
    why = (
        f"every task stays where it is until all instances run the same topology: {other} has told "
        "the group of another one than this instance runs"
    )
    return ClientSideAssignment(kept, AssignmentError.INCONSISTENT_TOPOLOGY, (why,))


Assignable = dict[str, tuple[AssignableInstance, Kip848MemberMetadata]]


def _readable_tasks(index: TaskIndex, existing: Mapping[str, int]) -> TaskIndex:
    """Return the Streams tasks of which every source topic was there before this computation."""
    return index_tasks(
        [task for task in index.tasks if all(each.topic in existing for each in task.sources)]
    )


def _assignable_members(
    members: Mapping[str, AssignableInstance], topics: Sequence[str]
) -> tuple[Assignable, tuple[str, ...]]:
    """Return the members that can be assigned Streams tasks, and a sentence for each other one.

    topics: those to which a member has to subscribe.
    """
    assignable: Assignable = {}
    notes = []
    for member, instance in sorted(members.items()):
        missing = [topic for topic in topics if topic not in instance.topics]
        if instance.metadata is None:
            notes.append(f"{member} is assigned nothing: its metadata cannot be read")
        elif missing:
            notes.append(
                f"{member} is assigned nothing: it does not subscribe to {missing[0]}, "
                "as this topology does"
            )
        else:
            assignable[member] = instance, instance.metadata
    return assignable, tuple(notes)


def _consumer_metadata(
    instance: AssignableInstance, metadata: Kip848MemberMetadata, known: KnownTasks
) -> ConsumerMetadata:
    """Return a member of a Streams group as the task planning takes it: with offset sums."""
    index = known.task_index
    offset_sums: dict[TaskId, int] = {}
    for each in metadata.task_lags:
        task = TaskId(each.subtopology, each.partition)
        number = index.index_of_task.get(task)
        # A state that could not be restored is as good as none.
        if number is not None and each.lag != RESTORE_FAILED:
            end = 0 if known.end_offset_sums is None else int(known.end_offset_sums[number])
            offset_sums[task] = max(0, end - each.lag)
    for partition in instance.target:
        number = index.index_of_partition.get(partition)
        if number is not None:
            offset_sums[index.tasks[number].id] = RUNNING
    info = SubscriptionInfo(
        LATEST,
        LATEST,
        bytes(metadata.process_id),
        bytes(metadata.user_endpoint).decode(errors="replace"),
        offset_sums,
        tags={tag.key: tag.value for tag in metadata.client_tags},
    )
    return ConsumerMetadata(info, instance.target)


def _plan_tasks(
    settings: ClientSideSettings,
    known: KnownTasks,
    consumers: Mapping[str, ConsumerMetadata],
    assignable: Assignable,
) -> tuple[GroupTasks, TaskAssignment]:
    """Run the Streams task assignor, without warm-ups where they have failed before.

    They would fail again, and each failure asks for a new assignment. The member that has failed
    gets no warm-up of the task until it sends a lag of it, or is started again.
    """
    failed = {
        (bytes(metadata.process_id), index)
        for _, metadata in assignable.values()
        for index in _failed_tasks(metadata, known.task_index)
    }
    limit = settings.configs.max_warmup_replicas
    # More than the limit first: those that are left out take no place of others.
    configs = settings.configs._replace(max_warmup_replicas=limit + len(failed))
    choice = TaskAssignorChoice(settings.assignor, configs)
    group, assignment = plan_tasks(known, consumers, consumers, choice)
    possible = [
        (group.processes[process].process_id, task) not in failed
        for process, task in assignment.warmup.tolist()
    ]
    return group, assignment._replace(warmup=assignment.warmup[possible][:limit])


def _failed_tasks(metadata: Kip848MemberMetadata, index: TaskIndex) -> list[int]:
    """Return the numbers of the tasks that a Streams member could not restore."""
    return [
        index.index_of_task[task]
        for each in metadata.task_lags
        if each.lag == RESTORE_FAILED
        and (task := TaskId(each.subtopology, each.partition)) in index.index_of_task
    ]


def _encode_tasks(
    group: GroupTasks, assignment: TaskAssignment, own_hash: bytes
) -> dict[str, InstanceTasks]:
    """Return the tasks of each consumer of a Streams group as its assignment has them.

    own_hash: of the topology whose tasks these are.
    """
    tasks = group.task_index.tasks
    hosts = _hosts(group, assignment)
    warmups = dict.fromkeys(map(tuple, assignment.warmup.tolist()))
    encoded = {}
    for process, member, share in consumer_tasks(group, assignment):
        # One entry for each partition, as in metadata version 11: a member that has fewer
        # partitions of a task than entries waits for the others.
        active = sorted(
            (partition, tasks[task].id)
            for task in share.active
            for partition in tasks[task].sources
        )
        copies = {
            task: Kip848Replica(
                subtopology=tasks[task].id.subtopology,
                partition=tasks[task].id.partition,
                sources=_by_topic(tasks[task].sources),
            )
            for task in share.standby
        }
        encoded[member] = InstanceTasks(
            tuple(partition for partition, _ in active),
            Kip848AssignmentMetadata(
                active_tasks=tuple(
                    Kip848ActiveTask(subtopology=id_.subtopology, partition=id_.partition)
                    for _, id_ in active
                ),
                standby_tasks=tuple(
                    copy for task, copy in copies.items() if (process, task) not in warmups
                ),
                warmup_tasks=tuple(
                    copy for task, copy in copies.items() if (process, task) in warmups
                ),
                partitions_by_host=hosts,
                topology_hash=own_hash,
            ),
        )
    return encoded


def _hosts(group: GroupTasks, assignment: TaskAssignment) -> tuple[Kip848HostPartitions, ...]:
    """Return the source partitions that are active or standby on each host of a Streams group."""
    active, standby = partitions_by_host(group, assignment)
    return tuple(
        Kip848HostPartitions(
            host=host.host,
            port=host.port,
            partitions=_by_topic(sorted(dict.fromkeys((*partitions, *standby[host])))),
        )
        for host, partitions in active.items()
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[Kip848TopicPartitions, ...]:
    return tuple(
        Kip848TopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in grouped(partitions).items()
    )
