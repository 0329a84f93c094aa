"""`apportion groups` shows what a running broker knows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.member.group_claims import metadata_of
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from tests.cli.loading_broker import LoadingBroker
from tests.client import changes


def join(cluster: Cluster, group_id: str, member_id: str) -> None:
    """That member of the consumer protocol has joined, and wants `t`."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    assert cluster.call(request, coordinator=group_id).error_code == Code.NONE


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with a member of `g` that owns `t` and has read one of its two records, and a group
    `h` of offsets alone.
    """
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap, client_id="reader")
        (partition,) = partitions_of(cluster.create_topic("t", 1))
        records = [(None, b"a", ()), (None, b"b", ())]
        cluster.produce(partition, encode_batch(records, timestamp_ms=1))
        changes.commit(cluster, "h", {partition: 2})
        changes.commit(cluster, "g", {partition: 1})
        join(cluster, "g", "member-1")
        cluster.close()
        yield broker.bootstrap


def run(*arguments: str) -> tuple[int, list[list[str]]]:
    """Exit code, and the lines of the command's output as words."""
    result = CliRunner().invoke(app, ["groups", *arguments], env={"COLUMNS": "200"})
    return result.exit_code, [
        line.translate({ord("│"): " ", ord("┃"): " "}).split()
        for line in result.output.splitlines()
    ]


def test_the_list_names_every_group_with_its_state(bootstrap: str) -> None:
    code, lines = run("list", "--bootstrap", bootstrap)
    assert code == 0
    assert [line for line in lines if line[:1] in (["g"], ["h"])] == [
        ["g", "consumer", "Stable"],
        ["h", "classic", "Empty"],
    ]


def test_a_cluster_without_groups_has_a_sentence_and_no_table() -> None:
    with EmbeddedBroker() as broker:
        listed, as_json = (
            CliRunner().invoke(app, ["groups", "list", *more, "--bootstrap", broker.bootstrap])
            for more in ([], ["--json"])
        )
    assert (listed.exit_code, listed.stdout) == (0, "There are no groups.\n")
    assert (as_json.exit_code, as_json.stdout) == (0, "[]\n")


def test_a_group_is_described_with_members_and_lag(bootstrap: str) -> None:
    code, lines = run("describe", "g", "--bootstrap", bootstrap)
    assert code == 0
    assert lines[0] == [
        "g:",
        "a",
        "consumer",
        "group,",
        "Stable,",
        "epoch",
        "2,",
        "assignor",
        "uniform",
    ]
    assert ["member", "client", "host", "epoch", "owns"] in lines
    member = next(line for line in lines if line[:1] == ["member-1"])
    assert (member[1], member[-2:]) == ("reader", ["t", "0"])
    assert ["t", "0", "1", "2", "1"] in lines


def test_json_holds_the_same_as_the_tables(bootstrap: str) -> None:
    listed = CliRunner().invoke(app, ["groups", "list", "--json", "--bootstrap", bootstrap])
    assert json.loads(listed.stdout) == [
        {"group": "g", "type": "consumer", "state": "Stable"},
        {"group": "h", "type": "classic", "state": "Empty"},
    ]
    described = json.loads(
        CliRunner()
        .invoke(app, ["groups", "describe", "g", "--json", "--bootstrap", bootstrap])
        .stdout
    )
    assert (described["group"], described["state"], described["assignor"]) == (
        "g",
        "Stable",
        "uniform",
    )
    member = described["members"][0]
    del member["host"]
    assert described["members"] == [
        {
            "member": "member-1",
            "instance": None,
            "client": "reader",
            "protocol": "consumer",
            "epoch": 2,
            "owns": {"t": [0]},
        }
    ]
    assert described["offsets"] == [
        {"topic": "t", "partition": 0, "committed": 1, "end": 2, "lag": 1}
    ]


def test_a_group_of_offsets_alone_is_described_too(bootstrap: str) -> None:
    result = CliRunner().invoke(
        app, ["groups", "describe", "h", "--json", "--bootstrap", bootstrap]
    )
    assert (result.exit_code, json.loads(result.stdout)) == (
        0,
        {
            "group": "h",
            "type": "classic",
            "state": "Empty",
            "members": [],
            "sinks": [],
            "offsets": [{"topic": "t", "partition": 0, "committed": 2, "end": 2, "lag": 0}],
        },
    )


def test_the_sink_to_which_a_group_belongs_is_shown(bootstrap: str) -> None:
    cluster: Any = Cluster(bootstrap)
    (partition,) = partitions_of(cluster.topics(["t"]).named("t"))
    claim = metadata_of(("/lake/b", "/lake/a"))
    try:
        changes.commit(cluster, "of-a-sink", {partition: 1}, metadata=claim)
        result = CliRunner().invoke(
            app, ["groups", "describe", "of-a-sink", "--json", "--bootstrap", bootstrap]
        )
        assert json.loads(result.stdout)["sinks"] == ["/lake/a", "/lake/b"]
        _, lines = run("describe", "of-a-sink", "--bootstrap", bootstrap)
        assert lines[0] == [
            "of-a-sink:",
            "a",
            "classic",
            "group,",
            "Empty,",
            "of",
            "the",
            "sink",
            "/lake/a",
            "and",
            "/lake/b",
        ]
    finally:
        cluster.call(DeleteGroupsRequest(groups_names=("of-a-sink",)), coordinator="of-a-sink")
        cluster.close()


def classic(cluster: Cluster, group_id: str, protocol_type: str, assignment: bytes) -> str:
    """A member of a classic group that has that assignment; it is gone when its session is over."""

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
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b""),),
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
    lines = run("describe", group_id, "--bootstrap", bootstrap)[1]
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
            }
        ],
        "sinks": [],
        "offsets": []
        if owns is None
        else [{"topic": "t", "partition": 0, "committed": None, "end": 2, "lag": None}],
    }
    assert lines[0] == f"{group_id}: a classic group, Stable, assignor range".split()
    shown = [] if owns is None else ["t", "0,7"]
    assert next(line for line in lines if line[:1] == [member_id]) == [
        member_id,
        "reader",
        host.removeprefix("/"),
        *shown,
    ]
    assert ["member", "client", "host", "owns"] in lines


def test_a_mixed_group_says_which_protocol_and_instance_each_member_has(bootstrap: str) -> None:
    cluster = Cluster(bootstrap, client_id="reader")
    join(cluster, "m", "new")
    metadata = encode(ConsumerProtocolSubscription(topics=("t",)))
    request = JoinGroupRequest(
        group_id="m",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        group_instance_id="seat-7",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )
    old = cluster.call(request, coordinator="m").member_id
    described = CliRunner().invoke(
        app, ["groups", "describe", "m", "--json", "--bootstrap", bootstrap]
    )
    code, lines = run("describe", "m", "--bootstrap", bootstrap)
    cluster.call(
        LeaveGroupRequest(group_id="m", members=(MemberIdentity(member_id=old),)), coordinator="m"
    )
    cluster.call(
        ConsumerGroupHeartbeatRequest(group_id="m", member_id="new", member_epoch=-1),
        coordinator="m",
    )
    cluster.close()
    members = json.loads(described.stdout)["members"]
    assert code == 0
    assert sorted(
        (each["member"], each["protocol"], each["instance"]) for each in members
    ) == sorted([(old, "classic", "seat-7"), ("new", "consumer", None)])
    assert ["member", "instance", "client", "host", "protocol", "epoch", "owns"] in lines
    rows = {line[0]: (line[1], line[2], line[4]) for line in lines if line[:1] in (["new"], [old])}
    assert rows == {old: ("seat-7", "reader", "classic"), "new": ("-", "reader", "consumer")}


def test_a_partition_with_an_owner_and_no_committed_offset_is_shown(bootstrap: str) -> None:
    cluster = Cluster(bootstrap, client_id="reader")
    join(cluster, "i", "member-2")
    described = json.loads(
        CliRunner()
        .invoke(app, ["groups", "describe", "i", "--json", "--bootstrap", bootstrap])
        .stdout
    )
    cluster.call(
        ConsumerGroupHeartbeatRequest(group_id="i", member_id="member-2", member_epoch=-1),
        coordinator="i",
    )
    cluster.close()
    assert described["offsets"] == [
        {"topic": "t", "partition": 0, "committed": None, "end": 2, "lag": None}
    ]


def test_names_are_shown_as_they_are_and_the_terminal_obeys_none(bootstrap: str) -> None:
    odd = "[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    cluster = Cluster(bootstrap, client_id=odd)
    join(cluster, odd, "m")
    listed = CliRunner().invoke(app, ["groups", "list", "--bootstrap", bootstrap])
    described = CliRunner().invoke(app, ["groups", "describe", odd, "--bootstrap", bootstrap])
    refused = CliRunner().invoke(app, ["groups", "describe", odd + "er", "--bootstrap", bootstrap])
    leave = ConsumerGroupHeartbeatRequest(group_id=odd, member_id="m", member_epoch=-1)
    assert cluster.call(leave, coordinator=odd).error_code == Code.NONE
    assert (
        cluster.call(DeleteGroupsRequest(groups_names=(odd,)), coordinator=odd)
        .results[0]
        .error_code
        == Code.NONE
    )
    cluster.close()
    name = r"[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    assert sum(name in line for line in listed.stdout.splitlines()) == 1
    # the group, and its client
    assert [name in line for line in described.stdout.splitlines() if "odd" in line] == [True, True]
    assert name in refused.stderr


def test_an_address_that_is_none_is_refused_in_one_sentence() -> None:
    code, lines = run("list", "--bootstrap", "bogus")
    assert (code, lines) == (
        2,
        [["apportion", "groups:", "bootstrap", "server", "'bogus'", "is", "not", "host:port"]],
    )


def test_a_missing_group_and_a_missing_broker_are_reported_in_one_sentence(bootstrap: str) -> None:
    code, lines = run("describe", "no-such-group", "--bootstrap", bootstrap)
    assert code == 1
    assert lines[0][:2] == ["apportion", "groups:"]
    code, lines = run("list", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300")
    assert code == 1
    assert lines[0][:2] == ["apportion", "groups:"]


@pytest.fixture
def loading_broker() -> Iterator[LoadingBroker]:
    """A broker that refuses the first two requests for its groups."""
    broker = LoadingBroker(loading=2)
    broker.start()
    yield broker
    broker.close()


def test_a_broker_that_loads_its_groups_is_asked_until_it_knows_them(
    loading_broker: LoadingBroker,
) -> None:
    code, lines = run("list", "--bootstrap", loading_broker.bootstrap)
    assert code == 0
    assert ["g", "classic", "Empty"] in lines
