"""The assignment of each consumer, from the tasks that the task assignor gave to its client.

A client is one process, a consumer one of its stream threads. Rebalances are cooperative (KIP-429):
an active task that another consumer still owns is withheld for one generation, and the consumer
that waits for it rejoins at once. The tasks of each client are decided before and do not depend on
that, so the group ends in what the task assignor wants.

Example. a owns 0_0 and 0_1, b joins, and 0_1 is to go to b. Now a gets 0_0 and b gets nothing, with
a rebalance at once. In that rebalance a no longer owns 0_1, and b gets it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apportion.streams.metadata.model import AssignmentInfo
from apportion.streams.metadata.probing import VersionDecision
from apportion.streams.task_assignment.client_states import ClientStates, TaskAssignment
from apportion.streams.task_assignment.threads import ThreadTasks
from apportion.streams.task_planning import (
    SEVERAL_OWNERS,
    GroupTasks,
    consumer_tasks,
    partitions_by_host,
)
from apportion.topics import TopicPartition


class ConsumerAssignment(NamedTuple):
    """The assignment of one consumer: its partitions, and the metadata in its user data.

    partitions: in order of topic and number, as `AssignmentInfo.active` needs them.
    """

    partitions: tuple[TopicPartition, ...]
    info: AssignmentInfo


def assign_consumers(
    group: GroupTasks, assignment: TaskAssignment, decision: VersionDecision
) -> dict[str, ConsumerAssignment]:
    """Return the Streams assignment of every consumer, without a probing rebalance.

    `assign_as_leader` calls it with the task assignor's answer.
    """
    # Planned owners, not current ones: interactive queries go where the tasks will be once the
    # withheld ones have moved.
    active_hosts, standby_hosts = partitions_by_host(group, assignment)
    versions = decision.versions
    template = AssignmentInfo(
        versions.used, versions.supported, active_hosts=active_hosts, standby_hosts=standby_hosts
    )
    return {
        member: _consumer_assignment(group, number, member, tasks, template=template)
        for number, member, tasks in consumer_tasks(group, assignment)
    }


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
