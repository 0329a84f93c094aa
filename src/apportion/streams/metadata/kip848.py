"""The metadata of Kafka Streams for a client-side assignor of KIP-848, which no Kafka shipped.

The KIP names fields and their types. It leaves open the bytes (here version 0 in Kafka's flexible
encoding, like its other schemas), what a tag, a task, a lag and a map consist of (here as in
metadata version 11), and whether its lists of reasons and errors are complete.

An earlier text of KIP-848 had the reason and the error in the metadata. In the later text, which is
followed here, they are beside these bytes, like the version: the reason is a field of the member's
assignor in a heartbeat, the error a field of the assignment. `wire.codec` encodes and decodes the
messages.
"""

from enum import IntEnum
from hashlib import blake2b

from apportion.wire.fields import array, int32, int64, message, octets, string, uuid

VERSION = 0
"""The only version of member metadata and of assignment metadata."""

RESTORE_FAILED = -1
"""In place of a lag: the member could not restore the task as a warm-up (WARM_UP_FAILED)."""

TopologyValue = bytes | str | int | None | tuple["TopologyValue", ...]
"""A description of a topology, as nested tuples of plain values."""


class Reason(IntEnum):
    """The reason for which a member requests a new assignment."""

    NONE = 0
    SHUTDOWN = 1
    WARM_UP_READY = 2
    WARM_UP_FAILED = 3
    TOPOLOGY_CHANGED = 4


class AssignmentError(IntEnum):
    """The error of an assignment. The numbers are not those of `model.AssignorError`.

    MISSING_SOURCES is not the KIP's, which has no number for source topics that do not exist.
    """

    NONE = 0
    SHUTDOWN = 1
    ASSIGNMENT_ERROR = 2
    INCONSISTENT_TOPOLOGY = 3
    MISSING_SOURCES = 4


@message()
class Kip848ClientTag:
    """One client tag."""

    key: str = string()
    value: str = string()


@message()
class Kip848TaskLag:
    """The number of records that the state of a task lacks; or RESTORE_FAILED.

    0 for a task that the member runs.
    """

    subtopology: int = int32()
    partition: int = int32()
    lag: int = int64()


@message(flexible=0)
class Kip848MemberMetadata:
    """The metadata that a member sends to the assignor; `is_allowed_update` says what may change.

    process_id: the same for all members of a process. user_endpoint: "host:port", or empty.
    topology_hash: see `topology_hash`; the KIP says 16 bytes, and not of what. task_lags: of every
    task of which the member has state.
    """

    process_id: bytes = uuid()
    user_endpoint: bytes | memoryview = octets()
    client_tags: tuple[Kip848ClientTag, ...] = array(Kip848ClientTag)
    topology_hash: bytes = uuid()
    task_lags: tuple[Kip848TaskLag, ...] = array(Kip848TaskLag)


@message()
class Kip848ActiveTask:
    """A task that a member runs."""

    subtopology: int = int32()
    partition: int = int32()


@message()
class Kip848TopicPartitions:
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(int32())


@message()
class Kip848Replica:
    """A standby or warm-up task, with its source partitions."""

    subtopology: int = int32()
    partition: int = int32()
    sources: tuple[Kip848TopicPartitions, ...] = array(Kip848TopicPartitions)


@message()
class Kip848HostPartitions:
    """The source partitions of one host, for interactive queries.

    The KIP has one list for active and standby partitions.
    """

    host: str = string()
    port: int = int32()
    partitions: tuple[Kip848TopicPartitions, ...] = array(Kip848TopicPartitions)


@message(flexible=0)
class Kip848AssignmentMetadata:
    """The metadata that the assignor sends to a member beside its partitions.

    active_tasks: the task of each partition of the member's target, in the order of topic and
    number; so a task with two source topics is listed twice. Warm-up tasks have a list of their
    own, unlike in the classic protocol. topology_hash: of the topology whose tasks these are, a
    field that is not the KIP's.
    """

    active_tasks: tuple[Kip848ActiveTask, ...] = array(Kip848ActiveTask)
    standby_tasks: tuple[Kip848Replica, ...] = array(Kip848Replica)
    warmup_tasks: tuple[Kip848Replica, ...] = array(Kip848Replica)
    partitions_by_host: tuple[Kip848HostPartitions, ...] = array(Kip848HostPartitions)
    topology_hash: bytes = uuid(tag=848)


def is_allowed_update(before: Kip848MemberMetadata, now: Kip848MemberMetadata, reason: int) -> bool:
    """Return whether a Streams member may send metadata `now` after `before`, for that reason.

    A rule of the unshipped client-side assignor of KIP-848: process, endpoint and tags never
    change; topology hash and task lags may, with any reason but NONE.
    """
    is_same_member = _fixed_fields(before) == _fixed_fields(now)
    has_same_progress = (before.topology_hash, before.task_lags) == (
        now.topology_hash,
        now.task_lags,
    )
    return is_same_member and (has_same_progress or reason != Reason.NONE)


def topology_hash(topology: TopologyValue) -> bytes:
    """Return 16 bytes that are equal exactly for equal Streams topologies, on every machine.

    For `Kip848MemberMetadata`. Tuples of any type are equal if their parts are. The caller sorts
    what has no order.
    """
    return blake2b(_canonical(topology), digest_size=16).digest()


def _fixed_fields(metadata: Kip848MemberMetadata) -> tuple[object, ...]:
    return metadata.process_id, metadata.user_endpoint, metadata.client_tags


def _canonical(part: TopologyValue) -> bytes:
    """Return bytes from which a part of a topology could be read back, so no two parts collide."""
    if part is None:
        return b"n"
    if isinstance(part, int):
        return b"i%d;" % part
    if isinstance(part, str):
        return b"s" + _length_prefixed(part.encode())
    if isinstance(part, tuple):
        return b"t" + _length_prefixed(b"".join(map(_canonical, part)))
    return b"b" + _length_prefixed(part)


def _length_prefixed(encoded: bytes) -> bytes:
    return b"%d:" % len(encoded) + encoded
