"""The part of a Streams rebalance that is the same in both group protocols: who runs which task.

The leader of a classic group (`leader.py`) and the member that computes the target of a consumer
group (`client_side.py`) call it in this order:
1. Create internal topics and list the tasks of the topology (`create_topics_and_index_tasks`).
2. Fetch the end offsets of changelogs (`fetch_end_offset_sums`).
3. Run the task assignor (`plan_tasks`); without end offsets the `fallback` assignor.
4. Give each client's tasks to its consumers (`consumer_tasks`).

The first two are generators: they yield what they must ask the cluster (`queries.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from apportion.errors import Refused, Unanswerable
from apportion.rules import Rule
from apportion.settings import MAX_INT64
from apportion.streams.metadata.model import HostInfo
from apportion.streams.queries import (
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
from apportion.streams.topology import Topology, TopologyRefused
from apportion.topics import TopicPartition

MAX_OFFSET_SUM = MAX_INT64
"""The greatest offset sum that an int64 holds."""
SEVERAL_OWNERS = ""
"""In place of a member id: several members report that they own the task."""


def create_topics_and_index_tasks(
    topology: Topology, existing: Mapping[str, int]
) -> Rule[TaskIndex]:
    """Create the missing internal topics of the Streams group, and return its tasks by number.

    `member/streams` answers what it yields with the partition counts of all internal topics, also
    of those that existed.

    Raises MissingSources or TopologyRefused as `Topology.partition_counts` does, and
    TopologyRefused if an internal topic has another number of partitions or cannot be created.
    """
    # Before any topic is created: copartitioning and missing sources must fail without leaving
    # internal topics of a wrong size behind.
    counts = topology.partition_counts(existing)
    internal_topics = topology.internal_topics(counts)
    created: Mapping[str, int] = {}
    while any(topic.name not in created for topic in internal_topics):
        try:
            created = yield CreateInternalTopics(internal_topics)
        except Unanswerable:
            # Asked again until there is an answer. The rebalance timeout bounds this: the
            # coordinator removes a leader that does not sync in time, and has another member of a
            # consumer group compute.
            continue
        except Refused as refused:
            raise TopologyRefused(f"the internal topics cannot be made: {refused.why}") from refused
    # A changelog of another size would hold the state of other tasks, so it is never reused.
    for topic in internal_topics:
        if created[topic.name] != topic.partitions:
            why = (
                f"internal topic {topic.name} has {created[topic.name]} partitions and should "
                f"have {topic.partitions}"
            )
            raise TopologyRefused(
                f"{why}: reset the application, or give its topics the partitions they had"
            )
    return index_tasks(topology.tasks(counts))


def fetch_end_offset_sums(
    index: TaskIndex, topology: Topology
) -> Rule[tuple[Longs | None, tuple[str, ...]]]:
    """Fetch the sum of the end offsets of each Streams task's changelogs, by task number.

    For the lags of the clients; `member/streams` sends ListOffsets and OffsetFetch for what it
    yields. Returns None, and a note for the log, if the cluster does not answer.
    """
    changelogs = [partition for task in index.tasks for partition in task.changelogs]
    try:
        ends = yield from fetch_changelog_ends(topology, changelogs)
    except (Unanswerable, Refused) as problem:
        return None, (
            f"everybody keeps what it has, as the ends of changelogs are unknown: {problem}",
        )
    # A changelog without an answer counts as empty. The sum is clamped, since a wrapped int64 would
    # be negative and read as one of the sentinels, RUNNING or OFFSET_UNKNOWN.
    sums = [
        min(MAX_OFFSET_SUM, sum(ends.get(partition, 0) for partition in task.changelogs))
        for task in index.tasks
    ]
    return np.array(sums, np.int64), ()


def fetch_changelog_ends(
    topology: Topology, changelogs: Iterable[TopicPartition]
) -> Rule[dict[TopicPartition, int]]:
    """Fetch the offset up to which a Streams task with this changelog has state, by partition.

    Raises Unanswerable or Refused if the cluster does not answer.
    """
    # A source topic may serve as the changelog (`topology.optimization`). Records beyond the
    # group's committed offset have not been processed, so there is no state of them to restore.
    sources = dict.fromkeys(topology.source_topics)
    partitions = tuple(changelogs)
    own = tuple(partition for partition in partitions if partition.topic not in sources)
    shared = tuple(partition for partition in partitions if partition.topic in sources)
    ends: dict[TopicPartition, int] = {}
    if own:
        ends |= yield ListEndOffsets(own)
    if shared:
        ends |= yield FetchCommittedOffsets(shared)
    return ends


class GroupTasks(NamedTuple):
    """The clients of one rebalance, their consumers, and the tasks.

    subscriptions: of each consumer that can be assigned tasks, by member id. owners: the result of
    `current_owners`.
    """

    processes: Sequence[ClientMetadata]
    subscriptions: Mapping[str, ConsumerMetadata]
    task_index: TaskIndex
    tasks: Tasks
    client_states: ClientStates
    owners: Mapping[int, str]

    def is_owned_by_another(self, task: int, member: str) -> bool:
        """Return whether a consumer other than `member` still owns the task."""
        return self.owners.get(task, member) != member


class KnownTasks(NamedTuple):
    """The tasks of a topology, and the sums of their changelogs' end offsets; None: unknown."""

    task_index: TaskIndex
    end_offset_sums: Longs | None


class TaskAssignorChoice(NamedTuple):
    """The name of a task assignor in TASK_ASSIGNORS, and its settings."""

    name: str
    configs: AssignmentConfigs


class ConsumerTasks(NamedTuple):
    """The tasks of one consumer. process: the number of its client."""

    process: int
    member: str
    tasks: ThreadTasks


def plan_tasks(
    known: KnownTasks,
    subscriptions: Mapping[str, ConsumerMetadata],
    assignable: Mapping[str, ConsumerMetadata],
    choice: TaskAssignorChoice,
) -> tuple[GroupTasks, TaskAssignment]:
    """Run the task assignor of a Streams group; return its input, too.

    subscriptions: of all members; one that gets nothing still reads what it owns (KIP-429).
    assignable: of those that can be assigned tasks, at least one.
    """
    index, end_offset_sums = known
    processes = group_by_process(assignable)
    tasks = task_arrays(
        index, np.zeros(len(index.tasks), np.int64) if end_offset_sums is None else end_offset_sums
    )
    client_states = build_client_states(processes, assignable, index, tasks.end_offset_sum)
    owners = current_owners(subscriptions, assignable, index)
    # Without end offsets no lag is known, so no task may move: Kafka falls back likewise.
    assignor = TASK_ASSIGNORS["fallback" if end_offset_sums is None else choice.name]
    group = GroupTasks(processes, assignable, index, tasks, client_states, owners)
    return group, assignor(tasks, client_states, choice.configs)


def current_owners(
    subscriptions: Mapping[str, ConsumerMetadata],
    assignable: Mapping[str, ConsumerMetadata],
    index: TaskIndex,
) -> dict[int, str]:
    """Return the member that owns each Streams task, by its number; unowned tasks are left out.

    The leader withholds these tasks from other members until they are released (KIP-429). Members
    that get nothing in this rebalance count, too: they may still read. A task that several members
    report has SEVERAL_OWNERS, if one of them can be assigned tasks.
    """
    owners: dict[int, str] = {}
    for member, consumer in sorted(subscriptions.items()):
        for partition in consumer.owned_partitions:
            task = index.index_of_partition.get(partition)
            # A partition of a topic that the topology no longer reads blocks nobody.
            if task is None:
                continue
            previous = owners.setdefault(task, member)
            # Nobody may start the task before both have released it. If neither can be assigned
            # tasks, one name serves as well.
            if previous != member and (member in assignable or previous in assignable):
                owners[task] = SEVERAL_OWNERS
    return owners


def consumer_tasks(group: GroupTasks, assignment: TaskAssignment) -> Iterator[ConsumerTasks]:
    """Yield the tasks of every consumer of a Streams group, from the task assignor's answer.

    A warm-up is among the standby tasks.
    """
    for number, process in enumerate(group.processes):
        threads = assign_tasks_to_threads(
            process.consumers, _process_tasks(group, number, assignment)
        )
        for member, tasks in threads.items():
            yield ConsumerTasks(number, member, tasks)


def _process_tasks(group: GroupTasks, number: int, assignment: TaskAssignment) -> ProcessTasks:
    """Return the tasks of one Streams process, and the previous tasks of each of its consumers.

    A consumer's own tasks come first among its previous ones, then those of which it has state, the
    smallest lag first.
    """
    active = np.flatnonzero(assignment.active == number)
    stateful = group.tasks.stateful[active]
    # On the wire, and for the threads, a warm-up is a standby task (KIP-441).
    copies = np.concatenate((assignment.standby, assignment.warmup))
    standby = np.sort(copies[copies[:, 0] == number, 1])
    owned: dict[str, list[int]] = {}
    for task in active.tolist():
        # A thread that runs the task keeps it before any thread that merely has its state: moving
        # between threads of one process closes and reopens the task.
        owned.setdefault(group.owners.get(task, SEVERAL_OWNERS), []).append(task)
    previous: dict[str, list[int]] = {}
    for member in group.processes[number].consumers:
        numbers, sums = task_offset_sums(group.subscriptions[member], group.task_index)
        tasks = np.array(numbers, np.int64)
        tasks, sums = tasks[tasks >= 0], sums[tasks >= 0]
        lags = lags_behind(sums, group.tasks.end_offset_sum[tasks])
        by_lag = tasks[np.lexsort((tasks, lags))].tolist()
        previous[member] = list(dict.fromkeys([*owned.get(member, ()), *by_lag]))
    return ProcessTasks(
        active[stateful].tolist(), standby.tolist(), active[~stateful].tolist(), previous
    )


Hosts = dict[HostInfo, tuple[TopicPartition, ...]]


def partitions_by_host(group: GroupTasks, assignment: TaskAssignment) -> tuple[Hosts, Hosts]:
    """Return the active and the standby source partitions of each host, for AssignmentInfo.

    Kafka Streams' interactive queries find by it the instance that has a key.
    """
    active: dict[HostInfo, list[TopicPartition]] = {
        process.host: [] for process in group.processes if process.host
    }
    standby: dict[HostInfo, list[TopicPartition]] = {host: [] for host in active}
    for task, owner in enumerate(assignment.active.tolist()):
        if (host := group.processes[owner].host) is not None:
            active[host] += group.task_index.tasks[task].sources
    for owner, task in (*assignment.standby.tolist(), *assignment.warmup.tolist()):
        if (host := group.processes[owner].host) is not None:
            standby[host] += group.task_index.tasks[task].sources
    return _sorted_hosts(active), _sorted_hosts(standby)


def _sorted_hosts(hosts: Mapping[HostInfo, list[TopicPartition]]) -> Hosts:
    """Return the hosts of an AssignmentInfo in order, each partition of a host once."""
    return {
        host: tuple(sorted(dict.fromkeys(partitions))) for host, partitions in sorted(hosts.items())
    }
