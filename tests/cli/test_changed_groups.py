"""`apportion groups delete`, `delete-offsets` and `remove-members` on a running broker."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.member.cluster_queries.offsets import AllOffsetsQuery
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import encode
from tests.cli.groups_on_a_broker import join
from tests.client import changes


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A broker with `t` and `u`, and the groups `g` and `h`, which have offsets in both."""
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap, client_id="reader")
        for topic, count in (("t", 2), ("u", 1)):
            partitions = partitions_of(cluster.create_topic(topic, count))
            for group in ("g", "h"):
                changes.commit(cluster, group, dict.fromkeys(partitions, 0))
        yield cluster
        cluster.close()


def run(cluster: Cluster, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    at = ["--bootstrap", cluster.bootstrap_servers]
    result = CliRunner().invoke(app, ["groups", *arguments, *at])
    return result.exit_code, result.stdout, result.stderr


def offsets(cluster: Cluster, group: str) -> list[tuple[str, int]]:
    return [(*each,) for each in cluster.ask_coordinator(AllOffsetsQuery(group))]


def members(cluster: Cluster, group: str) -> list[str]:
    described = json.loads(run(cluster, "members", group, "--json")[1])
    return [each["member"] for each in described["members"]]


# delete


def test_groups_without_members_are_deleted(cluster: Cluster) -> None:
    assert run(cluster, "delete", "g", "--group", "h") == (0, "g is deleted.\nh is deleted.\n", "")
    assert cluster.list_groups() == []


def test_one_group_that_cannot_be_deleted_keeps_no_other(cluster: Cluster) -> None:
    join(cluster, "g", "m")
    at = cluster.bootstrap_servers
    has_members = (
        "group 'g' has 1 member: m (client reader, host 127.0.0.1). Stop its applications first. "
        "One that was killed stays a member until its session ends, 45 s after its last heartbeat; "
        f"`apportion groups remove-members g --all --bootstrap {at}` removes it at once"
    )
    unknown = (
        f"there is no group 'nosuch': `apportion groups list --bootstrap {at}` shows what there is"
    )
    assert run(cluster, "delete", "g", "h", "nosuch") == (
        1,
        "h is deleted.\n",
        f"apportion groups: {has_members}\napportion groups: {unknown}\n",
    )
    code, stdout, stderr = run(cluster, "delete", "g", "nosuch", "--json")
    assert (code, stdout, [json.loads(line) for line in stderr.splitlines()]) == (
        1,
        "",
        [
            {"error": "NON_EMPTY_GROUP", "message": has_members},
            {"error": "GROUP_ID_NOT_FOUND", "message": unknown},
        ],
    )
    assert [group.group_id for group in cluster.list_groups()] == ["g"]


def test_no_group_is_deleted_without_a_name(cluster: Cluster) -> None:
    assert run(cluster, "delete") == (2, "", "apportion groups: name the groups to delete\n")


# delete-offsets


def test_offsets_of_topics_and_of_partitions_are_deleted(cluster: Cluster) -> None:
    command = ["delete-offsets", "g", "--topic", "t:1", "--topic", "u"]
    assert run(cluster, *command) == (
        0,
        "g has no offsets any more in t 1.\ng has no offsets any more in u 0.\n",
        "",
    )
    assert offsets(cluster, "g") == [("t", 0)]
    code, stdout, _ = run(cluster, "delete-offsets", "h", "--topic", "u", "--json")
    assert (code, json.loads(stdout)) == (0, [{"topic": "u", "partition": 0, "deleted": True}])


def test_offsets_of_a_subscribed_topic_are_not_deleted(cluster: Cluster) -> None:
    join(cluster, "g", "m")
    at = cluster.bootstrap_servers
    assert run(cluster, "delete-offsets", "g", "--topic", "t", "--topic", "u") == (
        1,
        "g has no offsets any more in u 0.\n",
        "apportion groups: members of group 'g' are subscribed to topic 't': stop them first; "
        f"`apportion groups members g --bootstrap {at}` shows them\n",
    )
    assert offsets(cluster, "g") == [("t", 0), ("t", 1)]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["g", "--topic", "nosuch"],
            1,
            "group 'g' has no offset in topic 'nosuch': `apportion groups offsets g --bootstrap "
            "{at}` shows where it has one",
        ),
        (
            ["g", "--topic", "t:1-3"],
            1,
            "group 'g' has no offset in partition 2-3 of topic 't': `apportion groups offsets g "
            "--bootstrap {at}` shows where it has one",
        ),
        (["g"], 2, "name the topics whose offsets to delete, as --topic TOPIC[:0,1]"),
        (["g", "--group", "h", "--topic", "t"], 2, "name one group, as an argument or as --group"),
    ],
)
def test_offsets_that_are_not_there_are_not_deleted(
    cluster: Cluster, arguments: list[str], code: int, message: Any
) -> None:
    said = message.format(at=cluster.bootstrap_servers)
    failed = (code, "", f"apportion groups: {said}\n")
    assert run(cluster, "delete-offsets", *arguments) == failed
    assert len(offsets(cluster, "g")) == 3


# remove-members


def join_classic(cluster: Cluster, group: str, instance: str | None = None) -> str:
    """A member of the classic protocol has joined; return its id."""
    metadata = encode(ConsumerProtocolSubscription(topics=("t",)))
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )
    joined = cluster.call(request, coordinator=group, version=3 if instance is None else 5)
    assert joined.error_code == Code.NONE
    member_id: str = joined.member_id
    return member_id


def test_members_of_either_protocol_are_removed(cluster: Cluster) -> None:
    join(cluster, "g", "m")
    join(cluster, "g", "other")
    static = join_classic(cluster, "g", "seat-7")
    command = ["remove-members", "g", "--member", "m", "--instance", "seat-7"]
    assert run(cluster, *command) == (
        0,
        f"m is removed.\n{static} (seat-7) is removed.\n"
        "A member that still runs joins again by itself.\n",
        "",
    )
    assert members(cluster, "g") == ["other"]


def test_static_members_of_the_consumer_protocol_are_removed(cluster: Cluster) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        instance_id="seat-1",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    assert cluster.call(request, coordinator="g").error_code == Code.NONE
    code, stdout, _ = run(cluster, "remove-members", "g", "--instance", "seat-1", "--json")
    assert (code, json.loads(stdout)) == (
        0,
        [{"member": "m", "instance": "seat-1", "removed": True}],
    )
    assert members(cluster, "g") == []


def test_all_members_are_removed(cluster: Cluster) -> None:
    member = join_classic(cluster, "h")
    assert members(cluster, "h") == [member]
    code, stdout, _ = run(cluster, "remove-members", "h", "--all")
    assert (code, stdout.splitlines()[0]) == (0, f"{member} is removed.")
    assert run(cluster, "remove-members", "h", "--all") == (0, "The group has no members.\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["g", "--member", "nosuch"],
            1,
            "group 'g' has no member 'nosuch': `apportion groups members g --bootstrap {at}` shows "
            "those that it has",
        ),
        (
            ["g", "--instance", "seat-9"],
            1,
            "group 'g' has no member with the instance id 'seat-9': `apportion groups members g "
            "--bootstrap {at}` shows those that it has",
        ),
        (["g"], 2, "name members as --member or --instance, or say --all"),
        (
            ["g", "--all", "--member", "m"],
            2,
            "name members as --member or --instance, or say --all",
        ),
    ],
)
def test_a_member_that_is_not_there_is_not_removed(
    cluster: Cluster, arguments: list[str], code: int, message: Any
) -> None:
    join(cluster, "g", "m")
    said = message.format(at=cluster.bootstrap_servers)
    failed = (code, "", f"apportion groups: {said}\n")
    assert run(cluster, "remove-members", *arguments) == failed
    assert members(cluster, "g") == ["m"]
