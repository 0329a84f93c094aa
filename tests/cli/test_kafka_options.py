"""Options that people type by habit of Kafka's own commands, and what Tab completes."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
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


@pytest.mark.parametrize("room", ["groups", "streams"])
def test_a_group_given_as_an_option_is_answered_with_the_right_command(room: str) -> None:
    answer = CliRunner().invoke(app, [room, "describe", "--group", "etl"], env={"COLUMNS": "200"})
    words = " ".join(answer.output.translate({ord("│"): " "}).split())
    assert answer.exit_code == 2
    assert (
        "Invalid value for '--group': the group is no option here, write: apportion "
        f"{room} describe etl" in words
    )


def completed(*words: str) -> list[str]:
    """What Tab offers after these words, the last of which is begun."""
    environment = {
        "_APPORTION_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    return CliRunner().invoke(app, [], prog_name="apportion", env=environment).output.split()


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


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["serve", "--set", "num.p"], ["num.partitions="]),
        (["serve", "--set", "group.consumer.migration"], ["group.consumer.migration.policy="]),
        (["sim", "--protocol", "c"], ["consumer", "classic"]),
        (["sim", "--assignor", ""], ["uniform", "range"]),
        (["streams", "rehearse", "--leader", ""], ["first", "middle", "last"]),
        (["streams", "rehearse", "--victim", ""], ["instance", "leader", "broker"]),
    ],
)
def test_values_that_can_be_known_are_completed(words: list[str], offered: list[str]) -> None:
    assert completed("apportion", *words) == offered
