"""Listeners with SASL on real sockets: who is let in, who is told what, and what the log says."""

import logging
import socket
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.security.client_security import (
    ClientSecurity,
    PasswordLogin,
    TokenFunction,
    TokenLogin,
)
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
)
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from apportion.wire.table import encode_request
from tests.server.peer import Peer, header, serves
from tests.server.planted import plant
from tests.server.secured import (
    MECHANISMS,
    NAME,
    PASSWORD,
    SETTINGS,
    Log,
    Secured,
    logged,
    running,
    token,
    with_token,
)


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with running(SETTINGS) as secured:
        yield secured


@pytest.fixture
def log(secured: Secured) -> Iterator[Log]:
    with logged(secured) as log:
        yield log
        assert log.messages.empty()


WRONG = SaslAuthenticateRequest(auth_bytes=b"\0alice\0a-wrong-and-secret-password")


def login(mechanism: str, password: str = PASSWORD) -> ClientSecurity:
    if mechanism == "OAUTHBEARER":
        return ClientSecurity(login=TokenLogin(TokenFunction(lambda _config: token())))
    return ClientSecurity(login=PasswordLogin(mechanism, "alice", password))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_one_sentence_at_each_side(
    secured: Secured, mechanism: str, log: Log
) -> None:
    with pytest.raises(Refused) as refused:
        Cluster(secured.sasl, security=login(mechanism, "wrong")).call(DescribeClusterRequest())
    assert str(refused.value) == (
        f"SASL_AUTHENTICATION_FAILED: the broker at {secured.sasl} does not accept user 'alice' by "
        f"{mechanism}: see that the name and the password are right"
    )
    assert log.closing() == f"SASL {mechanism}: user 'alice' gave a wrong password"


def bare(secured: Secured) -> Peer:
    return Peer(secured.sasl)


def shake(peer: Peer, mechanism: str = "PLAIN") -> Any:
    peer.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    return peer.answer(SaslHandshakeRequest, 1)[1]


def authenticate(peer: Peer, auth_bytes: bytes) -> Any:
    peer.ask(SaslAuthenticateRequest(auth_bytes=auth_bytes), 2)
    return peer.answer(SaslAuthenticateRequest, 2)[1]


def test_an_unknown_user_has_the_same_salt_at_each_listener() -> None:
    names = ("SASL", "ALSO")
    settings = SETTINGS | {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in names),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "apportion.oauthbearer.unsecured": "false",
    }
    settings.pop(f"{NAME}.plain.sasl.jaas.config")
    salts = []
    with EmbeddedBroker(**settings) as broker:
        for name in names:
            with Peer(broker.addresses[name]) as peer:
                shake(peer, "SCRAM-SHA-256")
                first = authenticate(peer, b"n,,n=nobody,r=nonce").auth_bytes
                salts.append(bytes(first).decode().split(",")[1])
    assert salts[0].startswith("s=")
    assert salts[0] == salts[1]


def test_a_large_request_before_the_login_is_refused_by_its_length(
    secured: Secured, log: Log
) -> None:
    with bare(secured) as peer:
        peer.send(struct.pack(">i", 524_289))
        assert peer.is_closed()
    assert log.closing() == "a frame says that it has 524289 bytes, and 524288 are allowed"


@pytest.mark.parametrize("is_amid", [False, True])
def test_a_large_request_that_is_no_login_is_refused_undecoded(
    secured: Secured, is_amid: bool, log: Log
) -> None:
    with bare(secured) as peer:
        if is_amid:
            shake(peer)
        no_topics = header(3, 0) + b"\xff" * 100_000  # nothing that could be decoded
        peer.send(struct.pack(">i", len(no_topics)) + no_topics)
        assert peer.is_closed()
    assert log.closing() == "it sent Metadata before it authenticated: the listener has SASL"


def test_after_the_login_a_request_may_be_large(secured: Secured) -> None:
    with bare(secured) as peer:
        shake(peer)
        assert authenticate(peer, f"\0alice\0{PASSWORD}".encode()).error_code == Code.NONE
        peer.send(struct.pack(">i", 600_000) + header(3, 0) + b"\0\0\0\0")
        peer.send(bytes(600_000 - len(header(3, 0)) - 4))
        assert peer.answer(MetadataRequest, 0)[1].brokers


def test_a_client_that_sends_much_while_its_token_is_looked_at_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_return = threading.Event()
    look = plant(monkeypatch, lambda _token: may_return.wait(60))
    settings = SETTINGS | {
        "apportion.oauthbearer.unsecured": "false",
        "apportion.authentication.timeout.ms": 60_000,
        f"{NAME}.oauthbearer.sasl.server.callback.handler.class": look,
    }
    with EmbeddedBroker(**settings) as broker, Peer(Secured(broker).sasl) as peer:
        shake(peer, "OAUTHBEARER")
        peer.ask(SaslAuthenticateRequest(auth_bytes=with_token("a.b.c")), 2)
        peer.send((struct.pack(">i", 2) + b"\0\0") * 5_000)
        assert peer.is_closed()
        may_return.set()


def test_a_refusal_is_in_the_log_though_its_client_does_not_wait_for_it() -> None:
    settings = SETTINGS | {"connection.failed.authentication.delay.ms": 500}
    with EmbeddedBroker(**settings) as broker, logged(secured := Secured(broker)) as log:
        with bare(secured) as peer:
            # All three at once: the last waits for the verdict about the token.
            peer.send(
                encode_request(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1, 1, "test")
                + encode_request(
                    SaslAuthenticateRequest(auth_bytes=with_token(token(-40))), 2, 2, ""
                )
                + encode_request(SaslAuthenticateRequest(auth_bytes=b"\1"), 2, 3, "test")
            )
            peer.answer(SaslHandshakeRequest, 1)
            peer.answer(SaslAuthenticateRequest, 2)
        assert log.closing() == "SASL OAUTHBEARER: the token is over"


def test_a_session_ends_with_its_token_unless_it_is_renewed(secured: Secured, log: Log) -> None:
    with bare(secured) as peer:
        shake(peer, "OAUTHBEARER")
        assert 500_000 < authenticate(peer, with_token(token(600))).session_lifetime_ms <= 600_000
        # This token is over, but for the difference that clocks may have.
        shake(peer, "OAUTHBEARER")
        assert authenticate(peer, with_token(token(-5))).session_lifetime_ms == 0
        peer.ask(MetadataRequest(topics=()), 9)
        assert peer.is_closed()
    assert log.closing() == "its session is over, and it has not authenticated again"


def test_the_plain_listener_has_no_login(secured: Secured) -> None:
    with Peer(secured.plain) as peer:
        assert shake(peer) == SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE)
        peer.ask(MetadataRequest(topics=()), 9)
        assert peer.answer(MetadataRequest, 9)[1].brokers


def test_clients_without_a_name_hold_little_memory() -> None:
    """The figures of SECURITY.md; they are printed with pytest -s."""
    settings = SETTINGS | {"apportion.authentication.timeout.ms": 120_000}
    with EmbeddedBroker(**settings) as broker:
        host, _, port = Secured(broker).sasl.rpartition(":")

        def held(connections: int, sent: bytes) -> int:
            """How many bytes the broker holds for each of so many clients that send this."""
            before = tracemalloc.get_traced_memory()[0]
            peers = [socket.create_connection((host, int(port))) for _ in range(connections)]
            for peer in peers:
                peer.sendall(sent)
            # A later client is served after them.
            with Peer(f"{host}:{port}") as last:
                shake(last)
            size = (tracemalloc.get_traced_memory()[0] - before) // connections
            for peer in peers:
                peer.close()
            return size

        tracemalloc.start()
        try:
            held(10, b"")
            idle, full = held(500, b""), held(20, struct.pack(">i", 524_288) + bytes(500_000))
        finally:
            tracemalloc.stop()
    print(f"bytes of a connection without a name: {idle:,} idle, {full:,} amid a request")
    assert idle < 10_000
    assert full < 1_000_000


def test_a_login_leaves_no_line_in_the_log(secured: Secured, log: Log) -> None:
    for mechanism in MECHANISMS:
        cluster = Cluster(secured.sasl, security=login(mechanism))
        cluster.call(DescribeClusterRequest())
        cluster.close()


def test_many_wrong_passwords_at_once_are_refused_and_hold_nobody_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = SETTINGS | {"connection.failed.authentication.delay.ms": 100}
    with EmbeddedBroker(**settings) as broker, ExitStack() as stack:
        secured = Secured(broker)
        peers = [stack.enter_context(bare(secured)) for _ in range(100)]
        for peer in peers:
            shake(peer)
            peer.ask(WRONG, 2)
        serves(secured.sasl, login("PLAIN"))
        for peer in peers:
            answer = peer.answer(SaslAuthenticateRequest, 2)[1]
            assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
            assert peer.is_closed()
    assert "a-wrong-and-secret-password" not in caplog.text
    first, counted = (line for line in caplog.messages if "alice" in line)
    assert first.endswith("SASL PLAIN: user 'alice' gave a wrong password")
    assert counted.startswith("closed 99 more connections of 127.0.0.1, ")


UNREAD_BYTES = 10_000
"""What the system has not taken from the broker; at 64 KiB the broker would stop reading."""


def deaf_peer(address: str) -> Peer:
    """A peer with buffers so small that the broker keeps what it does not read."""
    peer = Peer.__new__(Peer)
    peer.socket = socket.socket()
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    peer.socket.settimeout(10)
    host, _, port = address.rpartition(":")
    peer.socket.connect((host, int(port)))
    return peer


def test_a_peer_that_reads_nothing_and_has_a_wrong_password_ends_at_once() -> None:
    settings = SETTINGS | {"apportion.authentication.timeout.ms": 60_000}
    with EmbeddedBroker(**settings) as broker, logged(secured := Secured(broker)) as log:
        with deaf_peer(secured.sasl) as peer, bare(secured) as other:
            unread = 0
            # The broker answers more than the peer takes, one request after the other.
            while unread < UNREAD_BYTES:
                peer.ask(ApiVersionsRequest(), 0)
                other.ask(ApiVersionsRequest(), 0)
                other.answer(ApiVersionsRequest, 0)
                first: Any = next(iter(secured.server._connections))
                unread = first._transport.get_write_buffer_size()
            peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            peer.ask(WRONG, 2)
            assert log.closing() == "SASL PLAIN: user 'alice' gave a wrong password"
        serves(secured.sasl, login("PLAIN"))
