"""The assignment of each consumer, from the tasks that the task assignor gave to its client.

A client is one process, a consumer one of its stream threads. Rebalances are cooperative (KIP-429):
an active task that another consumer still owns is withheld for one generation, and the consumer
that waits for it rejoins at once. The tasks of each client are decided before and do not depend on
that, so the group ends in what the task assignor wants.

Example. a owns 0_0 and 0_1, b joins, and 0_1 is to go to b. Now a gets 0_0 and b gets nothing, with
a rebalance at once. In that rebalance a no longer owns 0_1, and b gets it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apportion.streams.metadata.model import AssignmentInfo, HostInfo
from apportion.streams.metadata.probing import VersionDecision
from apportion.streams.task_assignment.client_metadata import (
    ClientMetadata,
    ConsumerMetadata,
    TaskIndex,
    lags_behind,
    task_offset_sums,
)
from apportion.streams.task_assignment.client_states import ClientStates, TaskAssignment, Tasks
from apportion.streams.task_assignment.threads import (
    ProcessTasks,
    ThreadTasks,
    assign_tasks_to_threads,
)
from apportion.topics import TopicPartition

SEVERAL_OWNERS = ""
"""In place of a member id: several members report that they own the task."""


class ConsumerAssignment(NamedTuple):
    """The assignment of one consumer: its partitions, and the metadata in its user data.

    partitions: in order of topic and number, as `AssignmentInfo.active` needs them.
    """

    partitions: tuple[TopicPartition, ...]
    info: AssignmentInfo


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


def assign_consumers(
    group: GroupTasks, assignment: TaskAssignment, decision: VersionDecision
) -> dict[str, ConsumerAssignment]:
    """Return the Streams assignment of every consumer, without a probing rebalance.

    `assign_as_leader` calls it with the task assignor's answer.
    """
    # Planned owners, not current ones: interactive queries go where the tasks will be once the
    # withheld ones have moved.
    active_hosts, standby_hosts = _partitions_by_host(group, assignment)
    versions = decision.versions
    template = AssignmentInfo(
        versions.used, versions.supported, active_hosts=active_hosts, standby_hosts=standby_hosts
    )
    return {
        member: _consumer_assignment(group, number, member, tasks, template=template)
        for number, process in enumerate(group.processes)
        for member, tasks in assign_tasks_to_threads(
            process.consumers, _process_tasks(group, number, assignment)
        ).items()
    }


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


def _consumer_assignment(
    group: GroupTasks, process: int, member: str, assigned: ThreadTasks, *, template: AssignmentInfo
) -> ConsumerAssignment:
    """Return the assignment of one Streams consumer, for the leader's SyncGroup request.

    As in Kafka, a task that another consumer still owns is withheld. If the process has state of
    it, the task is assigned as a standby meanwhile, so that the process keeps that state.
    """
    tasks = group.task_index.tasks
    # The whole task is withheld, never single partitions of it: a task that reads one of two joined
    # topics would join wrongly.
    withheld = dict.fromkeys(
        task for task in assigned.active if group.is_owned_by_another(task, member)
    )
    # AssignmentInfo lists one task for each partition, in the order of the partitions.
    active = sorted(
        (partition, tasks[task].id)
        for task in assigned.active
        if task not in withheld
        for partition in tasks[task].sources
    )
    kept_as_standby = [
        task
        for task in withheld
        if group.tasks.stateful[task] and _has_standby_state(group.client_states, process, task)
    ]
    # The owner revokes in this rebalance; nextRebalanceMs 0 makes this member come back for the
    # task as soon as that has happened.
    rejoins_at_once = any(_may_be_released_soon(group, task) for task in withheld)
    info = replace(
        template,
        active=tuple(id_ for _, id_ in active),
        standby={
            tasks[task].id: tasks[task].sources
            for task in sorted((*assigned.standby, *kept_as_standby))
        },
        next_rebalance_ms=0 if rejoins_at_once else None,
    )
    return ConsumerAssignment(tuple(partition for partition, _ in active), info)


def _may_be_released_soon(group: GroupTasks, task: int) -> bool:
    """Return whether a Streams task withheld from its new owner may be free at the next rebalance.

    The task may be if the previous owner learns from this rebalance that it lost the task; then the
    new owner rejoins at once (KIP-429). At least one of SEVERAL_OWNERS is assigned tasks and so
    learns of the loss.
    task: its number in the leader's index. An owner that is assigned nothing, because its
    subscription cannot be read, rejoins by itself once it has released the task. If it never does,
    the others must not rebalance for ever.
    """
    owner = group.owners[task]
    # An unknown owner would leave this member rejoining in a loop, each time with the same answer.
    return owner == SEVERAL_OWNERS or owner in group.subscriptions


def _has_standby_state(states: ClientStates, process: int, task: int) -> bool:
    """Return whether the Streams process has state of the task that no active task of it uses."""
    # The rows of `states` are sorted by process and task.
    start, stop = np.searchsorted(states.process, (process, process + 1))
    row = start + int(np.searchsorted(states.task[start:stop], task))
    return bool(row < stop and states.task[row] == task and not states.previously_active[row])


Hosts = dict[HostInfo, tuple[TopicPartition, ...]]


def _partitions_by_host(group: GroupTasks, assignment: TaskAssignment) -> tuple[Hosts, Hosts]:
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
