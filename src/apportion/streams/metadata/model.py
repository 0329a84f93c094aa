"""Tasks, and the metadata of Kafka Streams' subscriptions and assignments, as values.

Every field of every metadata version is here; `layouts.py` declares which version has which.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from apportion.topics import TopicPartition

EARLIEST_PROBEABLE = 3
"""The first metadata version whose leaders answer an unknown version instead of failing
(KIP-268).
"""
LATEST = 11
"""The newest metadata version that is known here; Kafka 4.4.0's, too."""
NO_VERSION = -1
"""The newest supported version in metadata of versions 1 and 2, which lack that field."""

RUNNING = -2
"""In place of an offset sum: the client runs the task, so its lag is 0."""
OFFSET_UNKNOWN = -3
"""In place of an offset sum: the client has some state of the task but does not know how much."""


class TaskId(NamedTuple):
    """One task: a partition of one subtopology.

    topology: the name of a named topology (since metadata version 10), mostly None.
    """

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        name = f"{self.subtopology}_{self.partition}"
        return name if self.topology is None else f"{self.topology}__{name}"


class HostInfo(NamedTuple):
    """Address at which an instance answers interactive queries (`application.server`)."""

    host: str
    port: int


class AssignorError(IntEnum):
    """The error code of an assignment.

    A member's subscription may carry SHUTDOWN_REQUESTED, and no other code (KIP-671).
    """

    NONE = 0
    INCOMPLETE_SOURCE_TOPIC_METADATA = 1
    VERSION_PROBING = 2
    ASSIGNMENT_ERROR = 3
    SHUTDOWN_REQUESTED = 4


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """The metadata of one consumer's subscription (Kafka's SubscriptionInfo).

    used: the metadata version that it is encoded in. supported: the newest one that its sender
    understands; NO_VERSION in versions 1 and 2. process_id: 16 bytes, the same for all consumers of
    a process. endpoint: "host:port" or "". offset_sums: for every task of which the process has
    state, active or not: the sum of its changelogs' offsets, or RUNNING, or OFFSET_UNKNOWN. unique:
    changes with each JoinGroup, so that the coordinator starts a rebalance. tags: the process's
    client tags (KIP-708), in the order of their bytes.
    """

    used: int
    supported: int = NO_VERSION
    process_id: bytes = bytes(16)
    endpoint: str = ""
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    unique: int = 0
    error: int = AssignorError.NONE
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FutureInfo:
    """The readable part of metadata in a version from the future: its two version numbers."""

    used: int
    supported: int


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """The metadata of one consumer's assignment (Kafka's AssignmentInfo).

    used: the metadata version that it is encoded in. supported: the newest one that all members
    understand; NO_VERSION in versions 1 and 2. active: the task of each assigned partition, in the
    order of topic and number; so a task with two source topics is listed twice. standby: each
    standby task with its source partitions; warm-ups are among them. active_hosts, standby_hosts:
    the source partitions that are active or standby on each host, for interactive queries.
    next_rebalance_ms: the wall-clock time at which the consumer rejoins (0: at once); None: it does
    not.
    """

    used: int
    supported: int = NO_VERSION
    active: tuple[TaskId, ...] = ()
    standby: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    active_hosts: Mapping[HostInfo, tuple[TopicPartition, ...]] = field(default_factory=dict)
    standby_hosts: Mapping[HostInfo, tuple[TopicPartition, ...]] = field(default_factory=dict)
    error: int = AssignorError.NONE
    next_rebalance_ms: int | None = None
