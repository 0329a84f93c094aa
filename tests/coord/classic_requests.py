"""Requests of one classic member to a consumer group, and a group to send them to."""

from coordworld import topics
from mixedworld import REBALANCE_MS, SESSION_MS, ConsumerClient, MixedWorld

from apportion.coord.config import GroupSettings
from apportion.errors import Code
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)


def world_with_one_consumer():
    """A consumer group with one member of its own protocol, which has foo-0 to foo-3 and does
    nothing.
    """
    world = MixedWorld(GroupSettings(group_min_session_timeout_ms=1_000), topics(foo=4))
    world.c = ConsumerClient(world, "c", ("foo",))
    world.c.act()
    return world


def subscription(version=3, **facts):
    return consumer_serde.encode(
        ConsumerProtocolSubscription(**({"topics": ("foo",)} | facts)), version
    )


def join(world, member_id="m", version=9, **facts):
    """The answer to a join as `range`; said: the bytes of its subscription, names: its
    protocols.
    """
    said, names = facts.pop("said", subscription()), facts.pop("names", ("range",))
    facts = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": tuple(JoinGroupRequestProtocol(name=name, metadata=said) for name in names),
    } | facts
    return world.send(JoinGroupRequest(**facts), version)


def sync(world, generation, member_id="m", version=5, **facts):
    facts = {"protocol_type": "consumer", "protocol_name": "range"} | facts
    return world.send(
        SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, **facts),
        version,
    )


def beat(world, generation, member_id="m", instance_id=None):
    request = HeartbeatRequest(
        group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance_id
    )
    return Code(world.send(request, 4).error_code)


def leave(world, *named, version=5):
    members = tuple(
        MemberIdentity(member_id=member_id, group_instance_id=instance)
        for member_id, instance in named
    )
    return [
        Code(each.error_code)
        for each in world.send(LeaveGroupRequest(group_id="g", members=members), version).members
    ]


def members(world):
    return sorted(world.group().saved.members)


def assignment(version, *indexes):
    parts = (ConsumerProtocolTopicPartition(topic="foo", partitions=indexes),) if indexes else ()
    return consumer_serde.encode(ConsumerProtocolAssignment(assigned_partitions=parts), version)
