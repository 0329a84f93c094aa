"""What a member that works in batches asks the cluster, its own membership and its query's writers: each question is a value.

A rule yields an `Ask` and is sent the answer; whoever drives the rule (`spark.owner`, `sim.worker`, a test) knows whom to ask.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from apportion.machine import Note
from apportion.member.batch.span import Span
from apportion.member.consumer.machine import View
from apportion.member.membership import Assignment
from apportion.topics import TopicIdPartition

T = TypeVar("T")


class NotYet(Exception):
    """Nothing can be said now: no place in the group, or the cluster does not answer. The next attempt may."""


@dataclass(frozen=True, slots=True)
class Announced:
    """What have the query's writers said when they were given the batch of this span? The answer is an Announcement."""

    previous: Span


@dataclass(frozen=True, slots=True)
class Join:
    """The member is to join its group, if it has not begun to. The answer, None, comes at once."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The member is to leave its group for good, if it has joined; a later Join begins a new one. The answer, None, comes then."""


@dataclass(frozen=True, slots=True)
class Look:
    """How does the membership stand? The answer is a `Seen`, and never fails."""


@dataclass(frozen=True, slots=True)
class SessionLimit:
    """How long may a member be silent, in ms (group.consumer.session.timeout.ms, or its own session)? The answer is an int."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """Which of the subscribed topics exist now, asked freshly? The answer is a dict of name to Topic."""


@dataclass(frozen=True, slots=True)
class Existing:
    """Which topics of these names exist now, asked freshly? The answer is a Topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """Which places are these partitions? The answer is a tuple of Place in order, without those of topics nobody knows."""

    held: Assignment


@dataclass(frozen=True, slots=True)
class Adopt:
    """From now on exactly `target` is used, in that life. The answer is the View after the member has heard it."""

    life: int
    target: Assignment


@dataclass(frozen=True, slots=True)
class Committed:
    """What has the group stored, asked as the member of that life (0: as nobody)? The answer is a dict of Place to Stored."""

    places: tuple[TopicIdPartition, ...]
    life: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The group is to store these offsets, said as the member of that life (0: as nobody). The answer, None, comes when it has."""

    offsets: Mapping[TopicIdPartition, int]
    life: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Starts:
    """Where do these logs begin? The answer is a dict of Place to int. There may be no places."""

    places: tuple[TopicIdPartition, ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """Where do these logs end, as the last stable offset? The answer is a dict of Place to int. There may be no places."""

    places: tuple[TopicIdPartition, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What has the group in mind for its members? The answer is a DescribedGroup; of a classic group it is a Parted."""


@dataclass(frozen=True, slots=True)
class Members:
    """Who is in the group and may read a subscribed topic, asked as nobody? The answer is a tuple of member ids in order."""


Ask = (
    Announced
    | Join
    | Leave
    | Look
    | SessionLimit
    | Subscribed
    | Existing
    | Named
    | Adopt
    | Committed
    | Commit
    | Starts
    | Ends
    | Share
    | Members
    | Note
)
Asking = Generator[Ask, Any, T]
"""A rule that asks on its way to a T. `Note` is a line for the log; its answer is None."""


class Seen(NamedTuple):
    """The membership at one moment, and that moment on the monotonic clock."""

    view: View
    now_ms: int
