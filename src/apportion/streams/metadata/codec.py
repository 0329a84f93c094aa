"""Kafka Streams' metadata to bytes and back, in versions 1 to 11: what stands in the user data of
subscriptions and assignments.

Nothing but `DecodeError` comes out of wrong bytes. What follows the last field is left alone, as
Kafka Streams does. Entries of maps and sets are written in order, so equal values are equal bytes;
Kafka Streams writes them in the order of its hash tables.

A version above the newest one known here can be written all the same, for members that play a newer
Kafka Streams: as version 11 under that number. Whoever reads takes only its two version numbers,
unless `latest` says that he is from the future, too.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, TypeVar, cast

from apportion.errors import DecodeError, EncodeError
from apportion.streams.metadata.layouts import (
    NO_REBALANCE,
    AssignmentHostPartitions,
    Columns,
    StandbyTask,
    StreamsAssignment,
    StreamsSubscription,
    StreamsUsedVersion,
    StreamsVersions,
    SubscriptionClientTag,
    SubtopologyOffsetSums,
)
from apportion.streams.metadata.model import (
    EARLIEST_PROBEABLE,
    LATEST,
    NO_VERSION,
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    FutureInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.topics import TopicPartition
from apportion.wire.codec import Buffer, read, write

K = TypeVar("K")
V = TypeVar("V")

SUMS_SINCE, NAMES_SINCE = 7, 10
"""The first versions of a subscription with offset sums, and with names of topologies."""
NUMBERS_SINCE, STANDBY_HOSTS_SINCE = 5, 6
"""The first versions of an assignment with topics by number, and with hosts of standby tasks."""

_task = cast("Callable[[Iterable[Any]], TaskId]", partial(tuple.__new__, TaskId))
_partition = cast(
    "Callable[[Iterable[Any]], TopicPartition]", partial(tuple.__new__, TopicPartition)
)


def encode_subscription(info: SubscriptionInfo) -> bytes:
    """`info` in version `info.used`; what that version cannot say is left out.

    EncodeError: for a version that its sender does not support, and for named topologies before
    version 10.
    """
    if info.supported < info.used and info.used >= EARLIEST_PROBEABLE:
        raise EncodeError(
            f"StreamsSubscription v{info.used}: supported: {info.supported} is older than "
            "the version used"
        )
    layout = min(info.used, LATEST)
    said = StreamsSubscription(
        used=info.used,
        supported=info.supported,
        process_id=info.process_id,
        endpoint=info.endpoint,
        unique=info.unique,
        error=info.error,
        tags=tuple(
            SubscriptionClientTag(key=key, value=value) for key, value in sorted(info.tags.items())
        ),
        **_said_of_tasks(info.offset_sums, layout),
    )
    return write(said, layout)


def decode_subscription(buffer: Buffer, latest: int = LATEST) -> SubscriptionInfo | FutureInfo:
    """What a member tells the leader; of a version above `latest` only its version numbers.

    In versions below 7 a task is RUNNING or, as a standby, OFFSET_UNKNOWN.
    """
    used = _used(buffer)
    future = _versions(buffer) if used > latest else None
    said = future or read(StreamsSubscription, min(used, LATEST), buffer)[0]
    if said.supported < used and used >= EARLIEST_PROBEABLE:
        raise DecodeError(
            f"StreamsSubscription v{used}: supported: {said.supported} is older than the "
            "version used"
        )
    if isinstance(said, FutureInfo):
        return said
    return SubscriptionInfo(
        used=used,
        supported=said.supported,
        process_id=said.process_id,
        endpoint=said.endpoint,
        offset_sums=_heard_of_tasks(said, min(used, LATEST)),
        unique=said.unique,
        error=said.error,
        tags=_each_once(
            f"StreamsSubscription v{used}: tags",
            [tag.key for tag in said.tags],
            [tag.value for tag in said.tags],
        ),
    )


def encode_assignment(info: AssignmentInfo) -> bytes:
    """`info` in version `info.used`; what that version cannot say is left out.

    EncodeError: for named topologies before version 10.
    """
    layout = min(info.used, LATEST)
    topics = _topics_of(info, layout)
    said = StreamsAssignment(
        used=info.used,
        supported=info.supported,
        active=_columns(info.active, 3),
        standby=tuple(
            StandbyTask(
                subtopology=task.subtopology,
                partition=task.partition,
                topology=task.topology,
                partitions=_columns(sorted(info.standby[task]), 2),
            )
            for task in _in_order(info.standby)
        ),
        topics=(tuple(topics.values()), tuple(topics)),
        active_hosts=_said_of_hosts(info.active_hosts, topics, layout),
        standby_hosts=_said_of_hosts(info.standby_hosts, topics, layout)
        if layout >= STANDBY_HOSTS_SINCE
        else (),
        error=info.error,
        next_rebalance_ms=NO_REBALANCE
        if info.next_rebalance_ms is None
        else info.next_rebalance_ms,
    )
    return write(said, layout)


def decode_assignment(buffer: Buffer, latest: int = LATEST) -> AssignmentInfo | FutureInfo:
    """What the leader tells a member; of a version above `latest` only its version numbers."""
    used = _used(buffer)
    if used > latest:
        return _versions(buffer)
    said, name = read(StreamsAssignment, min(used, LATEST), buffer)[0], f"StreamsAssignment v{used}"
    topics = _each_once(f"{name}: topics", *said.topics)
    return AssignmentInfo(
        used=used,
        supported=said.supported,
        active=tuple(map(_task, zip(*said.active, strict=True))),
        standby=_each_once(
            f"{name}: standby",
            [TaskId(each.subtopology, each.partition, each.topology) for each in said.standby],
            [_partitions(f"{name}: standby.partitions", *each.partitions) for each in said.standby],
        ),
        active_hosts=_heard_of_hosts(f"{name}: active_hosts", said.active_hosts, topics),
        standby_hosts=_heard_of_hosts(f"{name}: standby_hosts", said.standby_hosts, topics),
        error=said.error,
        next_rebalance_ms=None
        if said.next_rebalance_ms == NO_REBALANCE
        else said.next_rebalance_ms,
    )


def _used(buffer: Buffer) -> int:
    return read(StreamsUsedVersion, 0, buffer)[0].used


def _versions(buffer: Buffer) -> FutureInfo:
    """The version numbers of whatever begins with them."""
    used = _used(buffer)
    if used < EARLIEST_PROBEABLE:
        return FutureInfo(used, NO_VERSION)
    return FutureInfo(used, read(StreamsVersions, 0, buffer)[0].supported)


def _said_of_tasks(sums: Mapping[TaskId, int], version: int) -> dict[str, Any]:
    """The fields of a subscription that say these offset sums in that version."""
    tasks = _in_order(sums)
    if version >= NAMES_SINCE:
        subtopologies, partitions, topologies = _columns(tasks, 3)
        return {
            "task_sums": (
                subtopologies,
                partitions,
                tuple(map(sums.__getitem__, tasks)),
                topologies,
            )
        }
    if any(task.topology is not None for task in tasks):
        raise EncodeError(
            f"StreamsSubscription v{version}: offset_sums: this version has no names of topologies"
        )
    if version >= SUMS_SINCE:
        groups: dict[int, list[tuple[int, int]]] = {}
        for task in tasks:
            groups.setdefault(task.subtopology, []).append((task.partition, sums[task]))
        said = (
            SubtopologyOffsetSums(subtopology=number, tasks=_columns(group, 2))
            for number, group in groups.items()
        )
        return {"subtopology_sums": tuple(said)}
    return {
        "active": _columns([task for task in tasks if sums[task] == RUNNING], 3),
        "standby": _columns([task for task in tasks if sums[task] != RUNNING], 3),
    }


def _heard_of_tasks(said: StreamsSubscription, version: int) -> dict[TaskId, int]:
    """The offset sums that a subscription of that version says."""
    field, (subtopologies, partitions, sums, topologies) = "task_sums", said.task_sums
    rows: Iterable[tuple[Any, ...]] = zip(
        subtopologies, partitions, [name or None for name in topologies], strict=True
    )
    if version < SUMS_SINCE:
        field, rows = (
            "active and standby",
            chain(zip(*said.active, strict=True), zip(*said.standby, strict=True)),
        )
        sums = (RUNNING,) * len(said.active[0]) + (OFFSET_UNKNOWN,) * len(said.standby[0])
    elif version < NAMES_SINCE:
        field = "subtopology_sums"
        rows = chain.from_iterable(
            zip(repeat(group.subtopology), group.tasks[0], repeat(None))
            for group in said.subtopology_sums
        )
        sums = tuple(chain.from_iterable(group.tasks[1] for group in said.subtopology_sums))
    return _each_once(f"StreamsSubscription v{version}: {field}", tuple(map(_task, rows)), sums)


def _topics_of(info: AssignmentInfo, version: int) -> dict[str, int]:
    """Every topic of which that version says that a host has something, and its number, in
    order.
    """
    active = info.active_hosts.values() if version >= NUMBERS_SINCE else ()
    standby = info.standby_hosts.values() if version >= STANDBY_HOSTS_SINCE else ()
    partitions = chain.from_iterable(chain(active, standby))
    return {
        topic: number for number, topic in enumerate(sorted({each.topic for each in partitions}))
    }


def _said_of_hosts(
    hosts: Mapping[HostInfo, tuple[TopicPartition, ...]], topics: Mapping[str, int], version: int
) -> tuple[AssignmentHostPartitions, ...]:
    """The layout of what hosts have. topics: their numbers, in versions that say these."""
    said = []
    for host in sorted(hosts):
        names, partitions = _columns(sorted(hosts[host]), 2)
        if version >= NUMBERS_SINCE:
            numbered = (tuple(map(topics.__getitem__, names)), partitions)
            said.append(AssignmentHostPartitions(host=host.host, port=host.port, numbered=numbered))
        else:
            said.append(
                AssignmentHostPartitions(
                    host=host.host, port=host.port, partitions=(names, partitions)
                )
            )
    return tuple(said)


def _heard_of_hosts(
    field: str, said: tuple[AssignmentHostPartitions, ...], topics: Mapping[int, str]
) -> dict[HostInfo, tuple[TopicPartition, ...]]:
    """What the hosts have, of which a layout says it. topics: by their numbers."""
    hosts = [HostInfo(each.host, each.port) for each in said]
    partitions = []
    for each in said:
        numbers, numbered = each.numbered
        if unknown := [number for number in numbers if number not in topics]:
            raise DecodeError(f"{field}: no topic has the number {unknown[0]}")
        names = tuple(map(topics.__getitem__, numbers))
        partitions.append(
            _partitions(field, (*each.partitions[0], *names), (*each.partitions[1], *numbered))
        )
    return _each_once(field, hosts, partitions)


def _partitions(
    field: str, topics: Iterable[Any], partitions: Iterable[Any]
) -> tuple[TopicPartition, ...]:
    """These partitions in order; DecodeError if one is there twice."""
    found = tuple(map(_partition, zip(topics, partitions, strict=True)))
    return tuple(sorted(_each_once(field, found, found)))


def _each_once(field: str, keys: Collection[K], values: Iterable[V]) -> dict[K, V]:
    """A map of these keys to these values; DecodeError if a key is there twice."""
    found = dict(zip(keys, values, strict=True))
    if len(found) != len(keys):
        twice = next(key for key, times in Counter(keys).items() if times > 1)
        raise DecodeError(f"{field}: {twice!s} is there twice")
    return found


def _in_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """The tasks by their numbers; of two with the same numbers the one without a topology's name is
    first.
    """
    tasks = list(tasks)
    named = any(map(itemgetter(2), tasks))
    return (
        sorted(tasks, key=lambda task: (*task[:2], task.topology or "")) if named else sorted(tasks)
    )


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Columns:
    """The columns of these rows; as many where there is no row."""
    return tuple(zip(*rows, strict=True)) or ((),) * width
