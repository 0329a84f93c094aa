"""Events, actions and values that all group members share, whichever protocol they speak.

Events come from the owner (`Subscribe`, `Adopted`...) and from the driver that performs the
actions; actions are requests to the cluster and messages to the owner. All are values. An
`MemberAssignment` is sorted, so equal sets of partitions are equal assignments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from apportion.assign.by_name import Given
from apportion.errors import Code, Refused
from apportion.machine import Note, Tick
from apportion.member.assignors.runs import AssignorRun
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.topics import IdPartition, TopicId, grouped
from apportion.wire.messages.consumer_group_describe import TopicPartitions as DescribedPartitions
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MembershipRequest = (
    ConsumerGroupHeartbeatRequest
    | ConsumerGroupPrepareAssignmentRequest
    | ConsumerGroupInstallAssignmentRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
)
MembershipResponse = (
    ConsumerGroupHeartbeatResponse
    | ConsumerGroupPrepareAssignmentResponse
    | ConsumerGroupInstallAssignmentResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
)


MemberAssignment = tuple[IdPartition, ...]
"""Partitions in order, each once."""


def assignment(partitions: Iterable[IdPartition]) -> MemberAssignment:
    """Return the partitions as an assignment."""
    return tuple(sorted(dict.fromkeys(partitions)))


def from_id_parts(topics: Iterable[TopicPartitions | DescribedPartitions]) -> MemberAssignment:
    """Return the assignment in a ConsumerGroupHeartbeat or ConsumerGroupDescribe response."""
    return assignment(
        IdPartition(bytes(topic.topic_id), number)
        for topic in topics
        for number in topic.partitions
    )


def to_id_parts(owned: MemberAssignment) -> tuple[TopicPartitions, ...]:
    """Return a member's owned partitions as its ConsumerGroupHeartbeat request reports them."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in grouped(owned).items()
    )


def minus(left: MemberAssignment, right: MemberAssignment) -> MemberAssignment:
    """Return the partitions of `left` that are not in `right`."""
    without = dict.fromkeys(right)
    return tuple(partition for partition in left if partition not in without)


class MembershipState(Enum):
    """The state of a member, with a sentence about it whose subject is the member.

    Which may follow which is each protocol's own table: `consumer/states.py` (KIP-848) and
    `classic/states.py` (KIP-429).
    """

    UNSUBSCRIBED = "is in no group"
    JOINING = "waits for the coordinator to admit it"
    SYNCING = "waits for its assignment in the new generation"
    RECONCILING = "has an assignment that its application has not adopted yet"
    ACKNOWLEDGING = "must report to the coordinator what its application has adopted"
    STABLE = "uses exactly what it is assigned"
    LEAVING = "waits for the response to its leave request"
    STALE = "left because its application did not poll in time; it rejoins at the next poll"
    FATAL = "cannot be a member of this group"


FROM_ANY_STATE = {
    MembershipState.JOINING,
    MembershipState.LEAVING,
    MembershipState.UNSUBSCRIBED,
    MembershipState.STALE,
    MembershipState.FATAL,
}
"""States that may follow every other one: a membership may end at any time."""

SILENT = (MembershipState.UNSUBSCRIBED, MembershipState.STALE, MembershipState.FATAL)
"""States in which a member sends nothing."""


@dataclass(slots=True, frozen=True)
class Subscribe:
    """The owner subscribes to these topics, and joins unless it is a member already.

    expression: of RE2, which the coordinator resolves; "" for none. KIP-848 members alone have one.
    """

    topics: tuple[str, ...]
    expression: str = ""


@dataclass(slots=True, frozen=True)
class Adopted:
    """The owner uses exactly `assignment` from now on, and has stopped using all else.

    incarnation: the one in which `assignment` was offered. An `Adopted` of an earlier incarnation
    changes nothing, nor does one with a partition that is neither owned nor offered any more.
    """

    incarnation: int
    assignment: MemberAssignment


@dataclass(slots=True, frozen=True)
class Polled:
    """The owner is alive: it has polled."""


@dataclass(slots=True, frozen=True)
class Leave:
    """The owner has stopped using its partitions and leaves the group.

    for_good: a static member is removed, too (KIP-345), so that its group may become empty.
    """

    for_good: bool = False


@dataclass(slots=True, frozen=True)
class Rejoin:
    """The owner needs a rebalance, since only JoinGroup carries its user data to the leader.

    A JoinGroup in flight carries older data, so another one follows after SyncGroup. Changes
    nothing while the member is outside the group: it joins anyway.
    """

    why: str


@dataclass(slots=True, frozen=True)
class CoordinatorFound:
    """The coordinator was found, for the `FindCoordinator` with this request id."""

    request_id: int


@dataclass(slots=True, frozen=True)
class Answered:
    """The coordinator's response to the request with this id."""

    request_id: int
    response: MembershipResponse


@dataclass(slots=True, frozen=True)
class Unanswered:
    """The request with this id will get no response: disconnected, no coordinator, or timed out.

    code: the error of a failed FindCoordinator or query; NONE if there was no response at all.
    """

    request_id: int
    why: str
    code: Code = Code.NONE


@dataclass(slots=True, frozen=True)
class MetadataFetched:
    """The response to `FetchMetadata`: the requested topics that exist."""

    request_id: int
    topics: tuple[TopicDescription, ...]


@dataclass(slots=True, frozen=True)
class QueryAnswered:
    """The answer to an assignor's query, for `QueryCluster`."""

    request_id: int
    answer: Any


@dataclass(slots=True, frozen=True)
class AssignorRan:
    """The outcome of `RunAssignor`: all targets, or a query that the assignor has first.

    outcome: Refused if the assignor has failed, or its answer is no assignment.
    """

    request_id: int
    outcome: Mapping[str, Given] | AssignorRun | Refused


Event = (
    Subscribe
    | Adopted
    | Polled
    | Leave
    | Rejoin
    | CoordinatorFound
    | Answered
    | Unanswered
    | MetadataFetched
    | QueryAnswered
    | AssignorRan
    | Tick
)


@dataclass(slots=True, frozen=True)
class FindCoordinator:
    """Find the group's coordinator, then answer `CoordinatorFound` or `Unanswered`."""

    request_id: int
    group_id: str


@dataclass(slots=True, frozen=True)
class SendToCoordinator:
    """Send the request, then answer `Answered`, or `Unanswered` after `timeout_ms`."""

    request_id: int
    request: MembershipRequest
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class FetchMetadata:
    """Ask the cluster for these topics' metadata, then answer `MetadataFetched` or `Unanswered`.

    ids: of topics whose names are not known. A `SendToCoordinator` may be in flight at the same
    time.
    """

    request_id: int
    names: tuple[str, ...]
    ids: tuple[TopicId, ...] = ()


@dataclass(slots=True, frozen=True)
class QueryCluster:
    """Ask the cluster an assignor's query, then answer `QueryAnswered` or `Unanswered`.

    A query that creates topics is answered with `MetadataFetched` of these topics instead. A
    `SendToCoordinator` may be in flight at the same time.
    """

    request_id: int
    query: Any


Lookup = FetchMetadata | QueryCluster


@dataclass(slots=True, frozen=True)
class RunAssignor:
    """Run the assignor beside the member, as it may take long, then answer `AssignorRan`.

    A KIP-848 member alone asks for it. Its heartbeats go on meanwhile.
    """

    request_id: int
    run: AssignorRun

    def perform(self) -> AssignorRan:
        """Run it, on the caller's thread; return the event for the machine."""
        try:
            return AssignorRan(self.request_id, self.run.proceed())
        except Refused as refused:
            return AssignorRan(self.request_id, refused)


@dataclass(slots=True, frozen=True)
class Offer:
    """The member's new target assignment, for the owner.

    The owner has to stop using `revoke`, may use `add`, and then reports `Adopted`.
    """

    incarnation: int
    target: MemberAssignment
    revoke: MemberAssignment
    add: MemberAssignment


@dataclass(slots=True, frozen=True)
class Lost:
    """The membership was lost: the owner must stop using these partitions.

    Others may own them already.
    """

    incarnation: int
    assignment: MemberAssignment


@dataclass(slots=True, frozen=True)
class Failed:
    """The member ends with an error: Kafka's code, and a sentence."""

    code: Code
    why: str

    def __str__(self) -> str:
        return f"{self.code.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot of a member.

    incarnation: counts the joins after a lost membership; nothing owned in one incarnation is owned
    in the next.
    target: what the coordinator assigned; None until it has in this incarnation. owned: what the
    owner adopted.
    last_accepted_ms: when the coordinator last accepted a request of the member (monotonic); None
    if never.
    error: why the member is FATAL.
    heartbeat_interval_ms: the one that holds now, which is below the session timeout.
    refusal: why the coordinator refuses the member's requests for now, where the member goes on
    and its owner has to know; None otherwise.
    """

    member_id: str
    epoch: int
    state: MembershipState
    incarnation: int
    target: MemberAssignment | None
    owned: MemberAssignment
    last_accepted_ms: int | None
    error: Failed | None
    heartbeat_interval_ms: int = 0
    refusal: Failed | None = None


@dataclass(slots=True, frozen=True)
class Left:
    """The member is out of the group.

    is_confirmed: the coordinator has confirmed it, or did not know the member. Also True for a
    static classic member that leaves for now: it sends no LeaveGroup (KIP-345).
    """

    is_confirmed: bool


Action = (
    FindCoordinator
    | SendToCoordinator
    | FetchMetadata
    | QueryCluster
    | RunAssignor
    | Offer
    | Lost
    | Failed
    | Left
    | Note
)
