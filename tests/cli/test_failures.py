"""Why a command failed is one sentence on stderr, or one JSON object there; stdout stays empty."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.failures import GroupHasMembers
from apportion.cli.main import app
from apportion.server.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def failed(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("room", "meaning"), [("groups", ""), ("streams", "that is the application.id, and ")]
)
def test_a_group_that_is_not_there_is_told_with_the_next_step(
    bootstrap: str, room: str, meaning: Any
) -> None:
    message = (
        f"there is no group 'nosuch': {meaning}`apportion groups list --bootstrap {bootstrap}` "
        "shows what there is"
    )
    describe = [room, "describe", "nosuch", "--bootstrap", bootstrap]
    code, out, err = failed(*describe)
    assert (code, out, err) == (1, "", f"apportion {room}: {message}\n")
    code, out, err = failed(*describe, "--json")
    assert (code, out, json.loads(err)) == (
        1,
        "",
        {"error": "GROUP_ID_NOT_FOUND", "message": message},
    )


def test_many_members_of_a_group_are_named_in_part_and_unknown_ones_not_at_all() -> None:
    members = [
        {"member": f"m{number}", "instance": instance, "client": "c", "host": "/10.0.0.7"}
        for number, instance in enumerate(["worker-1", None, None, None])
    ]
    shown = "; `apportion groups members g --bootstrap b:1` shows them. Stop its applications first"
    where = "(client c, host 10.0.0.7)"
    assert GroupHasMembers("g", members, "--bootstrap b:1").why == (
        f"group 'g' has 4 members: worker-1 {where}, m1 {where}, m2 {where} and 1 more{shown}. One "
        "that was killed stays a member until its session ends; `apportion groups remove-members g "
        "--all --bootstrap b:1` removes it at once"
    )
    assert GroupHasMembers("g", [], "--bootstrap b:1").why == f"group 'g' has members{shown}"


NO_BROKER = (
    "no connection to the broker at 127.0.0.1:1: Connection refused; see that a broker runs there, "
    "or name another one with --bootstrap-server or in APPORTION_BOOTSTRAP"
)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["groups", "list", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300"], 1, NO_BROKER),
        (
            ["groups", "describe", "g", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300"],
            1,
            NO_BROKER,
        ),
        (
            ["streams", "describe", "g", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300"],
            1,
            NO_BROKER,
        ),
        (
            ["groups", "delete", "g", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300"],
            1,
            NO_BROKER,
        ),
        (["topics", "list", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300"], 1, NO_BROKER),
        (["watch", "g", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300"], 1, NO_BROKER),
        (
            ["groups", "describe", "g", "--bootstrap", "http://h:9092"],
            2,
            "bootstrap server 'http://h:9092' has a scheme: leave http:// off and write host:port",
        ),
        (
            ["groups", "list", "--bootstrap", "bogus"],
            2,
            "bootstrap server 'bogus' is not host:port",
        ),
        (
            ["streams", "describe", "g", "--bootstrap", "bogus"],
            2,
            "bootstrap server 'bogus' is not host:port",
        ),
        (
            ["groups", "describe"],
            2,
            "name a group, as in `apportion groups describe GROUP`, or say --all-groups",
        ),
        (
            ["groups", "describe", "g", "--all-groups"],
            2,
            "name groups, or say --all-groups, not both",
        ),
        (
            ["groups", "describe", "g", "--state", "--members"],
            2,
            "give one of --members, --offsets, --state and --configs",
        ),
        (
            ["groups", "describe", "g", "--sort", "size"],
            2,
            "--sort must be one of topic, lag, owner, not 'size'",
        ),
        (["groups", "members"], 2, "name one group, as an argument or as --group"),
        (
            ["groups", "members", "g", "--group", "h"],
            2,
            "name one group, as an argument or as --group",
        ),
        (
            ["groups", "list", "--type", "classic,simple"],
            2,
            "--type must be one of classic, consumer, share, streams, not 'simple'",
        ),
        (
            ["groups", "offsets", "g", "--topic", "t:1,x"],
            2,
            "--topic must be TOPIC or TOPIC:0,1,4-7, not 't:1,x'",
        ),
        (
            ["groups", "offsets", "g", "--topic", "t:3-1"],
            2,
            "3-1 in --topic t:3-1 is no range of partitions",
        ),
        (["streams", "rehearse", "--from", "1.1"], 2, "say both --from and --to, or --matrix"),
        (["sim", "--first", "3", "--seed", "1"], 2, "--first is for --runs, which is not given."),
    ],
)
def test_a_failure_of_a_command_with_json_is_json(
    arguments: list[str], code: int, message: str
) -> None:
    assert failed(*arguments) == (code, "", f"apportion {arguments[0]}: {message}\n")
    exit_code, out, err = failed(*arguments, "--json")
    assert (exit_code, out, json.loads(err)) == (code, "", {"error": None, "message": message})


@pytest.mark.parametrize("room", ["groups", "streams"])
def test_a_host_without_an_address_ends_a_command_without_retries(room: str) -> None:
    # With retries the command would go on for --timeout-ms: an hour.
    code, out, err = failed(
        room, "describe", "g", "--bootstrap", "nosuch.invalid:9092", "--timeout-ms", "3600000"
    )
    assert (code, out) == (1, "")
    assert err.startswith(
        f"apportion {room}: no address is known for the host 'nosuch.invalid' of the bootstrap "
        "servers ("
    )
