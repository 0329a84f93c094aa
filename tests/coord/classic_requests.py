"""Requests of one classic member to a consumer group, and a group to send them to."""

from typing import Any

from apportion.errors import Code
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from tests.coord.consumer_client import REBALANCE_MS
from tests.coord.mixed_shard_driver import (
    SESSION_MS,
    ConsumerClient,
    MixedShardDriver,
)
from tests.coord.shard_driver import settings_with, topics


def driver_with_one_consumer() -> MixedShardDriver:
    """A consumer group with one member of its own protocol, which has foo-0 to foo-3 and does
    nothing.
    """
    driver: Any = MixedShardDriver(settings_with(group_min_session_timeout_ms=1_000), topics(foo=4))
    driver.c = ConsumerClient(driver, "c", ("foo",))
    driver.c.act()
    result: MixedShardDriver = driver
    return result


def subscription(version: int = 3, **facts: Any) -> bytes:
    return consumer_serde.encode(
        ConsumerProtocolSubscription(**({"topics": ("foo",)} | facts)), version
    )


def join(
    driver: MixedShardDriver, member_id: str = "m", version: int = 9, **facts: Any
) -> JoinGroupResponse:
    """The answer to a join as `range`; said: the bytes of its subscription, names: its
    protocols.
    """
    metadata, names = facts.pop("metadata", subscription()), facts.pop("names", ("range",))
    defaults: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names
        ),
    }
    result: JoinGroupResponse = driver.send(JoinGroupRequest(**defaults | facts), version)
    return result


def sync(
    driver: MixedShardDriver, generation: int, member_id: str = "m", version: int = 5, **facts: Any
) -> SyncGroupResponse:
    facts = {"protocol_type": "consumer", "protocol_name": "range"} | facts
    result: SyncGroupResponse = driver.send(
        SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, **facts),
        version,
    )
    return result


def beat(
    driver: MixedShardDriver, generation: int, member_id: str = "m", instance_id: str | None = None
) -> Code:
    request = HeartbeatRequest(
        group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance_id
    )
    return Code(driver.send(request, 4).error_code)


def leave(driver: MixedShardDriver, *named: tuple[str, str | None], version: int = 5) -> list[Code]:
    members = tuple(
        MemberIdentity(member_id=member_id, group_instance_id=instance)
        for member_id, instance in named
    )
    return [
        Code(each.error_code)
        for each in driver.send(LeaveGroupRequest(group_id="g", members=members), version).members
    ]


def members(driver: MixedShardDriver) -> list[str]:
    return sorted(driver.group().saved.members)


def assignment(version: int, *indexes: int) -> bytes:
    parts = (ConsumerProtocolTopicPartition(topic="foo", partitions=indexes),) if indexes else ()
    return consumer_serde.encode(ConsumerProtocolAssignment(assigned_partitions=parts), version)
