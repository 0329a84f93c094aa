"""`apportion topics` on a running broker."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.uuids import uuid_text
from tests.cli.completions import completed


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A broker with `t` of two partitions, and three partitions for a topic of no number."""
    with EmbeddedBroker(num_partitions=3) as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.create_topic("t", 2, config={"retention.ms": "5000"})
        yield cluster
        cluster.close()


def run(cluster: Cluster, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    at = ["--bootstrap-server", cluster.bootstrap_servers]
    result = CliRunner().invoke(app, ["topics", *arguments, *at])
    return result.exit_code, result.stdout, result.stderr


def topic_id(cluster: Cluster, name: str) -> str:
    topic = cluster.topics([name], fresh=True).named(name)
    assert topic is not None
    return uuid_text(topic.id)


DESCRIBED = """\
t: 2 partitions, replication factor 1, id {id}, retention.ms=5000
PARTITION  LEADER  REPLICAS  ISR
        0       1  1         1
        1       1  1         1
"""


def test_topics_are_listed(cluster: Cluster) -> None:
    assert run(cluster, "list") == (
        0,
        "TOPIC  PARTITIONS  REPLICATION\nt               2            1\n",
        "",
    )
    code, stdout, _ = run(cluster, "list", "--json")
    row = {"topic": "t", "partitions": 2, "replication_factor": 1, "internal": False}
    assert (code, json.loads(stdout)) == (0, [row])


def test_internal_topics_are_left_out_on_request(cluster: Cluster) -> None:
    cluster.find_coordinator("g")
    listed = json.loads(run(cluster, "list", "--json")[1])
    assert [row["topic"] for row in listed] == ["__consumer_offsets", "t"]
    assert [row["internal"] for row in listed] == [True, False]
    listed = json.loads(run(cluster, "list", "--exclude-internal", "--json")[1])
    assert [row["topic"] for row in listed] == ["t"]


def test_a_cluster_without_topics_has_a_sentence() -> None:
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        for command in ("list", "describe"):
            assert run(cluster, command) == (0, "There are no topics.\n", "")


def test_a_topic_is_described_with_its_own_settings(cluster: Cluster) -> None:
    described = DESCRIBED.format(id=topic_id(cluster, "t"))
    for command in (["describe", "t"], ["describe", "--topic", "t"], ["describe"]):
        assert run(cluster, *command) == (0, described, "")
    code, stdout, _ = run(cluster, "describe", "t", "--json")
    assert (code, json.loads(stdout)) == (
        0,
        {
            "topic": "t",
            "id": topic_id(cluster, "t"),
            "internal": False,
            "replication_factor": 1,
            "config": {"retention.ms": "5000"},
            "partitions": [
                {"partition": number, "leader": 1, "replicas": [1], "isr": [1]}
                for number in range(2)
            ],
        },
    )


def test_a_topic_is_created(cluster: Cluster) -> None:
    command = ["create", "new", "--partitions", "4", "--replication-factor", "1"]
    assert run(
        cluster, *command, "--config", "retention.ms=1", "--config", "max.message.bytes=9"
    ) == (
        0,
        "new is created: 4 partitions, replication factor 1.\n",
        "",
    )
    described = json.loads(run(cluster, "describe", "new", "--json")[1])
    assert described["config"] == {"max.message.bytes": "9", "retention.ms": "1"}


def test_a_topic_has_as_many_partitions_as_the_broker_gives(cluster: Cluster) -> None:
    code, stdout, _ = run(cluster, "create", "--topic", "new", "--json")
    assert (code, json.loads(stdout)) == (
        0,
        {"topic": "new", "created": True, "partitions": 3, "replication_factor": 1},
    )


def test_a_topic_that_exists_is_an_error_unless_that_is_right(cluster: Cluster) -> None:
    at = cluster.bootstrap_servers
    assert run(cluster, "create", "t") == (
        1,
        "",
        f"apportion topics: topic 't' exists already: `apportion topics describe t --bootstrap "
        f"{at}` shows it, and with --if-not-exists this is no error\n",
    )
    assert run(cluster, "create", "t", "--if-not-exists") == (0, "t exists already.\n", "")


def test_a_topic_is_given_more_partitions(cluster: Cluster) -> None:
    assert run(cluster, "alter", "t", "--partitions", "5") == (0, "t has 5 partitions now.\n", "")
    assert len(json.loads(run(cluster, "describe", "t", "--json")[1])["partitions"]) == 5
    gone = run(cluster, "alter", "nosuch", "--partitions", "5", "--if-exists")
    assert gone == (0, "nosuch does not exist.\n", "")


def test_topics_are_deleted(cluster: Cluster) -> None:
    run(cluster, "create", "u")
    assert run(cluster, "delete", "t", "--topic", "u", "--topic", "v", "--if-exists") == (
        0,
        "t is deleted.\nu is deleted.\nv does not exist.\n",
        "",
    )
    assert run(cluster, "list", "--exclude-internal") == (0, "There are no topics.\n", "")


def test_one_topic_that_does_not_exist_keeps_no_other(cluster: Cluster) -> None:
    at = cluster.bootstrap_servers
    code, stdout, stderr = run(cluster, "delete", "nosuch", "t", "--json")
    assert (code, json.loads(stdout), json.loads(stderr)) == (
        1,
        [{"topic": "t", "deleted": True}],
        {
            "error": "UNKNOWN_TOPIC_OR_PARTITION",
            "message": "there is no topic 'nosuch': `apportion topics list --bootstrap "
            f"{at}` shows what there is",
        },
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["describe", "nosuch"],
            1,
            "there is no topic 'nosuch': `apportion topics list --bootstrap {at}` shows what there "
            "is",
        ),
        (
            ["alter", "nosuch", "--partitions", "3"],
            1,
            "there is no topic 'nosuch': `apportion topics list --bootstrap {at}` shows what there "
            "is",
        ),
        (["alter", "t"], 2, "say what to alter: --partitions, the new number of partitions"),
        (["alter", "--partitions", "3"], 2, "name one topic, as an argument or as --topic"),
        (["create"], 2, "name one topic, as an argument or as --topic"),
        (["create", "t", "--topic", "u"], 2, "name one topic, as an argument or as --topic"),
        (
            ["create", "u", "--config", "retention.ms"],
            2,
            "--config must be NAME=VALUE, not 'retention.ms'",
        ),
        (["alter", "t", "--partitions", "x"], 2, "--partitions must be a whole number, not 'x'"),
        (
            ["create", "u", "--replication-factor", "1.5"],
            2,
            "--replication-factor must be a whole number, not '1.5'",
        ),
        (["delete"], 2, "name the topics to delete"),
    ],
)
def test_a_wrong_command_is_refused_with_the_next_step(
    cluster: Cluster, arguments: list[str], code: int, message: Any
) -> None:
    expected = message.format(at=cluster.bootstrap_servers)
    assert run(cluster, *arguments) == (code, "", f"apportion topics: {expected}\n")
    exit_code, stdout, stderr = run(cluster, *arguments, "--json")
    assert (exit_code, stdout, json.loads(stderr)["message"]) == (code, "", expected)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create", "u", "--partitions", "0"], "INVALID_PARTITIONS"),
        (["create", "u", "--replication-factor", "3"], "INVALID_REPLICATION_FACTOR"),
        (["create", "a/b"], "INVALID_TOPIC_EXCEPTION"),
        (["create", "u", "--config", "retention=5"], "INVALID_CONFIG"),
        (["alter", "t", "--partitions", "2"], "INVALID_PARTITIONS"),
    ],
)
def test_a_refusal_of_the_broker_is_passed_on(
    cluster: Cluster, arguments: list[str], code: str
) -> None:
    exit_code, stdout, stderr = run(cluster, *arguments, "--json")
    assert (exit_code, stdout, json.loads(stderr)["error"]) == (1, "", code)


def test_names_of_topics_and_settings_are_completed(cluster: Cluster) -> None:
    at = ["--bootstrap-server", cluster.bootstrap_servers]
    for command in ("describe", "alter", "delete"):
        assert completed("apportion", "topics", command, *at, "") == ["t"]
        assert completed("apportion", "topics", command, *at, "--topic", "t") == ["t"]
    assert completed("apportion", "topics", "create", "x", "--config", "retention.m") == [
        "retention.ms="
    ]
    assert completed("apportion", "topics", "delete", "--bootstrap-server", "127.0.0.1:1", "") == []
