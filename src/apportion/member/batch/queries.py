"""Queries of `BatchPlanner` to its membership, to the cluster and to the query's writers.

Each query is a value. The planner is a generator that yields one and is sent the answer, or has an
exception thrown in; the driver that answers is `spark.batch_member`, `sim.actors.worker` or a test.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from apportion.machine import Note
from apportion.member.batch.span import Span
from apportion.member.membership import MemberAssignment, View
from apportion.topics import TopicIdPartition

T = TypeVar("T")


class NotReady(Exception):
    """The next batch cannot be planned now; a later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class ReadWriterReport:
    """Read what the query's writers reported of the batch `previous`. Answer: WriterReport."""

    previous: Span


@dataclass(frozen=True, slots=True)
class StartMembership:
    """Join the group, unless the member has begun to. Answer: None, at once."""


@dataclass(frozen=True, slots=True)
class EndMembership:
    """Leave the group for good, if the member has joined. Answer: None, when it has left."""


@dataclass(frozen=True, slots=True)
class ReadMembership:
    """Read the member's present state. Answer: MembershipSnapshot; never fails."""


@dataclass(frozen=True, slots=True)
class SessionTimeout:
    """Read the session timeout in ms. Answer: int.

    group.consumer.session.timeout.ms of the broker, or session.timeout.ms of a classic member.
    """


@dataclass(frozen=True, slots=True)
class SubscribedTopics:
    """Fetch metadata of the subscribed topics that exist. Answer: dict[str, Topic] by name."""


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

    incarnation: of the member that commits; 0 to commit without a member id. Answer: None, once
    they are stored.
    """

    offsets: Mapping[TopicIdPartition, int]
    incarnation: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class LogStartOffsets:
    """Read the log start offsets; there may be no partitions.

    Answer: dict[TopicIdPartition, int].
    """

    partitions: tuple[TopicIdPartition, ...]


@dataclass(frozen=True, slots=True)
class LogEndOffsets:
    """Read the last stable offsets; there may be no partitions.

    Answer: dict[TopicIdPartition, int].
    """

    partitions: tuple[TopicIdPartition, ...]


@dataclass(frozen=True, slots=True)
class DescribeAssignment:
    """Describe the group's target assignment.

    Answer: DescribedGroup, or DescribedAssignment if it is classic.
    """


@dataclass(frozen=True, slots=True)
class ListMembers:
    """List the members that may read a subscribed topic.

    Answer: tuple[str, ...] of member ids in order.
    """


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
"""A generator that yields queries and returns a T. `Note` is a log line; its answer is None."""


class MembershipSnapshot(NamedTuple):
    """A member's state, and the monotonic time at which it was read."""

    view: View
    read_at_ms: int
