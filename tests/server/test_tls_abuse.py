"""What a peer can do to a listener with TLS before its handshake is done: each of its connections
ends in time, and others are served meanwhile.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from apportion.security.client_security import ClientSecurity, TlsSettings
from apportion.security.key_stores import KeyStore
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.table import encode_request
from tests.certificates import Authority, written
from tests.server.peer import Peer, serves

TIMEOUT_MS = 1_500
AT_ONCE_S = TIMEOUT_MS / 2000
"""Well before a connection would end for its silence."""


class Listening:
    """A broker whose one listener has TLS, and the CA of its certificate."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        authority = Authority()
        issued = authority.issue("broker", ("127.0.0.1",))
        keystore = written(directory, "broker.pem", issued.key_pem() + issued.chain_pem())
        given: dict[str, Any] = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": keystore,
            "apportion.authentication.timeout.ms": TIMEOUT_MS,
        }
        self.ca_pem = authority.pem
        self.broker = EmbeddedBroker(**(given | settings))

    def serves_others(self) -> None:
        """Somebody who ends his handshake gets an answer."""
        tls = TlsSettings(trusted=KeyStore(text=self.ca_pem))
        serves(self.broker.bootstrap, ClientSecurity(tls=tls))


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    made = Listening(tmp_path_factory.mktemp("tls"))
    yield made
    made.broker.close()


class Handshake:
    """A client of TLS whose bytes are sent by hand."""

    def __init__(self, ca_pem: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cadata=ca_pem)
        self._client = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    def first(self) -> bytes:
        """Its first flight."""
        with pytest.raises(ssl.SSLWantReadError):
            self._client.do_handshake()
        return self._outgoing.read()

    def second(self, peer: Peer) -> bytes:
        """Its second flight, after that of the broker."""
        while True:
            received = peer.socket.recv(1 << 16)
            assert received, "the broker has closed the connection"
            self._incoming.write(received)
            try:
                self._client.do_handshake()
            except ssl.SSLWantReadError:
                continue
            return self._outgoing.read()


def test_a_handshake_that_is_cut_off_at_any_byte_leaves_nothing_behind(tmp_path: Path) -> None:
    made = Listening(tmp_path, max_connections=20)
    try:
        size = len(Handshake(made.ca_pem).first())
        for cut in range(size):
            with Peer(made.broker.bootstrap) as peer:
                peer.send(Handshake(made.ca_pem).first()[:cut])
        made.serves_others()
        for cut in range(200):
            with Peer(made.broker.bootstrap) as peer:
                client = Handshake(made.ca_pem)
                peer.send(client.first())
                flight = client.second(peer)
                if cut >= len(flight):
                    break
                peer.send(flight[:cut])
        else:
            pytest.fail("the second flight has no end")
        made.serves_others()
    finally:
        made.broker.close()


def test_a_handshake_that_stops_at_any_place_ends_in_time(listening: Listening) -> None:
    with ExitStack() as stack:
        begun_s = time.monotonic()
        first = Handshake(listening.ca_pem).first()
        peers = []
        for cut in range(0, len(first), 11):
            peer = stack.enter_context(Peer(listening.broker.bootstrap))
            peer.send(first[:cut])
            peers.append(peer)
        for cut in (0, 1, 20, 50):
            peer = stack.enter_context(Peer(listening.broker.bootstrap))
            client = Handshake(listening.ca_pem)
            peer.send(client.first())
            peer.send(client.second(peer)[:cut])
            peers.append(peer)
        listening.serves_others()
        assert all(peer.ends() for peer in peers)
        assert time.monotonic() - begun_s < TIMEOUT_MS / 1000 + 5


def test_a_handshake_byte_by_byte_has_no_more_time(listening: Listening) -> None:
    begun_s = time.monotonic()
    with Peer(listening.broker.bootstrap) as peer:
        first = Handshake(listening.ca_pem).first()
        assert peer.is_closed_amid(first, TIMEOUT_MS / 100_000)
    assert time.monotonic() - begun_s < TIMEOUT_MS / 1000 + 5


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(encode_request(ApiVersionsRequest(), 0, 1, "test"), id="Kafka"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
        pytest.param(bytes(300), id="zeros"),
        pytest.param(b"\x16\x03\x01\xff\xff" + b"\xff" * 300, id="oversized-record"),
    ],
)
def test_bytes_that_are_no_handshake_end_the_connection_at_once(
    listening: Listening, noise: bytes
) -> None:
    with Peer(listening.broker.bootstrap) as peer:
        begun_s = time.monotonic()
        peer.send(noise)
        assert peer.ends()
        assert time.monotonic() - begun_s < AT_ONCE_S
    listening.serves_others()


def test_a_peer_that_closes_its_half_does_not_stay(listening: Listening) -> None:
    with Peer(listening.broker.bootstrap) as peer:
        begun_s = time.monotonic()
        peer.send(Handshake(listening.ca_pem).first())
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.ends()
        assert time.monotonic() - begun_s < AT_ONCE_S
