"""`apportion groups` shows odd names, racks and targets, and partitions that nobody owns."""

import json
from collections.abc import Mapping
from contextlib import closing

from typer.testing import CliRunner

from apportion import Consumer
from apportion.assign.by_name import ClusterTopics, Given, Subscription, by_topic
from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from tests.cli.members import join
from tests.cli.terminal import on_terminal
from tests.client import changes


def run(cluster: Cluster, *arguments: str) -> list[str]:
    """The lines of the command's output."""
    at = ["--bootstrap-server", cluster.bootstrap_servers]
    result = CliRunner().invoke(app, ["groups", *arguments, *at])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_names_are_shown_as_they_are_and_the_terminal_obeys_none() -> None:
    odd = "[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap, client_id=odd)) as cluster:
        cluster.create_topic("t", 1)
        join(cluster, odd, "m")
        listed, described = run(cluster, "list"), run(cluster, "describe", odd)
        command = ["groups", "describe", odd + "er", "--bootstrap", broker.bootstrap]
        refused = CliRunner().invoke(app, command)
    name = r"[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    assert sum(name in line for line in listed) == 1
    # the group, and its client
    assert [name in line for line in described if "odd" in line] == [True, True]
    assert name in refused.stderr


def test_a_member_is_shown_with_its_target_its_rack_and_its_expression() -> None:
    with (
        EmbeddedBroker(group_consumer_assignment_interval_ms=0) as broker,
        closing(Cluster(broker.bootstrap, client_id="reader")) as cluster,
    ):
        cluster.create_topic("t", 2)
        join(cluster, "g", "one")
        join(cluster, "g", "two", rack_id="north", subscribed_topic_regex="t|u")
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
    words = (
        "1 member, total lag 0, 3 partitions without a committed offset, "
        "2 partitions without an owner"
    )
    assert lines[0].endswith(words)
    assert [line.split()[:5] for line in lines[2:]] == [
        ["t", str(number), "-", "0", "-"] for number in range(3)
    ]
    assert watched.stdout.endswith(words + "\n")
    assert "without an owner: t 1-2" in screen


def test_a_group_with_an_offset_out_of_range_is_warned_of_by_the_doctor() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        changes.commit(cluster, "lost", {partitions_of(cluster.create_topic("t", 1))[0]: 50})
        at = f"--bootstrap {broker.bootstrap}"
        command = ["doctor", *at.split(), "--group", "lost", "--json"]
        findings = json.loads(CliRunner().invoke(app, command).stdout)["checks"]
    assert [each for each in findings if each["check"] == "group lost"] == [
        {
            "check": "group lost",
            "result": "warning",
            "found": "classic, Empty, 0 members, lag unknown, 1 offset out of range",
            "remedy": "a query ends there, or steps over what is gone with failOnDataLoss=false: "
            f"`apportion groups describe lost {at}` shows where",
        }
    ]
