"""Whose user data stop an upgrade, on our broker and on a real Kafka."""

import time

import pytest

from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.kafka.differential.side import Side

TOPIC = "twelve"


def upgraded(side: Side, assignor: str, user_data: bytes | None, given: bytes | None) -> Code:
    """What a consumer is told that joins a classic group of one member, with these user data of the
    member and of the leader.
    """
    group = f"{assignor}-{time.time_ns()}"
    subscription = consumer_serde.encode(
        ConsumerProtocolSubscription(topics=(TOPIC,), user_data=user_data)
    )
    shape = {"group_id": group, "protocol_type": "consumer"}
    protocols = (JoinGroupRequestProtocol(name=assignor, metadata=subscription),)
    joining = JoinGroupRequest(
        **shape, session_timeout_ms=30_000, rebalance_timeout_ms=30_000, protocols=protocols
    )
    joined = side.call(joining, 3)  # in one step
    share = consumer_serde.encode(ConsumerProtocolAssignment(user_data=given))
    assignments = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=share),)
    syncing = SyncGroupRequest(
        **shape,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_name=assignor,
        assignments=assignments,
    )
    assert side.call(syncing, 5).error_code == Code.NONE
    beat = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=(TOPIC,),
        topic_partitions=(),
    )
    answer = side.call(beat, 1)
    return Code(answer.error_code)


@pytest.mark.parametrize("user_data", [None, b"x"])
@pytest.mark.parametrize(
    ("assignor", "given", "codes"),
    [
        ("mine", None, (Code.NONE, Code.NONE)),
        ("mine", b"x", (Code.GROUP_ID_NOT_FOUND, Code.GROUP_ID_NOT_FOUND)),
        ("sticky", None, (Code.NONE, Code.NONE)),
        ("sticky", b"x", (Code.NONE, Code.GROUP_ID_NOT_FOUND)),  # decision 33
    ],
)
def test_a_leaders_user_data_stop_an_upgrade_and_a_members_do_not(
    sides: tuple[Side, Side],
    assignor: str,
    user_data: bytes | None,
    given: bytes | None,
    codes: tuple[Code, Code],
) -> None:
    assert tuple(upgraded(side, assignor, user_data, given) for side in sides) == codes
