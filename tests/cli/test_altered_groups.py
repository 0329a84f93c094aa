"""`apportion groups alter`, and the settings of groups as they are described."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.errors import Code
from apportion.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.cli.completions import completed
from tests.cli.groups_on_a_broker import broker_with_groups
from tests.cli.old_broker import OldBroker

SESSION = "consumer.session.timeout.ms"


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A broker with the groups `g`, which has a member, and `h`."""
    with broker_with_groups() as bootstrap:
        yield bootstrap


def run(bootstrap: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(app, ["groups", *arguments, "--bootstrap-server", bootstrap])
    return result.exit_code, result.stdout, result.stderr


def settings(bootstrap: str, group: str) -> Any:
    """The settings of a group by name: value and source."""
    code, stdout, stderr = run(bootstrap, "describe", group, "--configs", "--json")
    assert (code, stderr) == (0, "")
    return {row["name"]: (row["value"], row["source"]) for row in json.loads(stdout)["configs"]}


def test_a_setting_of_a_group_is_altered_and_returned_to_its_default(bootstrap: str) -> None:
    table = f"SETTING                      BEFORE  NEW\n{SESSION}  45000   20000\n"
    command = ["alter", "g", "--config", f"{SESSION}=20000"]
    dry = "Nothing was changed: leave --dry-run out to alter it.\n"
    assert run(bootstrap, *command, "--dry-run") == (0, table + dry, "")
    assert settings(bootstrap, "g")[SESSION] == ("45000", "default")
    assert run(bootstrap, *command) == (0, f"{table}g is altered.\n", "")
    assert settings(bootstrap, "g")[SESSION] == ("20000", "group")
    code, stdout, _ = run(bootstrap, "alter", "--group", "g", "--delete-config", SESSION, "--json")
    assert (code, json.loads(stdout)) == (
        0,
        {
            "group": "g",
            "type": "consumer",
            "altered": True,
            "configs": [{"name": SESSION, "before": "20000", "new": "45000"}],
        },
    )
    assert settings(bootstrap, "g")[SESSION] == ("45000", "default")


def test_the_settings_of_a_group_are_shown_with_their_sources(bootstrap: str) -> None:
    run(bootstrap, "alter", "g", "--config", f"{SESSION}=20000")
    code, stdout, _ = run(bootstrap, "describe", "g", "--configs")
    title, *rows = stdout.splitlines()
    assert (code, title.split(", ")[0]) == (0, "g: a consumer group")
    assert [row.split() for row in rows] == [
        ["SETTING", "VALUE", "FROM"],
        ["consumer.assignment.interval.ms", "1000", "default"],
        ["consumer.heartbeat.interval.ms", "5000", "default"],
        [SESSION, "20000", "group"],
    ]


def test_a_classic_group_is_told_when_its_settings_hold(bootstrap: str) -> None:
    code, stdout, _ = run(bootstrap, "alter", "h", "--config", f"{SESSION}=20000")
    assert (code, stdout.splitlines()[2:]) == (
        0,
        [
            "h is altered.",
            "It is a classic group: the settings hold once its members use the consumer protocol.",
        ],
    )


def test_a_group_may_have_settings_before_it_has_members(bootstrap: str) -> None:
    command = ["alter", "new", "--config", f"{SESSION}=20000"]
    assert run(bootstrap, *command) == (
        1,
        "",
        "apportion groups: there is no group 'new': `apportion groups list --bootstrap "
        f"{bootstrap}` shows what there is; --new-group gives settings to a group before it "
        "has members\n",
    )
    assert run(bootstrap, *command, "--new-group")[0] == 0
    code, stdout, _ = run(bootstrap, "describe", "new", "--configs")
    assert (code, stdout.splitlines()[0]) == (
        0,
        "new: there is no such group yet, but it has settings",
    )
    assert run(bootstrap, "alter", "new", "--delete-config", SESSION)[0] == 0
    assert run(bootstrap, "describe", "new", "--configs")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["alter", "g"], 2, "say what to alter: --config or --delete-config"),
        (
            ["alter", "", "--config", f"{SESSION}=20000"],
            1,
            "INVALID_REQUEST: name a group: the settings of all groups are the broker's, "
            "group.consumer...",
        ),
        (
            ["alter", "--config", f"{SESSION}=1"],
            2,
            "name one group, as an argument or as --group",
        ),
        (
            ["alter", "g", "--config", "session.timeout.ms=20000"],
            1,
            f"a group has no setting 'session.timeout.ms': did you mean {SESSION}?",
        ),
        (
            ["alter", "g", "--config", f"{SESSION}=61000"],
            1,
            f"INVALID_CONFIG: {SESSION} of a group must be at most 60000, the broker's "
            "group.consumer.max.session.timeout.ms, not 61000",
        ),
    ],
)
def test_a_wrong_alteration_is_refused_with_the_next_step(
    bootstrap: str, arguments: list[str], code: int, message: str
) -> None:
    assert run(bootstrap, *arguments) == (code, "", f"apportion groups: {message}\n")
    exit_code, stdout, stderr = run(bootstrap, *arguments, "--json")
    failure = json.loads(stderr)
    # The code of the error has a key of its own.
    without_code = message.removeprefix(f"{failure['error']}: ")
    assert (exit_code, stdout, failure["message"]) == (code, "", without_code)


def test_names_of_settings_of_groups_are_completed_from_the_cluster(bootstrap: str) -> None:
    at = ["--bootstrap-server", bootstrap]
    command = ["apportion", "groups", "alter", "g", *at]
    assert completed(*command, "--config", "consumer.s") == [f"{SESSION}="]
    assert completed(*command, "--delete-config", "consumer.s") == [SESSION]
    gone = ["apportion", "groups", "alter", "g", "--bootstrap-server", "127.0.0.1:1"]
    assert completed(*gone, "--config", "consumer.s") == []


class BrokerWithoutGroupSettings(OldBroker):
    """Knows no settings of groups: `result` is what it has for a kind that it does not know."""

    def __init__(self, result: DescribeConfigsResult) -> None:
        super().__init__()
        self.result = result

    def _response(self, request: Any) -> Any:
        if isinstance(request, DescribeConfigsRequest):
            return DescribeConfigsResponse(results=(self.result,))
        return super()._response(request)


@contextmanager
def running(broker: BrokerWithoutGroupSettings) -> Iterator[str]:
    broker.start()
    yield broker.bootstrap
    broker.close()


@pytest.mark.parametrize(
    "result",
    [
        DescribeConfigsResult(error_code=Code.INVALID_REQUEST, error_message="what is type 32?"),
        DescribeConfigsResult(),
    ],
    ids=["refused", "empty"],
)
@pytest.mark.parametrize(
    "arguments", [["describe", "g", "--configs"], ["alter", "g", "--config", f"{SESSION}=20000"]]
)
def test_a_broker_without_settings_of_groups_has_a_sentence(
    result: DescribeConfigsResult, arguments: list[str]
) -> None:
    with running(BrokerWithoutGroupSettings(result)) as bootstrap:
        assert run(bootstrap, *arguments) == (
            1,
            "",
            "apportion groups: this cluster has no settings of single groups, as Apache Kafka has "
            "since 4.0: those of its brokers, such as group.consumer.session.timeout.ms, hold for "
            "every group\n",
        )
