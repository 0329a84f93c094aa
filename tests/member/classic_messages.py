"""What is said to a classic member, and what it says: short words for long messages."""

from typing import Any

from apportion.assign.by_name import Given, Subscription, TopicParts
from apportion.errors import Code
from apportion.machine import Instant, Tick
from apportion.member.assignors.builtin import CooperativeSticky, Range
from apportion.member.assignors.serde import encode_assignment, encode_subscription
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    MetadataFetched,
    Subscribe,
)
from apportion.topics import IdPartition
from apportion.wire.messages.heartbeat import HeartbeatResponse
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from apportion.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

T = b"T" * 16
P0, P1 = (IdPartition(T, number) for number in range(2))
SEEN = TopicDescription("t", T, 4)
PARKED_MS = 65_000


def at(ms: Any) -> Instant:
    return Instant(ms, 1_700_000_000_000 + ms)


def eager(**settings: Any) -> ClassicMember:
    return ClassicMember(
        ClassicSettings(
            **{"group_id": "g", "assignors": (Range(),), "rebalance_timeout_ms": 60_000, **settings}
        )
    )


def cooperative(**settings: Any) -> ClassicMember:
    return eager(assignors=(CooperativeSticky(),), **settings)


def of_t(*numbers: int) -> tuple[TopicParts, ...]:
    return (TopicParts("t", numbers),) if numbers else ()


def joins(
    member_id: Any = "m",
    *,
    name: str = "range",
    owned: tuple[int, ...] = (),
    generation: int = -1,
    topics: tuple[str, ...] = ("t",),
    user_data: bytes | None = None,
    instance_id: str | None = None,
    reason: str | None = None,
    rack: str | None = None,
) -> JoinGroupRequest:
    subscription = Subscription(topics, user_data, of_t(*owned), generation, rack)
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(
            JoinGroupRequestProtocol(name=name, metadata=encode_subscription(subscription)),
        ),
        reason=reason,
    )


def syncs(
    generation: int,
    *assignments: tuple[str, tuple[int, ...]],
    name: str = "range",
    instance_id: str | None = None,
    member_id: str = "m",
    user_data: bytes | None = None,
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name=name,
        assignments=tuple(
            SyncGroupRequestAssignment(
                member_id=member, assignment=encode_assignment(Given(of_t(*numbers), user_data))
            )
            for member, numbers in assignments
        ),
    )


def joined(
    generation: int,
    *members: tuple[str, Subscription],
    name: str = "range",
    leader: str = "a",
    **fields: Any,
) -> JoinGroupResponse:
    """The coordinator's answer. members: (id, subscription) as a leader sees them."""
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=name,
        leader=leader,
        member_id="m",
        members=tuple(
            JoinGroupResponseMember(member_id=member, metadata=encode_subscription(subscription))
            for member, subscription in members
        ),
        **fields,
    )


def synced(*numbers: int) -> SyncGroupResponse:
    return SyncGroupResponse(assignment=encode_assignment(Given(of_t(*numbers))))


def beaten(code: Code = Code.NONE) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def in_group(
    member: ClassicMember, *numbers: int, generation: int = 1, name: str = "range"
) -> ClassicMember:
    """A follower that has joined at 0 ms, with requests 1 to 5, and holds these partitions; it is
    STABLE.
    """
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(
        Answered(2, JoinGroupResponse(error_code=Code.MEMBER_ID_REQUIRED, member_id="m")), at(0)
    )
    member.step(Answered(3, joined(generation, name=name)), at(0))
    member.step(Answered(4, synced(*numbers)), at(0))
    if numbers:
        member.step(MetadataFetched(5, (SEEN,)), at(0))
        member.step(Adopted(1, tuple(IdPartition(T, number) for number in numbers)), at(0))
    return member


def hears_of_a_rebalance(member: ClassicMember, request: int = 6) -> list[Any]:
    """The next heartbeat is answered with REBALANCE_IN_PROGRESS; the actions that this causes."""
    member.step(Tick(), at(3_000))
    return member.step(Answered(request, beaten(Code.REBALANCE_IN_PROGRESS)), at(3_000))
