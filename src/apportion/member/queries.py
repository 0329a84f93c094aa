"""Queries that rules ask their membership and the cluster.

Each is a value. A rule (`apportion.rules`) yields one and is sent the answer; the drivers that
answer are `client.consumer`, `spark.batch_member`, the simulator's actors, and tests. Further
queries are in `member.batch.queries` (micro-batches) and `member.records.queries` (single records).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from apportion.member.membership import MemberAssignment, View
from apportion.member.streams.assignor import TaskShare
from apportion.topics import TopicIdPartition


@dataclass(frozen=True, slots=True)
class ReadMembership:
    """Read the member's present state. Answer: MembershipSnapshot, without waiting."""


@dataclass(frozen=True, slots=True)
class ExistingTopics:
    """Fetch metadata of the named topics that exist. Answer: Topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResolveTopicNames:
    """Look up the topic names of an assignment's ids.

    Answer: tuple[TopicIdPartition, ...] in order, without topics that the cluster does not know.
    """

    partitions: MemberAssignment


@dataclass(frozen=True, slots=True)
class AdoptAssignment:
    """Report to the member that exactly `target` is in use from now on (`Adopted`).

    Answer: View, after the member has taken the event.
    """

    incarnation: int
    target: MemberAssignment


@dataclass(frozen=True, slots=True)
class FetchCommitted:
    """Fetch the group's committed offsets.

    incarnation: of the member that asks; 0 to ask without a member id. Answer:
    dict[TopicIdPartition, OffsetAndMetadata].
    """

    partitions: tuple[TopicIdPartition, ...]
    incarnation: int


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit offsets to the group.

    incarnation: of the member that commits; 0 to commit without a member id. Only the batch rule
    uses that and `metadata`. timeout_ms: None for the driver's own. Answer: None, once they are
    stored.
    """

    offsets: Mapping[TopicIdPartition, int]
    incarnation: int
    metadata: str = ""
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """Read the offset of each partition at `timestamp`: EARLIEST, LATEST or a time in ms.

    There may be no partitions. Answer: dict[TopicIdPartition, int].
    """

    partitions: tuple[TopicIdPartition, ...]
    timestamp: int


class MembershipSnapshot(NamedTuple):
    """A member's state, and the monotonic time at which it was read.

    tasks: those of a Kafka Streams member, as of the same step.
    """

    view: View
    read_at_ms: int
    tasks: TaskShare = TaskShare()
