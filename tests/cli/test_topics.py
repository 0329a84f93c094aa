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


ALTERED = """\
SETTING        BEFORE      NEW
segment.bytes  1073741824  2097152
retention.ms   5000        -1
"""


def own_settings(cluster: Cluster) -> Any:
    return json.loads(run(cluster, "describe", "t", "--json")[1])["config"]


def test_settings_of_a_topic_are_altered_and_returned_to_their_defaults(cluster: Cluster) -> None:
    command = ["alter", "t", "--config", "segment.bytes=2097152", "--delete-config", "retention.ms"]
    dry = "Nothing was changed: leave --dry-run out to alter it.\n"
    assert run(cluster, *command, "--dry-run") == (0, ALTERED + dry, "")
    assert own_settings(cluster) == {"retention.ms": "5000"}
    assert run(cluster, *command) == (0, f"{ALTERED}t is altered.\n", "")
    assert own_settings(cluster) == {"segment.bytes": "2097152"}


def test_partitions_and_settings_are_altered_together_or_not_at_all(cluster: Cluster) -> None:
    command = ["alter", "t", "--partitions", "4", "--config"]
    assert run(cluster, *command, "retention.ms=x")[0] == 1
    code, stdout, _ = run(cluster, *command, "retention.ms=7000", "--dry-run", "--json")
    expected = {
        "topic": "t",
        "altered": False,
        "configs": [{"name": "retention.ms", "before": "5000", "new": "7000"}],
        "partitions": 4,
    }
    assert (code, json.loads(stdout)) == (0, expected)
    text = run(cluster, *command, "retention.ms=7000", "--dry-run")[1]
    assert text.splitlines()[-1] == (
        "t would have 4 partitions. Nothing was changed: leave --dry-run out to alter it."
    )
    described = json.loads(run(cluster, "describe", "t", "--json")[1])
    assert (len(described["partitions"]), described["config"]) == (2, {"retention.ms": "5000"})
    code, stdout, _ = run(cluster, *command, "retention.ms=7000", "--json")
    assert (code, json.loads(stdout)) == (0, expected | {"altered": True})
    described = json.loads(run(cluster, "describe", "t", "--json")[1])
    assert (len(described["partitions"]), described["config"]) == (4, {"retention.ms": "7000"})


def test_every_setting_of_a_topic_is_shown_with_its_source(cluster: Cluster) -> None:
    code, stdout, _ = run(cluster, "describe", "t", "--configs")
    rows = [line.split() for line in stdout.splitlines()]
    assert (code, rows[0][0], rows[1]) == (0, "t:", ["SETTING", "VALUE", "FROM"])
    assert ["retention.ms", "5000", "topic"] in rows
    assert ["segment.bytes", "1073741824", "default"] in rows
    report = json.loads(run(cluster, "describe", "t", "--configs", "--json")[1])
    row = {"name": "retention.ms", "value": "5000", "source": "topic"}
    assert row in report["configs"]
    assert len(report["partitions"]) == 2


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
        (
            ["alter", "t"],
            2,
            "say what to alter: --partitions, --config or --delete-config",
        ),
        (
            ["alter", "nosuch", "--delete-config", "retention.ms"],
            1,
            "there is no topic 'nosuch': `apportion topics list --bootstrap {at}` shows what there "
            "is",
        ),
        (
            ["alter", "t", "--config", "retention.m=1"],
            1,
            "a topic has no setting 'retention.m': did you mean retention.ms?",
        ),
        (
            ["alter", "t", "--delete-config", "zzz"],
            1,
            "a topic has no setting 'zzz': `apportion topics describe t --configs --bootstrap "
            "{at}` shows all",
        ),
        (
            ["alter", "t", "--delete-config", "retention.ms=1"],
            2,
            "--delete-config must be the NAME of a setting, not 'retention.ms=1'",
        ),
        (
            ["alter", "t", "--config", "retention.ms=1", "--delete-config", "retention.ms"],
            2,
            "retention.ms cannot be set and deleted: give one of the two",
        ),
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
        (["alter", "t", "--partitions", "2", "--dry-run"], "INVALID_PARTITIONS"),
        (["alter", "t", "--config", "retention.ms=x"], "INVALID_CONFIG"),
        (["alter", "t", "--config", "retention.ms=x", "--dry-run"], "INVALID_CONFIG"),
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
    assert completed("apportion", "topics", "alter", "x", "--config", "retention.m") == [
        "retention.ms="
    ]
    assert completed("apportion", "topics", "alter", "x", "--delete-config", "retention.m") == [
        "retention.ms"
    ]
    assert completed("apportion", "topics", "delete", "--bootstrap-server", "127.0.0.1:1", "") == []
