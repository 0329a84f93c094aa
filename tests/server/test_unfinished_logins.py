"""What a peer can do to a listener before its handshake of TLS, or its login, is done: each of its
connections ends in time, and others are served meanwhile.
"""

import itertools
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from apportion.broker import EmbeddedBroker
from apportion.errors import Code
from apportion.security.client_security import ClientSecurity, PasswordLogin, TlsSettings
from apportion.security.key_stores import KeyStore
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from apportion.wire.table import encode_request
from tests.messages import request
from tests.server.peer import Peer, serves
from tests.server.secured import plain_users
from tests.server.tls_peer import AUTHORITY, TLS, client_context

PASSWORD = "correct-horse-battery-staple"
TIMEOUT_MS = 1_500
LIMIT_BYTES = 1_000
AT_ONCE_S = TIMEOUT_MS / 2000
"""Well before a connection would end for its silence."""
TIMEOUT = {"apportion.authentication.timeout.ms": TIMEOUT_MS}
SASL: dict[str, Any] = {
    "listeners": "SASL://127.0.0.1:0",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.server.max.receive.size": LIMIT_BYTES,
    "connection.failed.authentication.delay.ms": 1,
    "listener.name.sasl.plain.sasl.jaas.config": plain_users(alice=PASSWORD),
}
HANDSHAKE = encode_request(request("SaslHandshake", mechanism="PLAIN"), 1, 1, "test")
LOGIN = request("SaslAuthenticate", auth_bytes=f"\0alice\0{PASSWORD}".encode())
AUTHENTICATE = encode_request(LOGIN, 2, 2, "test")


class SaslClient:
    """The two messages of a login by PLAIN."""

    def first(self) -> bytes:
        return HANDSHAKE

    def second(self, peer: Peer) -> bytes:
        assert peer.answer(SaslHandshakeRequest, 1)[1].error_code == Code.NONE
        return AUTHENTICATE


class TlsClient:
    """The two flights of a handshake of TLS, sent by hand."""

    context = client_context()

    def __init__(self) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = self.context.wrap_bio(
            self._incoming, self._outgoing, server_hostname="127.0.0.1"
        )

    def first(self) -> bytes:
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


class Listener(NamedTuple):
    """A broker with one listener, and its clients: `client` begins a login, `security` ends one."""

    broker: EmbeddedBroker
    client: Callable[[], Any]
    security: ClientSecurity

    def connect(self) -> Peer:
        return Peer(self.broker.bootstrap)

    def serves_others(self) -> None:
        """Somebody with a login gets an answer."""
        serves(self.broker.bootstrap, self.security)

    def begin(self, peer: Peer, cut: int) -> bool:
        """Send the first bytes of a login, as many as `cut`; return whether these are all."""
        client = self.client()
        first = client.first()
        peer.send(first[:cut])
        if cut <= len(first):
            return False
        second = client.second(peer)
        peer.send(second[: cut - len(first)])
        return cut >= len(first) + len(second)


@contextmanager
def listening(kind: str, **settings: Any) -> Iterator[Listener]:
    given: Any = (SASL if kind == "SASL" else TLS) | TIMEOUT | settings
    with EmbeddedBroker(**given) as broker:
        if kind == "SASL":
            login = PasswordLogin("PLAIN", "alice", PASSWORD)
            yield Listener(broker, SaslClient, ClientSecurity(login=login))
        else:
            tls = TlsSettings(trusted=KeyStore(text=AUTHORITY.pem))
            yield Listener(broker, TlsClient, ClientSecurity(tls=tls))


@pytest.fixture(scope="module")
def listeners() -> Iterator[dict[str, Listener]]:
    with listening("SASL") as sasl, listening("TLS") as tls:
        yield {"SASL": sasl, "TLS": tls}


@pytest.mark.parametrize("kind", ["SASL", "TLS"])
def test_a_login_that_is_cut_off_at_any_byte_leaves_nothing_behind(kind: str) -> None:
    with listening(kind, max_connections=20) as listener:
        for cut in itertools.count():
            with listener.connect() as peer:
                if listener.begin(peer, cut):
                    break
        assert cut > 50
        listener.serves_others()


@pytest.mark.parametrize("kind", ["SASL", "TLS"])
def test_a_login_that_stops_at_any_place_or_creeps_ends_in_time(
    listeners: dict[str, Listener], kind: str
) -> None:
    listener = listeners[kind]
    with ExitStack() as stack:
        begun_s = time.monotonic()
        peers, is_whole = [], False
        for cut in itertools.count(step=7):
            peer = stack.enter_context(listener.connect())
            is_whole = listener.begin(peer, cut)
            if is_whole:
                break
            peers.append(peer)
        creeping = stack.enter_context(listener.connect())
        listener.serves_others()
        first = listener.client().first()
        # Each byte comes in time; all of them would take five times as long.
        assert creeping.is_closed_amid(first, TIMEOUT_MS / 200 / len(first))
        assert all(peer.ends() for peer in peers)
        assert time.monotonic() - begun_s < TIMEOUT_MS / 1000 + 5


def length(size: int) -> bytes:
    return size.to_bytes(4, "big", signed=True)


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("SASL", length(LIMIT_BYTES + 1)),
        ("SASL", length(2**31 - 1)),
        ("SASL", length(-1)),
        ("SASL", HANDSHAKE + length(LIMIT_BYTES + 1)),
        ("SASL", encode_request(request("Metadata", topics=None), 12, 1, "test")),
        ("SASL", AUTHENTICATE),
        ("SASL", bytes.fromhex("16030100c8010000c40303") + bytes(190)),
        ("TLS", HANDSHAKE),
        ("TLS", b"GET / HTTP/1.1\r\n\r\n"),
        ("TLS", bytes(300)),
        ("TLS", b"\x16\x03\x01\xff\xff" + b"\xff" * 300),
    ],
    ids=[
        *("too-large", "largest", "negative", "too-large-token"),
        *("metadata", "no-handshake", "tls"),
        *("kafka", "http", "zeros", "oversized-record"),
    ],
)
def test_bytes_that_are_no_login_end_the_connection_at_once(
    listeners: dict[str, Listener], kind: str, sent: bytes
) -> None:
    with listeners[kind].connect() as peer:
        begun_s = time.monotonic()
        peer.send(sent)
        assert peer.ends()
        assert time.monotonic() - begun_s < AT_ONCE_S
    listeners[kind].serves_others()


def test_a_peer_that_closes_its_half_amid_a_handshake_does_not_stay(
    listeners: dict[str, Listener],
) -> None:
    with listeners["TLS"].connect() as peer:
        begun_s = time.monotonic()
        peer.send(TlsClient().first())
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.ends()
        assert time.monotonic() - begun_s < AT_ONCE_S


def test_noise_is_never_a_login(listeners: dict[str, Listener]) -> None:
    chance = random.Random(0)
    at_the_end = len(PASSWORD) + 7
    for _ in range(100):
        whole = bytearray(AUTHENTICATE)
        for _ in range(chance.randrange(1, 6)):
            whole[chance.randrange(4, len(whole))] = chance.randrange(256)
        if whole[-at_the_end:] == AUTHENTICATE[-at_the_end:]:
            continue  # what changed is the client's name, say
        with listeners["SASL"].connect() as peer:
            peer.send(HANDSHAKE)
            peer.answer(SaslHandshakeRequest, 1)
            peer.send(bytes(whole))
            peer.socket.shutdown(socket.SHUT_WR)
            try:
                answer = peer.frame()
            except (EOFError, ConnectionResetError):
                continue
            assert int.from_bytes(answer[5:7], "big") != Code.NONE, bytes(whole)
