"""Queries that rules ask their membership and the cluster.

Each is a value. A rule (`apportion.rules`) yields one and is sent the answer. Drivers answer: those
of `client` and `spark.membership.batch_member` by a cluster, those of the simulator, and tests.
Further queries are in `member.batch.queries` (micro-batches) and `member.records.queries` (single
records). Those that assignors ask are public, in `apportion.streams.queries`, and name no topic
ids: `member.leader_queries` answers them by the queries here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apportion.rules import RuleQuery
from apportion.topics import TopicIdPartition

# For types alone: a Spark task imports this module with the client, but needs no membership.
if TYPE_CHECKING:
    from apportion.member.cluster_queries.query import GroupQuery
    from apportion.member.membership import MemberAssignment, View

NO_MEMBER_INCARNATION = 0
"""In place of a member's incarnations, which count from 1: a request without a member id."""


@dataclass(frozen=True, slots=True)
class ReadMembership(RuleQuery):
    """Read the member's present state. Answer: MembershipSnapshot, without waiting."""


@dataclass(frozen=True, slots=True)
class PollMembership(RuleQuery):
    """Show the member that its application polls (max.poll.interval.ms). Answer: None."""


@dataclass(frozen=True, slots=True)
class ExistingTopics(RuleQuery):
    """Fetch metadata of the named topics that exist. Answer: Topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownTopics(RuleQuery):
    """Look up those of the named topics that exist; cached metadata will do. Answer: Topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MatchingTopics(RuleQuery):
    """Find the topics of the cluster whose whole names the expression of RE2 matches.

    Answer: tuple[str, ...], in order; those that the client may not describe are left out.
    """

    expression: str


@dataclass(frozen=True, slots=True)
class ResolveTopicNames(RuleQuery):
    """Look up the topic names of an assignment's ids.

    Answer: tuple[TopicIdPartition, ...] in order, without topics that the cluster does not know.
    """

    partitions: "MemberAssignment"


@dataclass(frozen=True, slots=True)
class AdoptAssignment(RuleQuery):
    """Report to the member that exactly `target` is in use from now on (`Adopted`).

    Answer: View, after the member has taken the event.
    """

    incarnation: int
    target: "MemberAssignment"


@dataclass(frozen=True, slots=True)
class FetchCommitted(RuleQuery):
    """Fetch the group's committed offsets.

    incarnation: of the member that asks, or NO_MEMBER_INCARNATION. Answer:
    dict[TopicIdPartition, OffsetAndMetadata].
    """

    partitions: tuple[TopicIdPartition, ...]
    incarnation: int


@dataclass(frozen=True, slots=True)
class CommitOffsets(RuleQuery):
    """Commit offsets to the group.

    incarnation: of the member that commits, or NO_MEMBER_INCARNATION. Only the batch rule uses
    that and `metadata`. timeout_ms: None for the driver's own. Answer: None, once they are stored.
    """

    offsets: Mapping[TopicIdPartition, int]
    incarnation: int
    metadata: str = ""
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ListOffsets(RuleQuery):
    """Read the offset of each partition at `timestamp`: EARLIEST, LATEST or a time in ms.

    There may be no partitions. Answer: dict[TopicIdPartition, int].
    """

    partitions: tuple[TopicIdPartition, ...]
    timestamp: int


@dataclass(frozen=True, slots=True)
class AskCoordinator(RuleQuery):
    """Send the query to its group's coordinator, with retries. Answer: the query's result."""

    query: "GroupQuery[Any]"


@dataclass(frozen=True, slots=True)
class MembershipSnapshot:
    """A member's state, and the monotonic time at which it was read.

    interruptions: how often the group's coordinator may have started again, which gives every
    member a whole session: a connection of the member's client to its broker has broken, or a
    response says that the broker does not coordinate the group, or is loading it.
    """

    view: "View"
    read_at_ms: int
    interruptions: int
