"""What a broker's process keeps for connections that do not get on: without a login, without the
end of a TLS handshake. The figures are printed with pytest -s.
"""

import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from apportion.wire.table import encode_request
from tests.certificates import Authority, written
from tests.server.peer import Peer, addresses_of

COUNT = 800
"""Connections of each kind."""
TIMEOUT_MS = 8_000
PASSWORD = "correct-horse-battery-staple"
LARGEST = 64 << 10
"""The largest request before a login, in the test of such requests that are not finished."""
HELLO = encode_request(ApiVersionsRequest(), 0, 1, "test")
HANDSHAKE = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "test")


class Process:
    """A broker in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", addresses: dict[str, str]) -> None:
        self.process, self.addresses = process, addresses

    def resident_kb(self) -> int:
        """The memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (each for each in status.splitlines() if each.startswith("VmRSS:"))
        return int(line.split()[1])

    def open_files(self) -> int:
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def answers(self) -> None:
        """It serves ApiVersions on its listener of SASL, so it has taken all before, too."""
        with Peer(self.addresses["SASL"]) as peer:
            peer.send(HELLO)
            assert peer.answer(ApiVersionsRequest, 0)[1].error_code == 0


@contextmanager
def process_in(directory: Path) -> Iterator[Process]:
    """A broker with a listener of TLS and one of SASL."""
    issued = Authority().issue("broker", ("127.0.0.1",))
    keystore = written(directory, "broker.pem", issued.key_pem() + issued.chain_pem())
    given = {
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,TLS:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.server.max.receive.size": LARGEST,
        "listener.name.sasl.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'user_alice="{PASSWORD}";'
        ),
        "apportion.authentication.timeout.ms": TIMEOUT_MS,
        "max.connections": 5 * COUNT + 100,
    }
    command = [sys.executable, "-m", "apportion.cli.main", "serve"]
    command += ["--listen", "SASL://127.0.0.1:0,TLS://127.0.0.1:0"]
    command += ["--data-dir", str(directory / "data")]
    for name, value in given.items():
        command += ["--set", f"{name}={value}"]
    with (directory / "serve.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (directory / "serve.log").read_text()
        yield Process(process, addresses_of(line))
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 6 * COUNT + 500)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def client_hello() -> bytes:
    """The first flight of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


CLIENT_HELLO = client_hello()


def silent(_peer: socket.socket) -> None:
    """Nothing is sent."""


def begun(peer: socket.socket) -> None:
    """A SASL handshake, and its response is awaited: the broker has an exchange for it."""
    peer.sendall(HANDSHAKE)
    assert peer.recv(100)


def nearly_whole(peer: socket.socket) -> None:
    """The largest request that is allowed, but for its last byte."""
    peer.sendall(LARGEST.to_bytes(4, "big") + bytes(LARGEST - 1))


def greeted(peer: socket.socket) -> None:
    """A TLS handshake after whose first messages nothing comes."""
    peer.sendall(CLIENT_HELLO)
    assert peer.recv(100)


KINDS: dict[str, list[tuple[Callable[[socket.socket], None], float]]] = {
    "TLS": [(greeted, 200), (silent, 100)],
    "SASL": [(nearly_whole, 2 * LARGEST / 1024), (begun, 24), (silent, 16)],
}
"""Listener -> what its clients do, and how many KiB the broker may keep for one; those with the
largest bounds first, since the first clients have the broker import what it needs for groups. Each
listener has a process of its own: what handshakes of TLS free would hide what the others keep.
"""


@pytest.mark.parametrize("listener", KINDS)
def test_a_connection_that_does_not_get_on_keeps_little_and_ends_in_time(
    tmp_path: Path, listener: str
) -> None:
    with process_in(tmp_path) as broker, ExitStack() as stack:
        broker.answers()
        files, peers = broker.open_files(), []
        for act, most_kb in KINDS[listener]:
            before_kb = broker.resident_kb()
            host, _, port = broker.addresses[listener].rpartition(":")
            for _ in range(COUNT):
                peer = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
                act(peer)
                peers.append(peer)
            broker.answers()
            each_kb = (broker.resident_kb() - before_kb) / COUNT
            print(f"{COUNT} connections, {act.__name__} on {listener}: {each_kb:.1f} KiB each")
            assert each_kb < most_kb, (listener, act)
        for peer in peers:
            peer.settimeout(TIMEOUT_MS / 1000 + 30)
            with suppress(ConnectionResetError):
                while peer.recv(4096):
                    pass
        broker.answers()
        assert broker.open_files() <= files + 1
