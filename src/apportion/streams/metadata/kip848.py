"""What Kafka Streams would tell a group of KIP-848 through an assignor of its own, on the side of
the clients. No Kafka shipped it.

The page names fields and their types, and leaves open: the bytes (here version 0 in Kafka's
flexible encoding, as its other schemas), what a tag, a task, a lag and a map are made of (here as
in metadata version 11), and whether its lists of reasons and errors are complete. Its earlier
wording had both numbers among the metadata. In the later one, followed here, they are not: the
reason is a field of the member's assignor in a heartbeat, the error one of the assignment, each
beside these bytes, as is the version that these bytes are in. `wire.codec` reads and writes them.
"""

from enum import IntEnum
from hashlib import blake2b

from apportion.wire.fields import array, int32, int64, message, octets, string, uuid

VERSION = 0
"""The only version of both."""

Part = bytes | str | int | None | tuple["Part", ...]
"""What a topology is described by: its parts, and those of its parts."""


class Reason(IntEnum):
    """Why a member wants a new assignment."""

    NONE = 0
    SHUTDOWN = 1
    WARM_UP_READY = 2
    WARM_UP_FAILED = 3
    TOPOLOGY_CHANGED = 4


class AssignmentError(IntEnum):
    """Why an assignment is none. The numbers are not those of `words.AssignorError`."""

    NONE = 0
    SHUTDOWN = 1
    ASSIGNMENT_ERROR = 2
    INCONSISTENT_TOPOLOGY = 3


@message()
class Kip848ClientTag:
    """One client tag."""

    key: str = string()
    value: str = string()


@message()
class Kip848TaskLag:
    """How many records the state of a task lacks."""

    subtopology: int = int32()
    partition: int = int32()
    lag: int = int64()


@message(flexible=0)
class Kip848MemberMetadata:
    """What a member tells the assignor. See `may_follow` for what of it may change.

    process_id: the same for all members of a process. user_endpoint: "host:port", or nothing.
    topology_hash: see there; by the page 16 bytes, of what it does not say. task_lags: of every
    task of which the member has something.
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
    """A task whose state a member keeps, and the source partitions of that task."""

    subtopology: int = int32()
    partition: int = int32()
    sources: tuple[Kip848TopicPartitions, ...] = array(Kip848TopicPartitions)


@message()
class Kip848HostPartitions:
    """The source partitions whose state can be asked for at one host. The page merges active and
    standby ones.
    """

    host: str = string()
    port: int = int32()
    partitions: tuple[Kip848TopicPartitions, ...] = array(Kip848TopicPartitions)


@message(flexible=0)
class Kip848AssignmentMetadata:
    """What the assignor tells a member beside its partitions. Warm-up tasks stand apart from the
    standby ones that stay.
    """

    active_tasks: tuple[Kip848ActiveTask, ...] = array(Kip848ActiveTask)
    standby_tasks: tuple[Kip848Replica, ...] = array(Kip848Replica)
    warmup_tasks: tuple[Kip848Replica, ...] = array(Kip848Replica)
    partitions_by_host: tuple[Kip848HostPartitions, ...] = array(Kip848HostPartitions)


def is_allowed_update(before: Kip848MemberMetadata, now: Kip848MemberMetadata, reason: int) -> bool:
    """A member that said `before` may say `now` for that reason.

    Process, endpoint and tags never change; topology hash and task lags may, with any reason but
    NONE.
    """
    is_same_member = _fixed_fields(before) == _fixed_fields(now)
    says_as_much = (before.topology_hash, before.task_lags) == (now.topology_hash, now.task_lags)
    return is_same_member and (says_as_much or reason != Reason.NONE)


def topology_hash(topology: Part) -> bytes:
    """16 bytes that are equal for equal topologies, in every process and on every machine, and else
    differ.

    Tuples of any type are equal if their parts are. What has no order has to come in one.
    """
    return blake2b(_canonical(topology), digest_size=16).digest()


def _fixed_fields(said: Kip848MemberMetadata) -> tuple[object, ...]:
    return said.process_id, said.user_endpoint, said.client_tags


def _canonical(part: Part) -> bytes:
    """Bytes from which the part could be read back."""
    if part is None:
        return b"n"
    if isinstance(part, int):
        return b"i%d;" % part
    if isinstance(part, str):
        return b"s" + _length_prefixed(part.encode())
    if isinstance(part, tuple):
        return b"t" + _length_prefixed(b"".join(map(_canonical, part)))
    return b"b" + _length_prefixed(part)


def _length_prefixed(said: bytes) -> bytes:
    return b"%d:" % len(said) + said
