"""Requests, responses and members of the KIP-848 member's scripts."""

from typing import Any

from apportion.errors import Code
from apportion.machine import Instant
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Subscribe,
    to_id_parts,
)
from apportion.topics import IdPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

T = b"T" * 16
P0, P1, P2 = (IdPartition(T, number) for number in range(3))


def at(ms: Any) -> Instant:
    return Instant(ms, 1_700_000_000_000 + ms)


def new_member(**settings: Any) -> ConsumerMember:
    return ConsumerMember(
        ConsumerSettings(group_id="g", member_id="m", rebalance_timeout_ms=60_000, **settings)
    )


def beat(epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **fields)


def full(
    epoch: int, *owned: IdPartition, topics: tuple[str, ...] = ("t",), **fields: Any
) -> ConsumerGroupHeartbeatRequest:
    return beat(
        epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics,
        topic_partitions=to_id_parts(owned),
        **fields,
    )


def accepted(
    epoch: int, *assigned: IdPartition, unchanged: bool = False, interval_ms: int = 1_000
) -> ConsumerGroupHeartbeatResponse:
    assignment = None if unchanged else Assignment(topic_partitions=to_id_parts(assigned))
    return ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment
    )


def refused(code: Code) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


def joined(*assigned: IdPartition, epoch: int = 1, **settings: Any) -> ConsumerMember:
    """A member that has joined at 0 ms and has adopted `assigned` (requests 1 to 3), and is STABLE
    with nothing in flight.
    """
    member = new_member(**settings)
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, accepted(epoch, *assigned)), at(0))
    if assigned:
        member.step(Adopted(1, tuple(assigned)), at(0))
        member.step(Answered(3, accepted(epoch, unchanged=True)), at(0))
    return member
