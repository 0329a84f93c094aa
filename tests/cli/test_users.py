"""`apportion users` on a running broker: SCRAM users, whose passwords no command line has."""

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.cli.users.changing import LAST_SUPER_USER
from apportion.client.cluster import Cluster
from apportion.errors import Refused
from apportion.security.client_security import ClientSecurity, PasswordLogin
from apportion.server.embedded import EmbeddedBroker
from apportion.server.embedded_security import BrokerSecurity
from tests.cli.completions import completed
from tests.cli.keeping_broker import KeepingBroker

PASSWORD = "a-pässword, secret"
SASL = "listener.name.sasl"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker without users, whose second listener lets users of SCRAM in."""
    settings: dict[str, Any] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        f"{SASL}.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        f"{SASL}.connection.failed.authentication.delay.ms": 1,
    }
    with EmbeddedBroker(**settings) as broker:
        yield broker


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords in environment variables, and what is none."""
    monkeypatch.setenv("PASSWORD_OF_ALICE", PASSWORD)
    monkeypatch.setenv("ANOTHER_PASSWORD", "another")
    monkeypatch.setenv("TWO_LINES", "one\ntwo")


def run(bootstrap: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(app, ["users", *arguments, "--bootstrap-server", bootstrap])
    return result.exit_code, result.stdout, result.stderr


def lets_in(broker: EmbeddedBroker, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    """Whether alice can log in so."""
    login = ClientSecurity(login=PasswordLogin(mechanism, "alice", password))
    cluster = Cluster(broker.addresses["SASL"], security=login)
    try:
        cluster.nodes()
    except Refused:
        return False
    finally:
        cluster.close()
    return True


FROM_VARIABLE = ("--password-env", "PASSWORD_OF_ALICE")
BOTH = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "scram-sha-512")


def test_a_user_is_added_and_logs_in(broker: EmbeddedBroker) -> None:
    at = broker.bootstrap
    assert run(at, "list") == (0, "There are no SCRAM users.\n", "")
    assert run(at, "add", "alice", *FROM_VARIABLE) == (
        0,
        "alice has a password for SCRAM-SHA-512 now, with 4096 iterations.\n",
        "",
    )
    assert lets_in(broker, PASSWORD)
    assert not lets_in(broker, "another")
    assert run(at, "list") == (
        0,
        "USER   MECHANISM      ITERATIONS\nalice  SCRAM-SHA-512        4096\n",
        "",
    )


def test_a_password_is_in_a_file_whose_line_ends(broker: EmbeddedBroker, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    code, stdout, _ = run(
        broker.bootstrap, "add", "alice", "--password-file", str(path), *BOTH, "--json"
    )
    assert (code, json.loads(stdout)) == (
        0,
        [
            {"user": "alice", "mechanism": mechanism, "iterations": 4096, "added": True}
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ],
    )
    assert lets_in(broker, PASSWORD, "SCRAM-SHA-256")
    assert lets_in(broker, PASSWORD)


def on_terminal(arguments: list[str], answers: list[str]) -> tuple[int, str, str]:
    """Exit code and stdout of a command whose questions are answered on a terminal, and what the
    terminal shows.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "apportion.cli.main", "users", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            for answer in answers:
                # The blank comes after what was typed before is thrown away.
                while not shown.endswith(b": "):
                    assert select.select([ours], [], [], 60)[0], shown
                    shown += os.read(ours, 4_096)
                shown += b"|"
                os.write(ours, answer.encode() + b"\n")
            assert process.stdout is not None
            printed = process.stdout.read().decode()
            code = process.wait()
        finally:
            process.kill()
    os.close(ours)
    return code, printed, shown.decode()


def test_a_password_is_asked_for_twice_and_not_shown(broker: EmbeddedBroker) -> None:
    code, stdout, shown = on_terminal(
        ["add", "alice", "--bootstrap", broker.bootstrap], [PASSWORD, PASSWORD]
    )
    assert (code, stdout) == (
        0,
        "alice has a password for SCRAM-SHA-512 now, with 4096 iterations.\n",
    )
    assert "Password of alice" in shown
    assert PASSWORD not in shown
    assert lets_in(broker, PASSWORD)


def test_a_user_who_is_there_keeps_the_password(broker: EmbeddedBroker) -> None:
    at = broker.bootstrap
    run(at, "add", "alice", *FROM_VARIABLE)
    add = ("add", "alice", "--password-env", "ANOTHER_PASSWORD")
    assert run(at, *add) == (
        1,
        "",
        "apportion users: user 'alice' has a password for SCRAM-SHA-512 already: `apportion users "
        f"alter alice --bootstrap {at}` gives another one, and with --if-not-exists this is no "
        "error\n",
    )
    assert run(at, *add, "--if-not-exists", *BOTH) == (
        0,
        "alice has a password for SCRAM-SHA-512 already, which stays.\n"
        "alice has a password for SCRAM-SHA-256 now, with 4096 iterations.\n",
        "",
    )
    assert lets_in(broker, PASSWORD)
    assert lets_in(broker, "another", "SCRAM-SHA-256")


def test_another_password_holds_for_every_mechanism_of_a_user(broker: EmbeddedBroker) -> None:
    at = broker.bootstrap
    run(at, "add", "alice", *FROM_VARIABLE, "--iterations", "8192")
    run(at, "add", "alice", *FROM_VARIABLE, "--mechanism", "SCRAM-SHA-256")
    assert run(at, "alter", "alice", "--password-env", "ANOTHER_PASSWORD") == (
        0,
        "alice has another password for SCRAM-SHA-256 now, with 4096 iterations.\n"
        "alice has another password for SCRAM-SHA-512 now, with 8192 iterations.\n",
        "",
    )
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert lets_in(broker, "another", mechanism)
        assert not lets_in(broker, PASSWORD, mechanism)
    alter = ("alter", "alice", *FROM_VARIABLE, "--mechanism", "SCRAM-SHA-256")
    code, stdout, _ = run(at, *alter, "--iterations", "5000", "--json")
    row = {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 5000, "altered": True}
    assert (code, json.loads(stdout)) == (0, [row])
    assert lets_in(broker, "another")


def test_a_user_is_removed_with_every_password_or_with_one(broker: EmbeddedBroker) -> None:
    at = broker.bootstrap
    for user in ("alice", "bob"):
        run(at, "add", user, *FROM_VARIABLE, *BOTH)
    assert run(at, "remove", "alice", "--mechanism", "SCRAM-SHA-256") == (
        0,
        "alice has no password for SCRAM-SHA-256 any more.\n",
        "",
    )
    code, stdout, stderr = run(at, "remove", "alice", "carol", "bob", "--json")
    gone = [("alice", "SCRAM-SHA-512"), ("bob", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-512")]
    assert (code, json.loads(stdout), json.loads(stderr)["error"]) == (
        1,
        [
            {"user": user, "mechanism": mechanism, "iterations": 4096, "removed": True}
            for user, mechanism in gone
        ],
        "RESOURCE_NOT_FOUND",
    )
    assert not lets_in(broker, PASSWORD)
    absent = run(at, "remove", "alice", "--if-exists")
    assert absent == (0, "Nothing was changed: there is no such user, or no such password.\n", "")


def test_the_user_of_ones_own_login_is_removed_by_force_alone(tmp_path: Path) -> None:
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT", users={"admin": "a", "bob": "b"}, super_users=["User:admin"]
    )
    with EmbeddedBroker(security=security) as broker:
        properties = broker.client_properties("admin")
        mechanism = properties["sasl.mechanism"]
        other = next(each for each in BOTH[1::2] if each.upper() != mechanism)
        path = tmp_path / "client.properties"
        path.write_text("\n".join(f"{key}={value}" for key, value in properties.items()))

        def removed(*arguments: str) -> tuple[int, str, str]:
            options = ("--command-config", str(path), *arguments)
            return run(broker.bootstrap, "remove", *options)

        refused = (
            2,
            "",
            f"apportion users: admin is the user by whom this command logs in ({mechanism}), and "
            "could not log in any more: --force removes the password all the same\n",
        )
        assert removed("bob", "admin") == refused
        assert removed("admin", "--mechanism", mechanism) == refused
        assert removed("admin", "--mechanism", other, "--if-exists")[0] == 0
        assert removed("admin", "--force") == (
            0,
            f"admin has no password for {mechanism} any more.\n",
            f"apportion users: admin {LAST_SUPER_USER}\n",
        )


def test_the_last_super_user_is_removed_with_a_warning() -> None:
    with EmbeddedBroker(
        authorizer_class_name="StandardAuthorizer",
        super_users="User:ANONYMOUS;User:root;User:admin",
    ) as broker:
        at = broker.bootstrap
        for user in ("root", "admin", "alice"):
            run(at, "add", user, *FROM_VARIABLE, *BOTH)
        assert run(at, "remove", "root", "alice")[::2] == (0, "")
        one = ("remove", "admin", "--mechanism", "SCRAM-SHA-256")
        assert run(at, *one)[::2] == (0, "")
        code, _, stderr = run(at, "remove", "admin", "--json")
        assert (code, json.loads(stderr)) == (0, {"warning": f"admin {LAST_SUPER_USER}"})
        run(at, "add", "root", *FROM_VARIABLE)
        run(at, "add", "admin", *FROM_VARIABLE)
        code, _, stderr = run(at, "remove", "admin", "root")
        assert (code, stderr) == (0, f"apportion users: admin, root {LAST_SUPER_USER}\n")


def test_a_super_user_who_keeps_a_password_is_not_the_last_one_that_had_one() -> None:
    broker = KeepingBroker()
    broker.start()
    told = run(broker.bootstrap, "remove", "admin")
    broker.close()
    assert told == (
        1,
        "admin has no password for SCRAM-SHA-256 any more.\n",
        "apportion users: POLICY_VIOLATION: it is kept by a policy\n",
    )


def test_the_password_of_another_mechanism_stays(broker: EmbeddedBroker) -> None:
    at = broker.bootstrap
    run(at, "add", "alice", *FROM_VARIABLE)
    remove = ("remove", "alice", "--mechanism", "SCRAM-SHA-256")
    code, stdout, stderr = run(at, *remove)
    assert (code, stdout) == (1, "")
    assert stderr.startswith("apportion users: user 'alice' has no password for SCRAM-SHA-256: ")
    assert run(at, *remove, "--if-exists") == (
        0,
        "Nothing was changed: there is no such user, or no such password.\n",
        "",
    )
    assert lets_in(broker, PASSWORD)


NO_USER = (
    "there is no SCRAM user {0!r}: {1}`apportion users list --bootstrap {{at}}` shows what there is"
)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("list", "bob"), 1, NO_USER.format("bob", "")),
        (
            ("list", "User:bob"),
            1,
            NO_USER.format("User:bob", "a user is named without User:, as bob; "),
        ),
        (("alter", "bob", *FROM_VARIABLE), 1, NO_USER.format("bob", "")),
        (("remove", "bob"), 1, NO_USER.format("bob", "")),
        (("remove",), 2, "name the users to remove"),
        (("add", "", *FROM_VARIABLE), 2, "a user has a name"),
        (("add", "User:bob", *FROM_VARIABLE), 2, "name the user without its type: bob"),
        (
            ("add", "bob", *FROM_VARIABLE, "--mechanism", "PLAIN"),
            2,
            "--mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512, not 'PLAIN'",
        ),
        (
            ("add", "bob", *FROM_VARIABLE, "--iterations", "100"),
            2,
            "--iterations must be at least 4096, not 100",
        ),
        (
            ("add", "bob", *FROM_VARIABLE, "--iterations", "many"),
            2,
            "--iterations must be a whole number, not 'many'",
        ),
        (
            ("add", "bob"),
            2,
            "there is no terminal to ask for the password: give it as --password-file FILE or "
            "--password-env NAME",
        ),
        (
            ("add", "bob", *FROM_VARIABLE, "--password-file", "x"),
            2,
            "give --password-file or --password-env, not both",
        ),
        (
            ("add", "bob", "--password-env", "NO_SUCH_VARIABLE"),
            2,
            "the environment variable 'NO_SUCH_VARIABLE' has no password",
        ),
        (
            ("add", "bob", "--password-env", "TWO_LINES"),
            2,
            "the environment variable 'TWO_LINES' has more than one line, and a password has one",
        ),
        (
            ("alter", "bob", "--password-file", "/no/such/file"),
            2,
            "--password-file '/no/such/file' cannot be read: No such file or directory",
        ),
    ],
)
def test_a_wrong_command_is_refused_with_the_next_step(
    broker: EmbeddedBroker, arguments: tuple[str, ...], code: int, message: str
) -> None:
    expected = message.format(at=broker.bootstrap)
    assert run(broker.bootstrap, *arguments) == (code, "", f"apportion users: {expected}\n")
    exit_code, stdout, stderr = run(broker.bootstrap, *arguments, "--json")
    assert (exit_code, stdout, json.loads(stderr)["message"]) == (code, "", expected)


def test_a_password_on_the_command_line_is_no_option(broker: EmbeddedBroker) -> None:
    code, stdout, stderr = run(broker.bootstrap, "add", "bob", "--password", PASSWORD)
    assert (code, stdout) == (2, "")
    assert "--password-file" in stderr
    assert PASSWORD not in stderr


def test_users_and_mechanisms_are_completed(broker: EmbeddedBroker) -> None:
    for user in ("alice", "bob"):
        run(broker.bootstrap, "add", user, *FROM_VARIABLE)
    at = ("--bootstrap-server", broker.bootstrap)
    for command in ("list", "alter", "remove"):
        assert completed("apportion", "users", command, *at, "a") == ["alice"]
    assert completed("apportion", "users", "add", "x", "--mechanism", "SCRAM-SHA-2") == [
        "SCRAM-SHA-256"
    ]
    # Where there are no ACLs the users are still there to be named.
    assert completed("apportion", "acls", "list", *at, "--principal", "User") == [
        "User:alice",
        "User:bob",
    ]
