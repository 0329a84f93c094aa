"""Why a command failed is one sentence on stderr, or one JSON object there; stdout stays empty."""

import pytest
from typer.testing import CliRunner

from apportion.cli.failures import GroupHasMembers
from apportion.cli.main import app


def failed(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


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
        "--all --execute --bootstrap b:1` removes it at once"
    )
    assert GroupHasMembers("g", [], "--bootstrap b:1").why == f"group 'g' has members{shown}"


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lisst"], "no such command 'lisst'; `apportion --help` shows what there is"),
        (["--verson"], "there is no option --verson: did you mean --version?"),
        (["groups", "list", "--state"], "option '--state' requires an argument"),
    ],
)
def test_a_command_line_without_a_room_is_refused_in_a_sentence(
    words: list[str], said: str
) -> None:
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == f"apportion: {said}\n"


def test_a_room_without_a_command_shows_its_help() -> None:
    shown = CliRunner().invoke(app, ["groups"])
    assert (shown.exit_code, shown.stderr) == (2, "")
    assert "Show and change the consumer groups" in shown.stdout
