"""Options that people type by habit of Kafka's own commands, and what Tab completes."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from tests.cli.completions import completed
from tests.client import changes


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the groups `etl` and `other`, of offsets alone."""
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        partition = partitions_of(cluster.create_topic("t", 1))[0]
        for group in ("etl", "other"):
            changes.commit(cluster, group, {partition: 0})
        cluster.close()
        yield broker.bootstrap


def test_bootstrap_server_means_bootstrap(bootstrap: str) -> None:
    for command in (
        ["groups", "list"],
        ["groups", "describe", "etl"],
        ["streams", "describe", "nosuch"],
    ):
        answers = [
            CliRunner().invoke(app, [*command, option, bootstrap])
            for option in ("--bootstrap", "--bootstrap-server")
        ]
        assert answers[0].output == answers[1].output
        assert "no connection" not in answers[0].output
        assert answers[0].exit_code == answers[1].exit_code < 2


def test_a_cluster_can_be_named_in_the_environment(bootstrap: str) -> None:
    answers = [
        CliRunner().invoke(app, ["groups", "list", *options], env={"APPORTION_BOOTSTRAP": variable})
        for options, variable in (([], bootstrap), (["--bootstrap", bootstrap], "127.0.0.1:1"))
    ]
    assert [answer.exit_code for answer in answers] == [0, 0]
    assert answers[0].output == answers[1].output


def test_a_group_may_be_given_as_an_option(bootstrap: str) -> None:
    at = ["--bootstrap", bootstrap]
    answers = [
        CliRunner().invoke(app, ["groups", "describe", *group, *at])
        for group in (["etl", "other"], ["--group", "etl", "--group", "other"])
    ]
    assert answers[0].exit_code == 0
    assert answers[0].output == answers[1].output


def test_a_streams_group_may_be_given_as_an_option(bootstrap: str) -> None:
    at = ["--bootstrap", bootstrap]
    answers = [
        CliRunner().invoke(app, ["streams", "describe", *group, *at])
        for group in (["nosuch"], ["--group", "nosuch"])
    ]
    assert answers[0].exit_code == 1
    assert answers[0].output == answers[1].output
    both = CliRunner().invoke(app, ["streams", "describe", "a", "--group", "b"])
    assert (both.exit_code, both.stderr) == (
        2,
        "apportion streams: name one group, as an argument or as --group\n",
    )


def test_names_of_groups_of_any_kind_are_completed(bootstrap: str) -> None:
    assert completed("apportion", "groups", "describe", "--bootstrap", bootstrap, "et") == ["etl"]
    assert completed("apportion", "groups", "describe", "--bootstrap", bootstrap, "") == [
        "etl",
        "other",
    ]
    assert completed("apportion", "groups", "describe", "--bootstrap-server", bootstrap, "o") == [
        "other"
    ]
    assert completed("apportion", "groups", "describe", "--bootstrap", "127.0.0.1:1", "et") == []
    for command in ("members", "offsets"):
        assert completed("apportion", "groups", command, "--bootstrap", bootstrap, "et") == ["etl"]
    at = ("--bootstrap", bootstrap)
    assert completed("apportion", "groups", "describe", *at, "--group", "o") == ["other"]
    assert completed("apportion", "groups", "offsets", *at, "--topic", "") == ["t"]


def test_completions_come_from_the_cluster_in_the_environment(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPORTION_BOOTSTRAP", bootstrap)
    assert completed("apportion", "groups", "describe", "et") == ["etl"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["serve", "--set", "num.p"], ["num.partitions="]),
        (["serve", "--set", "group.consumer.migration"], ["group.consumer.migration.policy="]),
        (["groups", "list", "--type", "c"], ["classic", "consumer"]),
        (["groups", "list", "--state", "s"], ["stable"]),
        (["groups", "describe", "--sort", ""], ["topic", "lag", "owner"]),
        (["sim", "--protocol", "c"], ["consumer", "classic"]),
        (["sim", "--assignor", ""], ["uniform", "range", "unreliable"]),
        (["streams", "rehearse", "--leader", ""], ["first", "middle", "last"]),
        (["streams", "rehearse", "--victim", ""], ["instance", "leader", "broker"]),
    ],
)
def test_values_that_can_be_known_are_completed(words: list[str], offered: list[str]) -> None:
    assert completed("apportion", *words) == offered
