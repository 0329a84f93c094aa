"""The words of a membership: what is held, what happens to a member, and what it wants done.

Everything is a value. An `Assignment` is sorted, so equal sets of partitions are equal assignments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.streams.metadata.model import TaskId
from apportion.topics import IdPartition, TopicId
from apportion.wire.messages.consumer_group_describe import TopicPartitions as DescribedPartitions
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MemberRequest = ConsumerGroupHeartbeatRequest | JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
MemberResponse = ConsumerGroupHeartbeatResponse | JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse


Assignment = tuple[IdPartition, ...]
"""Partitions in order, each once."""


def assignment(partitions: Iterable[IdPartition]) -> Assignment:
    """These partitions as an assignment."""
    return tuple(sorted(dict.fromkeys(partitions)))


def from_wire(topics: Iterable[TopicPartitions | DescribedPartitions]) -> Assignment:
    """The assignment that a heartbeat carries, or that a group is described with."""
    return assignment(IdPartition(bytes(topic.topic_id), number) for topic in topics for number in topic.partitions)


def to_wire(held: Assignment) -> tuple[TopicPartitions, ...]:
    """The assignment as a heartbeat carries it."""
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in held:
        by_topic.setdefault(topic_id, []).append(partition)
    return tuple(TopicPartitions(topic_id=topic_id, partitions=tuple(numbers)) for topic_id, numbers in by_topic.items())


def minus(left: Assignment, right: Assignment) -> Assignment:
    """What is in `left` and not in `right`."""
    without = dict.fromkeys(right)
    return tuple(partition for partition in left if partition not in without)


class MembershipState(Enum):
    """Where a member stands."""

    UNSUBSCRIBED = "in no group"
    JOINING = "asks for a place"
    SYNCING = "has a place in the new generation and waits for its share"
    RECONCILING = "has a target that its owner has not adopted"
    ACKNOWLEDGING = "the owner has adopted; the coordinator must hear it"
    STABLE = "holds what it was given"
    LEAVING = "has said goodbye and waits for the answer"
    STALE = "left because its owner was silent for too long; joins again when the owner is back"
    FATAL = "cannot be a member; `error` says why"


FROM_ANY_STATE = {
    MembershipState.JOINING,
    MembershipState.LEAVING,
    MembershipState.UNSUBSCRIBED,
    MembershipState.STALE,
    MembershipState.FATAL,
}
"""Where a member may go from wherever it is: a membership may end at any time."""


@dataclass(slots=True, frozen=True)
class Subscribe:
    """The owner wants these topics, and to be a member if it is none."""

    topics: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Adopted:
    """The owner uses exactly this from now on; what it used before and is not in here, it has let go of.

    incarnation: the one in which `assignment` was offered. An `Adopted` of an earlier incarnation changes nothing, nor does
    one with a partition that is neither owned nor offered any more.
    """

    incarnation: int
    assignment: Assignment


@dataclass(slots=True, frozen=True)
class Polled:
    """The owner is alive and came back for more."""


@dataclass(slots=True, frozen=True)
class Leave:
    """The owner uses nothing any more and wants out.

    for_good: a static member gives up its place, too, so that the group has no members where it was the last.
    """

    for_good: bool = False


@dataclass(slots=True, frozen=True)
class Rejoin:
    """The owner has something to tell the group that only a new generation hears. A member that is in none joins anyway."""

    why: str


@dataclass(slots=True, frozen=True)
class TaskOffsetSums:
    """The process of an owner in a Streams group has this of each task that it has anything of.

    offset_sums: per task, the sum of its changelogs' offsets up to which the local state goes; RUNNING for a task that it
    runs, as its state is complete; OFFSET_UNKNOWN where it has some state. The next JoinGroup carries them to the leader.
    incarnation: as in `Adopted`; what ran in an earlier one no longer runs.
    """

    offset_sums: Mapping[TaskId, int]
    incarnation: int


@dataclass(slots=True, frozen=True)
class ShutDownApplication:
    """An owner in a Streams group wants every instance of the application to end (KIP-671).

    The group hears it in a rebalance, which begins.
    """


@dataclass(slots=True, frozen=True)
class CoordinatorFound:
    """The search `request_id` has found the group's coordinator."""

    request_id: int


@dataclass(slots=True, frozen=True)
class Answered:
    """The coordinator answered the request `request_id`."""

    request_id: int
    response: MemberResponse


@dataclass(slots=True, frozen=True)
class Unanswered:
    """The request `request_id` got no answer and will get none: no connection, no coordinator, or too late.

    code: the error that a search for the coordinator ended with; NONE where nobody answered at all.
    """

    request_id: int
    why: str
    code: Code = Code.NONE


class TopicDescription(NamedTuple):
    """One topic as the cluster knows it now. racks: where the replicas of each partition are; () where nobody says."""

    name: str
    id: TopicId
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


@dataclass(slots=True, frozen=True)
class MetadataFetched:
    """The look-up `request_id` is answered: those of its topics that exist."""

    request_id: int
    topics: tuple[TopicDescription, ...]


@dataclass(slots=True, frozen=True)
class QueryAnswered:
    """The question `request_id` of an assignor has this answer."""

    request_id: int
    answer: Any


Event = (
    Subscribe
    | Adopted
    | Polled
    | Leave
    | Rejoin
    | TaskOffsetSums
    | ShutDownApplication
    | CoordinatorFound
    | Answered
    | Unanswered
    | MetadataFetched
    | QueryAnswered
    | Tick
)


@dataclass(slots=True, frozen=True)
class FindCoordinator:
    """Find the coordinator of this group, then say `CoordinatorFound` or `Unanswered`."""

    request_id: int
    group_id: str


@dataclass(slots=True, frozen=True)
class SendToCoordinator:
    """Send this to the coordinator, then say `Answered`, or `Unanswered` if no answer has come within `timeout_ms`."""

    request_id: int
    request: MemberRequest
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class FetchMetadata:
    """Ask the cluster for these topics' metadata, then answer `MetadataFetched` or `Unanswered`.

    A `SendToCoordinator` may be in flight at the same time.
    """

    request_id: int
    names: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class QueryCluster:
    """Ask the cluster what an assignor must know, then answer `QueryAnswered` or `Unanswered`.

    A query that creates topics is answered with `MetadataFetched` of these topics instead.
    A `SendToCoordinator` may be in flight at the same time.
    """

    request_id: int
    query: Any


@dataclass(slots=True, frozen=True)
class Offer:
    """The coordinator wants the owner to hold `target`: stop using `revoke`, then start using `add`, then say `Adopted`."""

    incarnation: int
    target: Assignment
    revoke: Assignment
    add: Assignment


@dataclass(slots=True, frozen=True)
class Lost:
    """The membership ended without being asked: others may own this already. The owner must stop using it."""

    incarnation: int
    assignment: Assignment


@dataclass(slots=True, frozen=True)
class Failed:
    """The member cannot go on, and says why in one sentence."""

    code: Code
    why: str

    def __str__(self) -> str:
        return f"{self.code.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class View:
    """A member at one moment.

    lives: grows by one whenever the member joins; nothing that was held in an earlier incarnation is held in this one.
    target: what the coordinator wants it to hold; None until it has said so in this incarnation. owned: what the owner has adopted.
    last_accepted_ms: when the coordinator last accepted a heartbeat (monotonic); None if it never did.
    """

    member_id: str
    epoch: int
    state: MembershipState
    incarnation: int
    target: Assignment | None
    owned: Assignment
    last_accepted_ms: int | None
    error: Failed | None


@dataclass(slots=True, frozen=True)
class Left:
    """The member is out of the group. `heard`: the coordinator has confirmed it, or there was nothing that it had to hear."""

    is_confirmed: bool


Action = FindCoordinator | SendToCoordinator | FetchMetadata | QueryCluster | Offer | Lost | Failed | Left | Note


def acknowledged(owned: Assignment, target: Assignment | None) -> Assignment:
    """What the coordinator hears that the member owns: all that the owner has adopted, also what `target` takes away, and all that
    it was given, which it may adopt while the heartbeat is under way.

    A revocation is acknowledged by what is missing here, so nothing may be missing before the owner has let go of it; and an offer
    that is taken back before it was adopted must have been here, or nobody would hear that it is not used.
    """
    return owned if target is None or target == owned else assignment((*owned, *target))
