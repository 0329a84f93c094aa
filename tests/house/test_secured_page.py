"""The commands of docs/security.md that secure a broker do so, as they stand there."""

import shlex
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.testing.kafka import free_ports
from tests.house.examples import FENCE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
STARTING, CHANGING = (
    PAGE.read_text().partition(f"{heading}\n")[2].partition("\n### ")[0]
    for heading in ("## Secure a broker", "### Users and ACLs")
)
APPORTION = [sys.executable, "-m", "apportion.cli.main"]
CREATED = "flights is created: 3 partitions, replication factor 1.\n"


def blocks(kind: str, section: str = STARTING) -> list[str]:
    """The blocks of a language, in order."""
    return [found["text"] for found in FENCE.finditer(section) if found["kind"] == kind]


def command(text: str) -> list[str]:
    """The words after `$ apportion` in a block's first line."""
    return shlex.split(text.splitlines()[0].removeprefix("$ ").removeprefix("apportion "))


def ran(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*APPORTION, *words], capture_output=True, text=True, timeout=60)


def test_the_page_secures_a_broker_and_lets_its_user_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [port] = free_ports(1)
    address = f"localhost:{port}"
    server, client = (text.replace("localhost:9093", address) for text in blocks(""))
    serve, create = (
        [word.replace("localhost:9093", address) for word in command(text)]
        for text in blocks("console")
    )
    [making] = blocks("sh")
    subprocess.run(["sh", "-e"], input=making, text=True, check=True, capture_output=True)
    password = Path("admin.password").read_text().strip()
    Path("server.properties").write_text(server)
    broker = subprocess.Popen([*APPORTION, *serve], stdout=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None
        assert broker.stdout.readline() == f"listening on SASL_SSL://{address}\n"
        told = []
        for each in (password, "wrong"):
            Path("client.properties").write_text(client.replace("PASSWORD", each))
            done = ran(create)
            told.append((done.returncode, done.stdout))
            assert each not in done.stderr
        strict = ssl.create_default_context(cafile="ca.pem")
        strict.verify_flags |= ssl.VERIFY_X509_STRICT  # newer Pythons set it
        with (
            socket.create_connection(("localhost", port), timeout=60) as plain,
            strict.wrap_socket(plain, server_hostname="localhost") as peer,
        ):
            assert peer.version() == "TLSv1.3"
        Path("client.properties").write_text(client.replace("PASSWORD", password))
        Path("alice.password").write_text("a-secret-of-alice\n")
        [changing] = blocks("console", CHANGING)
        for each in changing.removeprefix("$ ").split("\n$ "):
            line, _, shown = each.partition("\n")
            done = ran(command(line.replace("localhost:9093", address)))
            assert (done.returncode, done.stdout, done.stderr) == (0, shown.rstrip() + "\n", "")
        (right, printed), (wrong, nothing) = told
        assert (right, printed, nothing) == (0, CREATED, "")
        assert wrong != 0
    finally:
        broker.terminate()
        broker.wait()
        if broker.stdout is not None:
            broker.stdout.close()
