"""Passwords of `apportion users` that are typed; all else is in `transcripts/users.txt`."""

import os
import pty
import select
import subprocess
import sys

from typer.testing import CliRunner

from apportion.broker import EmbeddedBroker
from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.security.client_security import ClientSecurity, PasswordLogin

PASSWORD = "a-pässword, secret"


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


def test_a_password_is_asked_for_twice_and_not_shown() -> None:
    with EmbeddedBroker(
        listeners="PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="SCRAM-SHA-512",
    ) as broker:
        code, stdout, shown = on_terminal(
            ["add", "alice", "--bootstrap", broker.bootstrap], [PASSWORD, PASSWORD]
        )
        assert (code, stdout) == (
            0,
            "alice has a password for SCRAM-SHA-512 now, with 4096 iterations.\n",
        )
        assert "Password of alice" in shown
        assert PASSWORD not in shown
        login = ClientSecurity(login=PasswordLogin("SCRAM-SHA-512", "alice", PASSWORD))
        cluster = Cluster(broker.addresses["SASL_PLAINTEXT"], security=login)
        assert cluster.nodes()
        cluster.close()


def test_a_password_on_the_command_line_is_no_option() -> None:
    words = ["users", "add", "bob", "--password", PASSWORD, "--bootstrap", "127.0.0.1:1"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--password-file" in result.stderr
    assert PASSWORD not in result.stderr
