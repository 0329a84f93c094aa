"""What a member that works in batches asks the cluster, its own membership and its query's writers: each question is a value.

A rule yields an `Query` and is sent the answer; whoever drives the rule (`spark.owner`, `sim.worker`, a test) knows whom to ask.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from apportion.machine import Note
from apportion.member.batch.span import Span
from apportion.member.membership import Assignment, View
from apportion.topics import TopicIdPartition

T = TypeVar("T")


class NotReady(Exception):
    """Nothing can be said now: no place in the group, or the cluster does not answer. The next attempt may."""


@dataclass(frozen=True, slots=True)
class ReadWriterReport:
    """What have the query's writers said when they were given the batch of this span? The answer is an Announcement."""

    previous: Span


@dataclass(frozen=True, slots=True)
class StartMembership:
    """The member is to join its group, if it has not begun to. The answer, None, comes at once."""


@dataclass(frozen=True, slots=True)
class EndMembership:
    """The member is to leave its group for good, if it has joined; a later Join begins a new one. The answer, None, comes then."""


@dataclass(frozen=True, slots=True)
class ReadMembership:
    """How does the membership stand? The answer is a `MembershipSnapshot`, and never fails."""


@dataclass(frozen=True, slots=True)
class SessionTimeout:
    """How long may a member be silent, in ms (group.consumer.session.timeout.ms, or its own session)? The answer is an int."""


@dataclass(frozen=True, slots=True)
class SubscribedTopics:
    """Which of the subscribed topics exist now, asked freshly? The answer is a dict of name to Topic."""


@dataclass(frozen=True, slots=True)
class ExistingTopics:
    """Which topics of these names exist now, asked freshly? The answer is a Topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResolveTopicNames:
    """Which places are these partitions? The answer is a tuple of Place in order, without those of topics nobody knows."""

    partitions: Assignment


@dataclass(frozen=True, slots=True)
class AdoptAssignment:
    """From now on exactly `target` is used, in that incarnation. The answer is the View after the member has heard it."""

    incarnation: int
    target: Assignment


@dataclass(frozen=True, slots=True)
class FetchCommitted:
    """Fetch the group's committed offsets.

    incarnation: of the member that asks; 0 to ask without a member id. Answer: dict[TopicIdPartition, OffsetAndMetadata].
    """

    partitions: tuple[TopicIdPartition, ...]
    incarnation: int


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit offsets to the group.

    incarnation: of the member that commits; 0 to commit without a member id. Answer: None, once they are stored.
    """

    offsets: Mapping[TopicIdPartition, int]
    incarnation: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class LogStartOffsets:
    """Where do these logs begin? The answer is a dict of Place to int. There may be no places."""

    partitions: tuple[TopicIdPartition, ...]


@dataclass(frozen=True, slots=True)
class LogEndOffsets:
    """Where do these logs end, as the last stable offset? The answer is a dict of Place to int. There may be no places."""

    partitions: tuple[TopicIdPartition, ...]


@dataclass(frozen=True, slots=True)
class DescribeAssignment:
    """What has the group in mind for its members? The answer is a DescribedGroup; of a classic group it is a Parted."""


@dataclass(frozen=True, slots=True)
class ListMembers:
    """Who is in the group and may read a subscribed topic, asked as nobody? The answer is a tuple of member ids in order."""


Query = (
    ReadWriterReport
    | StartMembership
    | EndMembership
    | ReadMembership
    | SessionTimeout
    | SubscribedTopics
    | ExistingTopics
    | ResolveTopicNames
    | AdoptAssignment
    | FetchCommitted
    | CommitOffsets
    | LogStartOffsets
    | LogEndOffsets
    | DescribeAssignment
    | ListMembers
    | Note
)
QueryGenerator = Generator[Query, Any, T]
"""A rule that asks on its way to a T. `Note` is a line for the log; its answer is None."""


class MembershipSnapshot(NamedTuple):
    """The membership at one moment, and that moment on the monotonic clock."""

    view: View
    read_at_ms: int
