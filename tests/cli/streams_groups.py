"""Classic groups whose members say what a test gives them, and the command that describes them."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.streams.metadata.codec import encode_assignment, encode_subscription
from apportion.streams.metadata.model import AssignmentInfo, SubscriptionInfo
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode


def subscription(used: int, supported: int = -1, **more: Any) -> bytes:
    info = SubscriptionInfo(used, supported, **more)
    return encode(ConsumerProtocolSubscription(topics=("t",), user_data=encode_subscription(info)))


def assignment(partitions: tuple[int, ...], used: int, **more: Any) -> bytes:
    """What a member is given: these partitions of `t`."""
    info = AssignmentInfo(used, **more)
    given = (ConsumerProtocolTopicPartition(topic="t", partitions=partitions),)
    return encode(
        ConsumerProtocolAssignment(assigned_partitions=given, user_data=encode_assignment(info))
    )


def ask_to_join(
    cluster: Cluster,
    group_id: str,
    instance_id: str,
    metadata: bytes,
    protocol: str = "stream",
    protocol_type: str = "consumer",
) -> JoinGroupResponse:
    result: JoinGroupResponse = cluster.call(
        JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=(JoinGroupRequestProtocol(name=protocol, metadata=metadata),),
        ),
        coordinator=group_id,
    )
    return result


@contextmanager
def group(
    broker: SimpleNamespace, group_id: str, each: list[tuple[str, bytes, bytes]], **more: Any
) -> Iterator[list[str]]:
    """A stable classic group of these members, each its client id, its subscription and its
    assignment; their member ids.
    """
    with ThreadPoolExecutor() as threads:
        asked = [
            threads.submit(
                ask_to_join, broker.clusters[client], group_id, f"seat-{number}", metadata, **more
            )
            for number, (client, metadata, _) in enumerate(each)
        ]
        joined = [each.result() for each in asked]
    ids = [each.member_id for each in joined]
    assert {each.generation_id for each in joined} == {1}
    given = tuple(
        SyncGroupRequestAssignment(member_id=member, assignment=assignment)
        for member, (_, _, assignment) in zip(ids, each, strict=True)
    )
    sync = SyncGroupRequest(
        group_id=group_id, generation_id=1, member_id=joined[0].leader, assignments=given
    )
    assert (
        broker.clusters["one"].call(sync, coordinator=group_id, version=2).error_code == Code.NONE
    )
    yield ids
    leaving = tuple(MemberIdentity(member_id=member) for member in ids)
    broker.clusters["one"].call(
        LeaveGroupRequest(group_id=group_id, members=leaving), coordinator=group_id
    )


def asked(broker: SimpleNamespace, group_id: str, *more: str) -> tuple[int, list[str]]:
    """Exit code, and the lines on stdout or stderr, of the command on that group."""
    result = CliRunner().invoke(
        app, ["streams", "describe", group_id, "--bootstrap", broker.bootstrap, *more]
    )
    return result.exit_code, [line.rstrip() for line in result.output.splitlines()]


def as_json(broker: SimpleNamespace, group_id: str) -> dict[str, Any]:
    result = CliRunner().invoke(
        app, ["streams", "describe", group_id, "--json", "--bootstrap", broker.bootstrap]
    )
    assert (result.exit_code, result.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer
