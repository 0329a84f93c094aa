"""`apportion groups` shows epochs, targets and subscriptions of groups that are not settled."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from typer.testing import CliRunner

from apportion import Consumer
from apportion.assign.by_name import ClusterTopics, Given, Subscription, by_topic
from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.cli.terminal import on_terminal

OTHERS_WAIT_MS = 15_000
OF_T: dict[str, Any] = {"subscribed_topic_names": ("t",)}


def join(cluster: Cluster, member_id: str, **fields: Any) -> None:
    """That member has joined the group `g`."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topic_partitions=(),
        **fields,
    )
    assert cluster.call(request, coordinator="g").error_code == Code.NONE


@contextmanager
def group_of_one(interval_ms: int) -> Iterator[Cluster]:
    """A group of one member that owns `t`. interval_ms: how long its target is kept."""
    with EmbeddedBroker(group_consumer_assignment_interval_ms=interval_ms) as broker:
        cluster = Cluster(broker.bootstrap, client_id="reader")
        cluster.create_topic("t", 2)
        join(cluster, "one", **OF_T)
        yield cluster
        cluster.close()


def run(cluster: Cluster, *arguments: str) -> list[str]:
    """The lines of the command's output."""
    at = ["--bootstrap-server", cluster.bootstrap_servers]
    result = CliRunner().invoke(app, ["groups", *arguments, *at])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_a_member_is_shown_with_its_target_its_rack_and_its_expression() -> None:
    with group_of_one(0) as cluster:
        join(cluster, "two", rack_id="north", subscribed_topic_regex="t|u", **OF_T)
        members = run(cluster, "members", "g", "--verbose")
        plain = run(cluster, "members", "g")
        report = json.loads("".join(run(cluster, "members", "g", "--json")))
    assert members[0].split() == [
        *("MEMBER", "CLIENT", "HOST", "RACK", "EPOCH", "OWNS", "TARGET", "TOPICS", "REGEX")
    ]
    targets = [member.pop("target")["t"] for member in report["members"]]
    assert sorted(targets) == [[0], [1]]
    one, two = ([f"t {number}"] for [number] in targets)
    assert [line.replace("t 0-1", "t_0-1").split() for line in members[1:]] == [
        ["one", "reader", "127.0.0.1", "-", "2", "t_0-1", *one[0].split(), "t", "-"],
        ["two", "reader", "127.0.0.1", "north", "3", "-", *two[0].split(), "t", "t|u"],
    ]
    assert plain[0].split() == ["MEMBER", "CLIENT", "HOST", "EPOCH", "OWNS"]
    assert report["members"][1] == {
        "member": "two",
        "instance": None,
        "client": "reader",
        "host": "/127.0.0.1",
        "protocol": "consumer",
        "rack": "north",
        "epoch": 3,
        "owns": {},
        "topics": ["t"],
        "regex": "t|u",
    }


class OneToOne:
    """An assignor that gives the first partition of `t` to a member, and the others to nobody."""

    name = "one-to-one"

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        return {member: Given(by_topic([("t", 0)])) for member in [*members][:1]}


def test_partitions_that_an_assignor_gives_to_nobody_are_listed_and_counted() -> None:
    with EmbeddedBroker(group_consumer_assignors=["uniform", OneToOne()]) as broker:
        cluster = Cluster(broker.bootstrap, client_id="reader")
        cluster.create_topic("t", 3)
        with Consumer(
            broker.bootstrap, "g", topics=["t"], group_remote_assignor="one-to-one"
        ) as one:
            while not one.assignment:
                one.poll()
            lines = run(cluster, "describe", "g")
            at = ["--bootstrap", broker.bootstrap]
            watched = CliRunner().invoke(app, ["watch", "g", "--refreshes", "1", *at])
            screen = on_terminal(["watch", "g", "--refreshes", "1", *at], 100)
        cluster.close()
    words = "1 member, 3 partitions without a committed offset, 2 partitions without an owner"
    assert lines[0].endswith(words)
    assert [line.split()[:5] for line in lines[2:]] == [
        ["t", str(number), "-", "0", "-"] for number in range(3)
    ]
    assert watched.stdout.endswith(words + "\n")
    assert "without an owner: t 1-2" in screen
