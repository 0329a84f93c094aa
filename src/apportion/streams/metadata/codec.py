"""Encodes and decodes Kafka Streams' metadata, versions 1 to 11.

The metadata is the user data of subscriptions and assignments in the classic protocol. Wrong bytes
raise `DecodeError` and nothing else. Bytes after the last field are ignored, as Kafka Streams does.
Entries of maps and sets are written in order, so equal values are equal bytes; Kafka Streams writes
them in the order of its hash tables.

Members that simulate a newer Kafka Streams use a version above the newest one. It is encoded like
version 11. A reader decodes only its two version numbers (KIP-268), unless its own `latest` is as
high.
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
"""The first versions of an assignment with numbered topics, and with hosts of standby tasks."""

# `tuple.__new__` skips the keyword handling of a NamedTuple: thousands of tasks are made at once.
_task = cast("Callable[[Iterable[Any]], TaskId]", partial(tuple.__new__, TaskId))
_partition = cast(
    "Callable[[Iterable[Any]], TopicPartition]", partial(tuple.__new__, TopicPartition)
)


def encode_subscription(info: SubscriptionInfo) -> bytes:
    """Return the user data of a Streams member's JoinGroup: `info` in version `info.used`.

    Fields that the version lacks are left out. Raises EncodeError for a version that its sender
    does not support, and for named topologies before version 10.
    """
    # Versions 1 and 2 do not send the supported version (KIP-268 added it in 3).
    if info.supported < info.used and info.used >= EARLIEST_PROBEABLE:
        raise EncodeError(
            f"StreamsSubscription v{info.used}: supported: {info.supported} is older than "
            "the version used"
        )
    layout = min(info.used, LATEST)
    subscription = StreamsSubscription(
        used=info.used,
        supported=info.supported,
        process_id=info.process_id,
        endpoint=info.endpoint,
        unique=info.unique,
        error=info.error,
        tags=tuple(
            SubscriptionClientTag(key=key, value=value) for key, value in sorted(info.tags.items())
        ),
        **_offset_sum_fields(info.offset_sums, layout),
    )
    return write(subscription, layout)


def decode_subscription(buffer: Buffer, latest: int = LATEST) -> SubscriptionInfo | FutureInfo:
    """Decode a Streams member's subscription user data; FutureInfo for a version above `latest`.

    latest: the newest metadata version of the leader's release. In versions below 7 a task is
    RUNNING or, as a standby, OFFSET_UNKNOWN.
    """
    used = _used_version(buffer)
    # KIP-268: of an unknown version only the two numbers may be decoded, whatever follows them.
    future = _versions(buffer) if used > latest else None
    info = future or read(StreamsSubscription, min(used, LATEST), buffer)[0]
    # Checked for unknown versions as well: the leader takes minima of these numbers.
    if info.supported < used and used >= EARLIEST_PROBEABLE:
        raise DecodeError(
            f"StreamsSubscription v{used}: supported: {info.supported} is older than the "
            "version used"
        )
    if isinstance(info, FutureInfo):
        return info
    return SubscriptionInfo(
        used=used,
        supported=info.supported,
        process_id=info.process_id,
        endpoint=info.endpoint,
        offset_sums=_read_offset_sums(info, min(used, LATEST)),
        unique=info.unique,
        error=info.error,
        tags=_unique_mapping(
            f"StreamsSubscription v{used}: tags",
            [tag.key for tag in info.tags],
            [tag.value for tag in info.tags],
        ),
    )


def encode_assignment(info: AssignmentInfo) -> bytes:
    """Return the user data that a Streams leader assigns: `info` in version `info.used`.

    Fields that the version lacks are left out. Raises EncodeError for named topologies before
    version 10.
    """
    layout = min(info.used, LATEST)
    topics = _numbered_topics(info, layout)
    assignment = StreamsAssignment(
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
        # The topic dictionary must precede the host maps: their rows refer to it by number (version
        # 5 on).
        topics=(tuple(topics.values()), tuple(topics)),
        active_hosts=_host_layouts(info.active_hosts, topics, layout),
        standby_hosts=_host_layouts(info.standby_hosts, topics, layout)
        if layout >= STANDBY_HOSTS_SINCE
        else (),
        error=info.error,
        next_rebalance_ms=NO_REBALANCE
        if info.next_rebalance_ms is None
        else info.next_rebalance_ms,
    )
    return write(assignment, layout)


def decode_assignment(buffer: Buffer, latest: int = LATEST) -> AssignmentInfo | FutureInfo:
    """Decode a Streams member's assignment user data; FutureInfo for a version above `latest`."""
    used = _used_version(buffer)
    # Nothing but the two numbers may be decoded (KIP-268): the layout behind them is unknown.
    if used > latest:
        return _versions(buffer)
    assignment = read(StreamsAssignment, min(used, LATEST), buffer)[0]
    name = f"StreamsAssignment v{used}"
    topics = _unique_mapping(f"{name}: topics", *assignment.topics)
    return AssignmentInfo(
        used=used,
        supported=assignment.supported,
        active=tuple(map(_task, zip(*assignment.active, strict=True))),
        standby=_unique_mapping(
            f"{name}: standby",
            [
                TaskId(task.subtopology, task.partition, task.topology)
                for task in assignment.standby
            ],
            [
                _partitions(f"{name}: standby.partitions", *task.partitions)
                for task in assignment.standby
            ],
        ),
        active_hosts=_read_hosts(f"{name}: active_hosts", assignment.active_hosts, topics),
        standby_hosts=_read_hosts(f"{name}: standby_hosts", assignment.standby_hosts, topics),
        error=assignment.error,
        next_rebalance_ms=None
        if assignment.next_rebalance_ms == NO_REBALANCE
        else assignment.next_rebalance_ms,
    )


def _used_version(buffer: Buffer) -> int:
    return read(StreamsUsedVersion, 0, buffer)[0].used


def _versions(buffer: Buffer) -> FutureInfo:
    """Return the two version numbers with which the Streams metadata of every version begins."""
    used = _used_version(buffer)
    # The second number was added in version 3 (KIP-268); in older ones other fields follow here.
    if used < EARLIEST_PROBEABLE:
        return FutureInfo(used, NO_VERSION)
    return FutureInfo(used, read(StreamsVersions, 0, buffer)[0].supported)


def _offset_sum_fields(sums: Mapping[TaskId, int], version: int) -> dict[str, Any]:
    """Return the fields of a Streams SubscriptionInfo that carry the task offset sums.

    sums: by task; RUNNING, in place of a sum, for an active task that the member runs. version: of
    the Streams metadata.
    """
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
        # Versions 7 to 9 group the sums by subtopology; later ones have one row for each task.
        groups: dict[int, list[tuple[int, int]]] = {}
        for task in tasks:
            groups.setdefault(task.subtopology, []).append((task.partition, sums[task]))
        layouts = (
            SubtopologyOffsetSums(subtopology=number, tasks=_columns(group, 2))
            for number, group in groups.items()
        )
        return {"subtopology_sums": tuple(layouts)}
    # Until version 6 nothing but the two lists exists: a standby's offset sum cannot be sent.
    return {
        "active": _columns([task for task in tasks if sums[task] == RUNNING], 3),
        "standby": _columns([task for task in tasks if sums[task] != RUNNING], 3),
    }


def _read_offset_sums(subscription: StreamsSubscription, version: int) -> dict[TaskId, int]:
    """Return the task offset sums of a Streams subscription that was encoded in that version."""
    field, (subtopologies, partitions, sums, topologies) = "task_sums", subscription.task_sums
    rows: Iterable[tuple[Any, ...]] = zip(
        subtopologies, partitions, [name or None for name in topologies], strict=True
    )
    if version < SUMS_SINCE:
        field = "active and standby"
        rows = chain(
            zip(*subscription.active, strict=True), zip(*subscription.standby, strict=True)
        )
        # Kafka Streams reads versions 1 to 6 the same way: an active task has no lag, and the lag
        # of a standby is unknown.
        sums = (RUNNING,) * len(subscription.active[0]) + (OFFSET_UNKNOWN,) * len(
            subscription.standby[0]
        )
    elif version < NAMES_SINCE:
        field = "subtopology_sums"
        rows = chain.from_iterable(
            zip(repeat(group.subtopology), group.tasks[0], repeat(None))
            for group in subscription.subtopology_sums
        )
        sums = tuple(chain.from_iterable(group.tasks[1] for group in subscription.subtopology_sums))
    return _unique_mapping(
        f"StreamsSubscription v{version}: {field}", tuple(map(_task, rows)), sums
    )


def _numbered_topics(info: AssignmentInfo, version: int) -> dict[str, int]:
    """Return the topic numbers for the host maps of an AssignmentInfo, in order of topic name."""
    # A dictionary lists only topics that its version's host maps name: version 5 has no standby
    # map.
    active = info.active_hosts.values() if version >= NUMBERS_SINCE else ()
    standby = info.standby_hosts.values() if version >= STANDBY_HOSTS_SINCE else ()
    partitions = chain.from_iterable(chain(active, standby))
    return {
        topic: number
        for number, topic in enumerate(sorted({partition.topic for partition in partitions}))
    }


def _host_layouts(
    hosts: Mapping[HostInfo, tuple[TopicPartition, ...]], topics: Mapping[str, int], version: int
) -> tuple[AssignmentHostPartitions, ...]:
    """Return the layout of an AssignmentInfo's host map. topics: their numbers, since version 5."""
    layouts = []
    for host in sorted(hosts):
        names, partitions = _columns(sorted(hosts[host]), 2)
        if version >= NUMBERS_SINCE:
            numbered = (tuple(map(topics.__getitem__, names)), partitions)
            layouts.append(
                AssignmentHostPartitions(host=host.host, port=host.port, numbered=numbered)
            )
        else:
            layouts.append(
                AssignmentHostPartitions(
                    host=host.host, port=host.port, partitions=(names, partitions)
                )
            )
    return tuple(layouts)


def _read_hosts(
    field: str, layouts: tuple[AssignmentHostPartitions, ...], topics: Mapping[int, str]
) -> dict[HostInfo, tuple[TopicPartition, ...]]:
    """Return the partitions of each host of an AssignmentInfo, for interactive queries.

    topics: by number; empty before version 5. Raises DecodeError for an unknown number, and for a
    host or partition that occurs twice.
    """
    hosts = [HostInfo(layout.host, layout.port) for layout in layouts]
    partitions = []
    for layout in layouts:
        numbers, numbered = layout.numbered
        # An assignment comes from another process; an unknown number must fail here and not as a
        # KeyError in the member.
        if unknown := [number for number in numbers if number not in topics]:
            raise DecodeError(f"{field}: no topic has the number {unknown[0]}")
        names = tuple(map(topics.__getitem__, numbers))
        partitions.append(
            _partitions(field, (*layout.partitions[0], *names), (*layout.partitions[1], *numbered))
        )
    return _unique_mapping(field, hosts, partitions)


def _partitions(
    field: str, topics: Iterable[Any], partitions: Iterable[Any]
) -> tuple[TopicPartition, ...]:
    """Return the partitions of one host of an AssignmentInfo, in order.

    Raises DecodeError if one occurs twice.
    """
    pairs = tuple(map(_partition, zip(topics, partitions, strict=True)))
    return tuple(sorted(_unique_mapping(field, pairs, pairs)))


def _unique_mapping(field: str, keys: Collection[K], values: Iterable[V]) -> dict[K, V]:
    """Return a field of Streams metadata as a mapping. Raises DecodeError if a key occurs twice."""
    mapping = dict(zip(keys, values, strict=True))
    if len(mapping) != len(keys):
        repeated = next(key for key, count in Counter(keys).items() if count > 1)
        raise DecodeError(f"{field}: {repeated!s} occurs twice")
    return mapping


def _in_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Return the tasks by subtopology, partition and topology; unnamed topologies come first."""
    tasks = list(tasks)
    named = any(map(itemgetter(2), tasks))
    return (
        sorted(tasks, key=lambda task: (*task[:2], task.topology or "")) if named else sorted(tasks)
    )


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Columns:
    """Return the columns of these rows of Streams metadata; `width` empty ones without rows."""
    # zip() of no rows has no columns at all, and the layouts need their exact number.
    return tuple(zip(*rows, strict=True)) or ((),) * width
