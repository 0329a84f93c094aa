"""Turns the subscriptions of consumers into the arrays of the task assignors (`client_states.py`).

Consumers with the same process id are stream threads of one client. Consumers whose subscriptions
cannot be decoded, because they come from the future, count as threads of one more client without
any known state, as in Kafka.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apportion.settings import MAX_INT32
from apportion.streams.metadata.model import RUNNING, FutureInfo, HostInfo, SubscriptionInfo, TaskId
from apportion.streams.task_assignment.client_states import ClientStates, Longs, Tasks
from apportion.streams.topology import Task
from apportion.topics import TopicPartition

OFFSET_SUMS_SINCE = 7
"""The first metadata version with offset sums (KIP-441).

Cooperative members of 2.4 and 2.5 report running tasks by their owned partitions alone.
"""
FUTURE_PROCESS_ID = b""
"""The process id of all members that use a metadata version from the future."""


class ConsumerMetadata(NamedTuple):
    """The decoded subscription of one consumer, as the leader sees it.

    info: None if it cannot be decoded; the consumer gets nothing then. owned_partitions: what it
    may read until it adopts another assignment (KIP-429). subscribes_to_topology: whether it
    subscribes to all topics that the leader's topology reads.
    """

    info: SubscriptionInfo | FutureInfo | None
    owned_partitions: tuple[TopicPartition, ...] = ()
    subscribes_to_topology: bool = True


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """One process with its consumers.

    consumers: member ids, in order. host: where it answers interactive queries
    (`application.server`); None if it does not say, or says what is no endpoint. tags: client tags
    (KIP-708).
    """

    process_id: bytes
    consumers: tuple[str, ...]
    host: HostInfo | None
    tags: Mapping[str, str]


def group_by_process(subscriptions: Mapping[str, ConsumerMetadata]) -> tuple[ClientMetadata, ...]:
    """Return the Streams processes of the group's consumers, in order of their process ids.

    Host and tags of a process are those of its first consumer, as all consumers send the same.
    """
    # In order of member ids, so that every leader comes to the same assignment from the same
    # subscriptions.
    threads: dict[bytes, list[str]] = {}
    for member in sorted(subscriptions):
        info = subscriptions[member].info
        threads.setdefault(
            info.process_id if isinstance(info, SubscriptionInfo) else FUTURE_PROCESS_ID, []
        ).append(member)
    # In order of the process ids, so that equal subscriptions give equal assignments.
    return tuple(
        _client_metadata(id_, members, subscriptions[members[0]].info)
        for id_, members in sorted(threads.items())
    )


def _client_metadata(
    id_: bytes, members: list[str], info: SubscriptionInfo | FutureInfo | None
) -> ClientMetadata:
    """Return the Streams process of these members, by the subscription of its first consumer."""
    if not isinstance(info, SubscriptionInfo):
        return ClientMetadata(id_, tuple(members), None, {})
    return ClientMetadata(id_, tuple(members), host_or_none(info.endpoint), info.tags)


ENDPOINT_PATTERN = re.compile(r"(?:[\w.%-]*://)?\[?([\w.:%-]+?)\]?:([0-9]{1,10})", re.ASCII)
MAX_ENDPOINT_CHARS = 1_000
"""Characters; a host has 255 at most."""


def host_or_none(endpoint: str) -> HostInfo | None:
    """Return the host of a Streams `application.server`: "host:port", "[::1]:port", or with scheme.

    Parsed as Kafka's clients do. Returns None for anything else.
    """
    # Bounded first: the endpoint comes from other processes, and the pattern should not run over a
    # megabyte.
    match = ENDPOINT_PATTERN.fullmatch(endpoint) if len(endpoint) <= MAX_ENDPOINT_CHARS else None
    if match is None or int(match[2]) > MAX_INT32:
        return None
    return HostInfo(match[1], int(match[2]))


class TaskIndex(NamedTuple):
    """The tasks by number, and the numbers of tasks and of source partitions.

    Task assignors know tasks by these numbers alone.
    """

    tasks: Sequence[Task]
    index_of_task: Mapping[TaskId, int]
    index_of_partition: Mapping[TopicPartition, int]


def index_tasks(tasks: Sequence[Task]) -> TaskIndex:
    """Return the index of these Streams tasks, which come in order of their ids."""
    return TaskIndex(
        tasks,
        {task.id: number for number, task in enumerate(tasks)},
        {partition: number for number, task in enumerate(tasks) for partition in task.sources},
    )


def task_arrays(index: TaskIndex, end_offset_sums: Longs) -> Tasks:
    """Return the Streams tasks as arrays for the task assignors, by task number.

    end_offset_sums: of the changelogs of each task.
    """
    ids = np.array([task.id[:2] for task in index.tasks], np.int32).reshape(-1, 2)
    stateful = np.array([bool(task.changelogs) for task in index.tasks], np.bool_)
    return Tasks(ids[:, 0].copy(), ids[:, 1].copy(), stateful, end_offset_sums)


def build_client_states(
    processes: Sequence[ClientMetadata],
    subscriptions: Mapping[str, ConsumerMetadata],
    index: TaskIndex,
    end_offset_sums: Longs,
) -> ClientStates:
    """Return what each Streams process has of each task, for the leader's task assignor.

    Tasks that the topology lacks are left out. A task runs where a consumer reports RUNNING. A task
    that a consumer owns and does not report runs as well if it has no state, or if the subscription
    has no offset sums; otherwise it is restoring, and nothing of its state counts yet. Of several
    threads of one process the row with the smallest lag counts.
    """
    rows = [
        _task_rows(number, subscriptions[member], index)
        for number, process in enumerate(processes)
        for member in process.consumers
    ]
    process_, task_, sums, owns = np.concatenate([np.empty((4, 0), np.int64), *rows], axis=1)
    # The first row of each process and task is kept; the order of the sort says which one that is.
    lag, active = lags_behind(sums, end_offset_sums[task_]), sums == RUNNING
    # By process and task, the best row first: a running thread, then the one with the smallest lag.
    order = np.lexsort((~active, lag, task_, process_))
    prior = (active | (owns > 0))[order]
    process_, task_, lag, active = process_[order], task_[order], lag[order], active[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (process_[1:] != process_[:-1]) | (task_[1:] != task_[:-1])
    consumers = np.array([len(process.consumers) for process in processes], np.int32)
    tags = tuple(process.tags for process in processes)
    prior = np.logical_or.reduceat(prior, np.flatnonzero(first)) if len(prior) else prior
    return ClientStates(
        consumers,
        tags,
        process_[first].astype(np.int32),
        task_[first].astype(np.int32),
        lag[first],
        active[first],
        prior,
    )


def _task_rows(process: int, consumer: ConsumerMetadata, index: TaskIndex) -> Longs:
    """Return one Streams consumer's rows: process, task, offset sum, and 1 if it owns the task.

    There is one row for each task that it reports or owns.
    """
    reported, sums = task_offset_sums(consumer, index)
    known = dict.fromkeys(reported)
    owned = dict.fromkeys(
        index.index_of_partition.get(partition, -1) for partition in consumer.owned_partitions
    )
    # Before KIP-441 (metadata version 7) owning the partitions is all that says that a task runs.
    lacks_offset_sums = (
        not isinstance(consumer.info, SubscriptionInfo) or consumer.info.used < OFFSET_SUMS_SINCE
    )
    # KIP-429: an owned partition is not read by others, so its task counts as assigned here.
    unreported = [task for task in owned if task not in known]
    assumed_sums = [
        RUNNING if lacks_offset_sums or not index.tasks[task].changelogs else 0
        for task in unreported
    ]
    task = np.array([*reported, *unreported], np.int64)
    owns = [number in owned for number in (*reported, *unreported)]
    rows = np.stack(
        (
            np.full(len(task), process),
            task,
            np.array([*sums, *assumed_sums], np.int64),
            np.array(owns, np.int64),
        )
    )
    return rows[:, task >= 0]


def task_offset_sums(consumer: ConsumerMetadata, index: TaskIndex) -> tuple[list[int], Longs]:
    """Return the numbers of the tasks that a Streams consumer reports, and their offset sums.

    The number is -1 for a task that the topology lacks.
    """
    if not isinstance(consumer.info, SubscriptionInfo):
        return [], np.empty(0, np.int64)
    offset_sums = consumer.info.offset_sums
    return [index.index_of_task.get(id_, -1) for id_ in offset_sums], np.fromiter(
        offset_sums.values(), np.int64, len(offset_sums)
    )


def lags_behind(sums: Longs, end_offset_sums: Longs) -> Longs:
    """Return how many offsets each Streams state store lacks of the end offsets of its changelogs.

    As in Kafka, it is the whole changelog for an offset sum beyond the end offsets, and for one
    that is no offset: such state must be restored from the beginning.
    """
    known = (sums >= 0) & (sums <= end_offset_sums)
    return np.where(
        sums == RUNNING,
        0,
        np.where(known, end_offset_sums - np.where(known, sums, 0), end_offset_sums),
    )
