"""What a peer without a login can do to a listener with SASL: each of its connections ends in time,
and others are served meanwhile.
"""

import logging
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.security.client_security import ClientSecurity, PasswordLogin
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from apportion.wire.table import encode_request
from tests.server.peer import Peer, serves
from tests.server.secured import Log, listened, plain_users

PASSWORD = "correct-horse-battery-staple"
TIMEOUT_MS = 700
LIMIT_BYTES = 1_000
AT_ONCE_S = TIMEOUT_MS / 2000
"""Well before a connection would end for its silence."""
HANDSHAKE = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "test")
AUTHENTICATE = encode_request(
    SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2, 2, "test"
)


def secured(**settings: Any) -> EmbeddedBroker:
    """A broker whose one listener has SASL."""
    given: dict[str, Any] = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.server.max.receive.size": LIMIT_BYTES,
        "listener.name.sasl.plain.sasl.jaas.config": plain_users(alice=PASSWORD),
        "apportion.authentication.timeout.ms": TIMEOUT_MS,
    }
    return EmbeddedBroker(**(given | settings))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with secured() as made:
        yield made


def serves_others(broker: EmbeddedBroker, password: str = PASSWORD) -> None:
    """Somebody with a login gets an answer."""
    login = PasswordLogin("PLAIN", "alice", password)
    serves(broker.bootstrap, ClientSecurity(login=login))


def begin(peer: Peer, cut: int) -> None:
    """The first bytes of a login, as many as `cut`."""
    peer.send(HANDSHAKE[:cut])
    if cut > len(HANDSHAKE):
        assert peer.answer(SaslHandshakeRequest, 1)[1].error_code == Code.NONE
        peer.send(AUTHENTICATE[: cut - len(HANDSHAKE)])


CUTS = range(len(HANDSHAKE) + len(AUTHENTICATE))


def test_a_login_that_is_cut_off_at_any_byte_leaves_nothing_behind() -> None:
    with secured(max_connections=20) as broker:
        for cut in CUTS:
            with Peer(broker.bootstrap) as peer:
                begin(peer, cut)
        serves_others(broker)


def test_a_login_that_stops_at_any_byte_ends_in_time(broker: EmbeddedBroker) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(broker.bootstrap)) for _ in CUTS]
        begun_s = time.monotonic()
        for cut, peer in zip(CUTS, peers, strict=True):
            begin(peer, cut)
        serves_others(broker)
        assert all(peer.ends() for peer in peers)
        assert time.monotonic() - begun_s < TIMEOUT_MS / 1000 + 5


def test_a_login_byte_by_byte_has_no_more_time(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        begun_s = time.monotonic()
        assert peer.is_closed_amid(HANDSHAKE + AUTHENTICATE, TIMEOUT_MS / 10_000)
        assert time.monotonic() - begun_s < TIMEOUT_MS / 1000 + 5


@pytest.mark.parametrize("size", [LIMIT_BYTES + 1, 2**31 - 1, -1])
def test_a_frame_that_is_too_large_before_a_login_is_refused_by_its_length(
    broker: EmbeddedBroker, size: int
) -> None:
    with Peer(broker.bootstrap) as peer:
        begun_s = time.monotonic()
        peer.send(size.to_bytes(4, "big", signed=True))
        assert peer.is_closed()
        assert time.monotonic() - begun_s < AT_ONCE_S


def test_a_token_that_is_too_large_is_refused_by_its_length(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        begin(peer, len(HANDSHAKE))
        peer.answer(SaslHandshakeRequest, 1)
        begun_s = time.monotonic()
        peer.send((LIMIT_BYTES + 1).to_bytes(4, "big"))
        assert peer.is_closed()
        assert time.monotonic() - begun_s < AT_ONCE_S


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "plain", "PLAIN ", "x" * 900, "SCRAM-SHA-256"])
def test_a_wrong_mechanism_is_told_which_there_are(broker: EmbeddedBroker, mechanism: str) -> None:
    with Peer(broker.bootstrap) as peer:
        peer.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        _, answer = peer.answer(SaslHandshakeRequest, 1)
        assert answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-512")
        assert peer.is_closed()


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        pytest.param(MetadataRequest(topics=None), 12, id="Metadata"),
        pytest.param(SaslAuthenticateRequest(auth_bytes=b"\0alice\0x"), 2, id="SaslAuthenticate"),
    ],
)
def test_a_request_before_the_handshake_ends_the_connection(
    broker: EmbeddedBroker, request_: Any, version: int
) -> None:
    with Peer(broker.bootstrap) as peer:
        begun_s = time.monotonic()
        peer.ask(request_, version)
        assert peer.is_closed()
        assert time.monotonic() - begun_s < AT_ONCE_S


def test_requests_behind_a_handshake_are_not_taken_before_the_login(
    broker: EmbeddedBroker,
) -> None:
    with Peer(broker.bootstrap) as peer:
        early = encode_request(MetadataRequest(topics=None), 12, 2, "test")
        peer.send(HANDSHAKE + 20 * early)
        assert peer.answer(SaslHandshakeRequest, 1)[1].error_code == Code.NONE
        _, answer = peer.answer(MetadataRequest, 12)
        assert (answer.error_code, answer.topics, answer.brokers) == (0, (), ())
        assert peer.is_closed()


def test_many_wrong_passwords_at_once_are_refused_and_hold_nobody_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = encode_request(
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0a-wrong-and-secret-password"), 2, 2, "test"
    )
    with secured() as broker, ExitStack() as stack:
        peers = [stack.enter_context(Peer(broker.bootstrap)) for _ in range(100)]
        for peer in peers:
            begin(peer, len(HANDSHAKE))
        for peer in peers:
            assert peer.answer(SaslHandshakeRequest, 1)[1].error_code == Code.NONE
            peer.send(wrong)
        serves_others(broker)
        for peer in peers:
            _, answer = peer.answer(SaslAuthenticateRequest, 2)
            assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
            assert peer.is_closed()
        with pytest.raises(Refused):
            serves_others(broker, "a-wrong-and-secret-password")
    assert "a-wrong-and-secret-password" not in caplog.text
    first, counted = (line for line in caplog.messages if "alice" in line)
    assert first.endswith("SASL PLAIN: user 'alice' gave a wrong password")
    assert counted.startswith("closed 100 more connections of 127.0.0.1, ")


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_never_a_login(broker: EmbeddedBroker, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        whole = bytearray(AUTHENTICATE)
        for _ in range(chance.randrange(1, 6)):
            whole[chance.randrange(4, len(whole))] = chance.randrange(256)
        with Peer(broker.bootstrap) as peer:
            begin(peer, len(HANDSHAKE))
            peer.answer(SaslHandshakeRequest, 1)
            peer.send(bytes(whole))
            is_right = whole[-len(PASSWORD) - 7 :] == AUTHENTICATE[-len(PASSWORD) - 7 :]
            if is_right:
                continue
            peer.socket.shutdown(socket.SHUT_WR)
            try:
                answer = peer.frame()
            except (EOFError, ConnectionResetError):
                continue
            assert int.from_bytes(answer[5:7], "big") != Code.NONE, (seed, bytes(whole))
    serves_others(broker)


def test_bytes_of_tls_end_the_connection_at_once(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        begun_s = time.monotonic()
        peer.send(bytes.fromhex("16030100c8010000c40303") + bytes(190))
        assert peer.is_closed()
        assert time.monotonic() - begun_s < AT_ONCE_S


HELLO = encode_request(ApiVersionsRequest(), 0, 1, "test")
SEGMENT_BYTES = 536
UNREAD_BYTES = 10_000
"""What the system has not taken from the broker; at 64 KiB the broker would stop reading."""


@pytest.fixture
def log() -> Iterator[Log]:
    with listened() as log:
        yield log


def deaf_peer(address: str) -> Peer:
    """A peer with buffers so small that the broker keeps what it does not read."""
    peer = Peer.__new__(Peer)
    peer.socket = socket.socket()
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
    peer.socket.settimeout(10)
    host, _, port = address.rpartition(":")
    peer.socket.connect((host, int(port)))
    return peer


def fill(peer: Peer, broker: EmbeddedBroker) -> None:
    """Have the broker answer more than the peer takes, one request after the other."""
    assert broker._server is not None
    unread = 0
    with Peer(broker.bootstrap) as other:
        while unread < UNREAD_BYTES:
            peer.send(HELLO)
            other.send(HELLO)
            other.answer(ApiVersionsRequest, 0)
            first: Any = next(iter(broker._server._connections))
            unread = first._transport.get_write_buffer_size()


def test_a_peer_that_reads_nothing_ends_in_time(log: Log) -> None:
    with secured(**{"apportion.authentication.timeout.ms": 3_000}) as broker:
        with deaf_peer(broker.bootstrap) as peer:
            fill(peer, broker)
            assert log.closing().startswith("it has not authenticated in time")
        serves_others(broker)


def test_a_peer_that_reads_nothing_and_has_a_wrong_password_ends_at_once(log: Log) -> None:
    settings = {
        "apportion.authentication.timeout.ms": 60_000,
        "connection.failed.authentication.delay.ms": 1,
    }
    with secured(**settings) as broker:
        with deaf_peer(broker.bootstrap) as peer:
            fill(peer, broker)
            wrong = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
            peer.send(HANDSHAKE)
            peer.ask(wrong, 2)
            assert log.closing() == "SASL PLAIN: user 'alice' gave a wrong password"
        serves_others(broker)
