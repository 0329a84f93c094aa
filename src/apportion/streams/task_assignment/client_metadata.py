"""Who is in the group and what each process has: from what consumers say to the arrays of
`crew.py`.

Consumers that carry one process id are threads of one process. Those whose words cannot be read, as
they are from the future, count as threads of one more process, of which nothing is known.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apportion.streams.metadata.model import RUNNING, FutureInfo, HostInfo, SubscriptionInfo, TaskId
from apportion.streams.task_assignment.client_states import ClientStates, Longs, Tasks
from apportion.streams.topology import Task
from apportion.topics import TopicPartition

OFFSET_SUMS_SINCE = 7
"""The first metadata version whose members say what they run; cooperative ones of before only say
what they own.
"""
FUTURE_PROCESS_ID = b""
"""The process id of all who speak a version from the future."""


class ConsumerMetadata(NamedTuple):
    """What the leader heard of one consumer. info: None: nothing that can be read, so it gets
    nothing.

    owned: what it reads, or may read, until it is told otherwise. fits: it subscribes to what the
    leader's topology reads.
    """

    info: SubscriptionInfo | FutureInfo | None
    owned_partitions: tuple[TopicPartition, ...] = ()
    subscribes_to_topology: bool = True


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """One process. consumers: member ids, in order. host: where it answers queries; None if it does
    not say, or nonsense.
    """

    process_id: bytes
    consumers: tuple[str, ...]
    host: HostInfo | None
    tags: Mapping[str, str]


def group_by_process(said: Mapping[str, ConsumerMetadata]) -> tuple[ClientMetadata, ...]:
    """The processes in order of their ids. What is said of a process as a whole is taken from its
    first consumer.
    """
    threads: dict[bytes, list[str]] = {}
    for member in sorted(said):
        info = said[member].info
        threads.setdefault(
            info.process_id if isinstance(info, SubscriptionInfo) else FUTURE_PROCESS_ID, []
        ).append(member)
    return tuple(
        _client_metadata(id_, members, said[members[0]].info)
        for id_, members in sorted(threads.items())
    )


def _client_metadata(
    id_: bytes, members: list[str], info: SubscriptionInfo | FutureInfo | None
) -> ClientMetadata:
    if not isinstance(info, SubscriptionInfo):
        return ClientMetadata(id_, tuple(members), None, {})
    return ClientMetadata(id_, tuple(members), host_or_none(info.endpoint), info.tags)


ENDPOINT_PATTERN = re.compile(r"(?:[\w.%-]*://)?\[?([\w.:%-]+?)\]?:([0-9]{1,10})", re.ASCII)
MAX_ENDPOINT_CHARS = 1_000
"""Characters; a host has 255 at most."""


def host_or_none(endpoint: str) -> HostInfo | None:
    """The host of "host:port", "[::1]:port" or "scheme://host:port", as Kafka's clients read it;
    None for anything else.
    """
    found = ENDPOINT_PATTERN.fullmatch(endpoint) if len(endpoint) <= MAX_ENDPOINT_CHARS else None
    if found is None or int(found[2]) >= 2**31:
        return None
    return HostInfo(found[1], int(found[2]))


class TaskIndex(NamedTuple):
    """The tasks by number, and the numbers of tasks and of source partitions."""

    tasks: Sequence[Task]
    index_of_task: Mapping[TaskId, int]
    index_of_partition: Mapping[TopicPartition, int]


def index_tasks(tasks: Sequence[Task]) -> TaskIndex:
    """Tasks, in order of their ids, by number."""
    return TaskIndex(
        tasks,
        {task.id: number for number, task in enumerate(tasks)},
        {place: number for number, task in enumerate(tasks) for place in task.sources},
    )


def task_arrays(numbers: TaskIndex, end: Longs) -> Tasks:
    """The tasks as an assignor wants to see them. end: the sum of the end offsets of each one's
    changelogs.
    """
    ids = np.array([task.id[:2] for task in numbers.tasks], np.int32).reshape(-1, 2)
    stateful = np.array([bool(task.changelogs) for task in numbers.tasks], np.bool_)
    return Tasks(ids[:, 0].copy(), ids[:, 1].copy(), stateful, end)


def build_client_states(
    processes: Sequence[ClientMetadata],
    said: Mapping[str, ConsumerMetadata],
    numbers: TaskIndex,
    end: Longs,
) -> ClientStates:
    """What each process has of each task. Tasks that nobody knows any more are passed over.

    A task is active where a consumer says that it runs it. One that it owns and says nothing of is,
    too, if there is no state to speak of, or its words cannot say so, or cannot be read; else it
    restores it, and has nothing of its state yet. Of several threads of a process the one with the
    smallest lag counts.
    """
    parts = [
        _task_rows(number, said[member], numbers)
        for number, process in enumerate(processes)
        for member in process.consumers
    ]
    process_, task_, sums, owns = np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1)
    lag, active = lags_behind(sums, end[task_]), sums == RUNNING
    order = np.lexsort((~active, lag, task_, process_))
    process_, task_, lag, active, prior = (
        process_[order],
        task_[order],
        lag[order],
        active[order],
        (active | (owns > 0))[order],
    )
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


def _task_rows(process: int, consumer: ConsumerMetadata, numbers: TaskIndex) -> Longs:
    """ClientMetadata, task, offset sum, and whether it owns it, of all that one consumer says to
    have, or owns.
    """
    told, sums = task_offset_sums(consumer, numbers)
    known = dict.fromkeys(told)
    owned = dict.fromkeys(
        numbers.index_of_partition.get(place, -1) for place in consumer.owned_partitions
    )
    mute = not isinstance(consumer.info, SubscriptionInfo) or consumer.info.used < OFFSET_SUMS_SINCE
    more = [task for task in owned if task not in known]
    runs = [RUNNING if mute or not numbers.tasks[task].changelogs else 0 for task in more]
    task = np.array([*told, *more], np.int64)
    owns = [each in owned for each in (*told, *more)]
    rows = np.stack(
        (
            np.full(len(task), process),
            task,
            np.array([*sums, *runs], np.int64),
            np.array(owns, np.int64),
        )
    )
    return rows[:, task >= 0]


def task_offset_sums(consumer: ConsumerMetadata, numbers: TaskIndex) -> tuple[list[int], Longs]:
    """The tasks, by number, of which a consumer says to have something, -1 for one that nobody
    knows, and their offset sums.
    """
    if not isinstance(consumer.info, SubscriptionInfo):
        return [], np.empty(0, np.int64)
    told = consumer.info.offset_sums
    return [numbers.index_of_task.get(id_, -1) for id_ in told], np.fromiter(
        told.values(), np.int64, len(told)
    )


def lags_behind(sums: Longs, end: Longs) -> Longs:
    """What is missing of `end` where `sums` is there. Who has more than there is, or says what is
    no offset, has to begin anew.
    """
    known = (sums >= 0) & (sums <= end)
    return np.where(sums == RUNNING, 0, np.where(known, end - np.where(known, sums, 0), end))
