"""`apportion groups` shows members of the classic protocol, and of both in one group."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest
from apportion.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode
from tests.cli.groups_on_a_broker import broker_with_groups, run


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the groups `g` and `h`."""
    with broker_with_groups() as bootstrap:
        yield bootstrap


def classic(cluster: Cluster, group_id: str, protocol_type: str, assignment: bytes) -> str:
    """A member of a classic group that has that assignment; it is gone when its session is over.

    With an assignment it has a subscription to `t` and `u`.
    """
    subscription = encode(ConsumerProtocolSubscription(topics=("t", "u"))) if assignment else b""

    def ask(
        request: JoinGroupRequest | SyncGroupRequest, version: int
    ) -> JoinGroupResponse | SyncGroupResponse:
        result: JoinGroupResponse | SyncGroupResponse = cluster.call(
            request, coordinator=group_id, version=version
        )
        return result

    request: dict[str, Any] = {
        "group_id": group_id,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": protocol_type,
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=subscription),),
    }
    joined = ask(JoinGroupRequest(**request), 3)
    assert isinstance(joined, JoinGroupResponse)
    given = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment),)
    assert isinstance(joined, JoinGroupResponse)
    sync = SyncGroupRequest(
        group_id=group_id, generation_id=1, member_id=joined.member_id, assignments=given
    )
    assert ask(sync, 3).error_code == Code.NONE
    assert isinstance(joined, JoinGroupResponse)
    return joined.member_id


@pytest.mark.parametrize(
    ("group_id", "protocol_type", "assignment", "owns"),
    [
        (
            "j",
            "consumer",
            encode(
                ConsumerProtocolAssignment(
                    assigned_partitions=(
                        ConsumerProtocolTopicPartition(topic="t", partitions=(0, 7)),
                    )
                )
            ),
            [0, 7],
        ),
        ("k", "consumer", b"", None),
        ("l", "connect", encode(ConsumerProtocolAssignment()), None),
    ],
)
def test_a_classic_group_is_described_with_what_can_be_read_of_it(
    bootstrap: str, group_id: str, protocol_type: str, assignment: bytes, owns: list[int] | None
) -> None:
    cluster = Cluster(bootstrap, client_id="reader")
    member_id = classic(cluster, group_id, protocol_type, assignment)
    report = json.loads(
        CliRunner()
        .invoke(app, ["groups", "describe", group_id, "--json", "--bootstrap", bootstrap])
        .stdout
    )
    lines = run("describe", group_id, "--verbose", "--bootstrap", bootstrap)[1]
    cluster.call(
        LeaveGroupRequest(group_id=group_id, member_id=member_id), coordinator=group_id, version=2
    )
    cluster.call(DeleteGroupsRequest(groups_names=(group_id,)), coordinator=group_id)
    cluster.close()
    host = report["members"][0].pop("host")
    assert report == {
        "group": group_id,
        "type": "classic",
        "state": "Stable",
        "assignor": "range",
        "members": [
            {
                "member": member_id,
                "instance": None,
                "client": "reader",
                "protocol": "classic",
                "owns": {} if owns is None else {"t": owns},
                "topics": ["t", "u"] if group_id == "j" else [],
            }
        ],
        "sinks": [],
        "lag": None,
        "offsets": []
        if owns is None
        else [
            {
                "topic": "t",
                "partition": 0,
                "committed": None,
                "end": 2,
                "lag": None,
                "owner": member_id,
            }
        ],
    }
    unknown = [] if owns is None else ["1", "partition", "without", "a", "committed", "offset"]
    title = f"{group_id}: a classic group, Stable, assignor range, 1 member"
    assert lines[0] == f"{title}{',' if unknown else ''}".split() + unknown
    address = host.removeprefix("/")
    assert lines[-2:] == [
        ["MEMBER", "CLIENT", "HOST", "OWNS", "TOPICS"],
        [member_id, "reader", address, *(["-", "-"] if owns is None else ["t", "0,7", "t", "u"])],
    ]
    partition = ["-"] * 5 if owns is None else ["t", "0", "-", "2", "-"]
    assert [*partition, member_id, "reader", address] in lines
