"""The queries of `BatchPlanner` to its membership, the cluster and the query's writers.

Those that it shares with other rules are in `member.queries`. The driver that answers is
`spark.batch_member`, `sim.actors.worker` or a test.
"""

from dataclasses import dataclass
from typing import TypeVar

from apportion.machine import Note
from apportion.member.batch.span import Span
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.rules import Rule

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
class SessionTimeout:
    """Read the session timeout in ms. Answer: int.

    group.consumer.session.timeout.ms of the broker, or session.timeout.ms of a classic member.
    """


@dataclass(frozen=True, slots=True)
class SubscribedTopics:
    """Fetch metadata of the subscribed topics that exist. Answer: dict[str, Topic] by name."""


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
    | ListOffsets
    | DescribeAssignment
    | ListMembers
    | Note
)
QueryGenerator = Rule[T]
"""A rule that yields these queries. `Note` is a log line; its answer is None."""
