"""Who does not get in by TLS, on either side, is told why, and can hold little memory."""

import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apportion.node.settings import SettingRefused
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.table import encode_request
from tests.certificates import Authority
from tests.server.peer import Peer
from tests.server.tls_peer import (
    AUTHORITY,
    BROKER,
    LOOPS,
    MUTUAL,
    TLS,
    TlsPeer,
    WatchedServer,
    address,
    asked,
    client_context,
    closings,
    with_server,
)

ALICE = AUTHORITY.issue("alice")
SECRET = "sesame"


def sending(sent: bytes) -> Callable[[WatchedServer], bytes]:
    """A client that sends these bytes; it returns what it is sent before the connection ends."""

    def script(server: WatchedServer) -> bytes:
        with Peer(address(server)) as peer:
            peer.send(sent)
            alert = peer.socket.recv(100)
            assert peer.is_closed()
            return alert

    return script


def refusing(context: Callable[[Path], ssl.SSLContext]) -> Callable[[WatchedServer], str]:
    """A client whose handshake fails; it returns the reason that OpenSSL gives it."""

    def script(server: WatchedServer) -> str:
        try:
            with TlsPeer(address(server), context(Path(server._data_dir).parent)) as peer:
                peer.ask(ApiVersionsRequest(), 0)
                # In TLS 1.3 a client hears only now what the broker thinks of its certificate.
                return str(peer.socket.recv(1))
        except ssl.SSLError as error:
            return str(error.reason)

    return script


def stranger(version: str) -> Callable[[Path], ssl.SSLContext]:
    identity = Authority("another CA").issue("mallory")
    return lambda directory: client_context(identity, version, directory)


def expired(directory: Path) -> ssl.SSLContext:
    identity = AUTHORITY.issue("late", ends_in=-timedelta(days=1))
    return client_context(identity, "TLSv1_3", directory)


def distrusting(_directory: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=Authority("of another cluster").pem)


NO_TLS = (
    "it speaks no TLS, as the listener SSL does: its client wants security.protocol SSL or "
    "SASL_SSL, or another listener"
)
NO_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
"""A fatal alert of TLS 1.2: protocol_version."""
NO_CERTIFICATE = "it has no client certificate, and ssl.client.auth of the listener SSL is required"
UNKNOWN_CA = "its client certificate is of no CA that the listener trusts (ssl.truststore.location)"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("settings", "script", "seen", "line"),
    [
        (TLS, sending(encode_request(ApiVersionsRequest(), 0, 1, "test")), NO_TLS_ALERT, NO_TLS),
        (TLS, sending(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), NO_TLS_ALERT, NO_TLS),
        (
            MUTUAL,
            refusing(lambda _: client_context(version="TLSv1_2")),
            "SSLV3_ALERT_HANDSHAKE_FAILURE",
            NO_CERTIFICATE,
        ),
        (
            MUTUAL,
            refusing(lambda _: client_context(version="TLSv1_3")),
            "TLSV13_ALERT_CERTIFICATE_REQUIRED",
            NO_CERTIFICATE,
        ),
        (MUTUAL, refusing(stranger("TLSv1_2")), "TLSV1_ALERT_UNKNOWN_CA", UNKNOWN_CA),
        (MUTUAL, refusing(stranger("TLSv1_3")), "TLSV1_ALERT_UNKNOWN_CA", UNKNOWN_CA),
        (
            MUTUAL,
            refusing(expired),
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
            "its client certificate has expired",
        ),
        (
            TLS,
            refusing(distrusting),
            "CERTIFICATE_VERIFY_FAILED",
            "its client does not trust this broker's certificate: it does not know its CA",
        ),
        (
            TLS | {"ssl.enabled.protocols": "TLSv1.3"},
            refusing(lambda _: client_context(version="TLSv1_2")),
            "TLSV1_ALERT_PROTOCOL_VERSION",
            "it offers only older versions of TLS than ssl.enabled.protocols has",
        ),
        (
            MUTUAL | {"ssl.principal.mapping.rules": "RULE:CN=bob/bob/"},
            refusing(lambda directory: client_context(ALICE, "TLSv1_3", directory)),
            "b''",
            "no rule of ssl.principal.mapping.rules fits the name of its certificate, 'CN=alice'",
        ),
    ],
)
def test_a_client_that_does_not_get_in_is_told_why_and_so_is_the_log(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    loop: str,
    settings: dict[str, Any],
    script: Callable[[WatchedServer], Any],
    seen: object,
    line: str,
) -> None:
    caplog.set_level(logging.WARNING, logger="apportion.server")
    assert with_server(tmp_path / "data", settings, script, loop) == seen
    assert closings(caplog.records) == [line]


def test_tls_at_a_plain_listener_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker, pytest.raises(OSError):
        TlsPeer(broker.bootstrap)
    assert closings(caplog.records) == [
        "it speaks TLS, and the listener PLAINTEXT does not: its client wants security.protocol "
        "PLAINTEXT or SASL_PLAINTEXT, or another listener"
    ]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_handshake_that_takes_too_long_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: str
) -> None:
    settings = TLS | {"apportion.authentication.timeout.ms": 200}

    def script(server: WatchedServer) -> float:
        with Peer(address(server)) as peer:
            peer.send(b"\x16\x03\x01")
            began = time.monotonic()
            assert peer.is_closed()
            return time.monotonic() - began

    assert 0.1 < with_server(tmp_path, settings, script, loop) < 5
    assert closings(caplog.records) == [
        "its TLS handshake has not ended within 200 ms (apportion.authentication.timeout.ms)"
    ]


def test_the_time_of_a_client_that_has_shaken_hands_is_not_limited(tmp_path: Path) -> None:
    settings = TLS | {"apportion.authentication.timeout.ms": 200}

    def script(server: WatchedServer) -> Any:
        with TlsPeer(address(server)) as peer:
            peer.socket.settimeout(0.4)
            with pytest.raises(TimeoutError):
                peer.socket.recv(1)  # nothing comes, and no end
            peer.socket.settimeout(10)
            return len(asked(peer).brokers)

    assert with_server(tmp_path, settings, script) == 1


def test_a_port_check_is_no_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def script(server: WatchedServer) -> None:
        Peer(address(server)).socket.close()
        with TlsPeer(address(server)) as peer:
            asked(peer)

    with_server(tmp_path, TLS, script)
    assert closings(caplog.records) == []


def test_handshakes_count_as_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def script(server: WatchedServer) -> None:
        with Peer(address(server)), TlsPeer(address(server)) as second:
            asked(second)
            with pytest.raises(OSError):
                TlsPeer(address(server))
            asked(second)

    with_server(tmp_path, TLS | {"max.connections": 2}, script)
    assert closings(caplog.records) == ["there are too many connections"]


def test_a_connection_that_is_one_too_many_does_not_stay_for_an_alert(tmp_path: Path) -> None:
    def script(server: WatchedServer) -> int:
        with TlsPeer(address(server)) as first, Peer(address(server)) as second:
            assert second.is_closed()
            asked(first)
            return len(server._connections)

    assert with_server(tmp_path, TLS | {"max.connections": 1}, script) == 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"ssl.keystore.location": "no.p12"},
            "ssl.keystore.location: the file 'no.p12' cannot be read: No such file or directory.",
        ),
        (
            {"listener.name.ssl.ssl.keystore.location": "no.p12"},
            "listener.name.ssl.ssl.keystore.location: the file 'no.p12' cannot be read: No such "
            "file or directory.",
        ),
        (
            TLS | {"ssl.keystore.key": BROKER.key_pem(SECRET), "ssl.key.password": "another"},
            "ssl.keystore.certificate.chain: the key of the PEM text cannot be read: see that "
            "ssl.key.password is right.",
        ),
        (
            TLS | {"ssl.client.auth": "required", "ssl.truststore.location": "no.pem"},
            "ssl.truststore.location: the file 'no.pem' cannot be read: No such file or directory.",
        ),
    ],
)
def test_a_certificate_that_cannot_be_used_stops_the_start_in_one_sentence(
    tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    given: dict[str, Any] = {"listeners": "SSL://127.0.0.1:0", **settings}
    with pytest.raises(SettingRefused) as refused:
        EmbeddedBroker(tmp_path / "data", **given)
    assert str(refused.value) == why
    assert not (tmp_path / "data").exists()


def test_bytes_after_the_end_of_tls_close_the_connection(tmp_path: Path) -> None:
    def script(server: WatchedServer) -> bool:
        with TlsPeer(address(server)) as peer:
            asked(peer)
            raw = socket.socket(fileno=peer.socket.detach())
            with raw:
                raw.settimeout(10)
                raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))  # a record with a wrong MAC
                while raw.recv(1000):
                    pass
                return True

    assert with_server(tmp_path, TLS, script)


@pytest.mark.parametrize("is_asking", [True, False], ids=["behind-a-request", "alone"])
def test_a_client_that_ends_tls_is_answered_and_its_connection_closed(
    tmp_path: Path, is_asking: bool
) -> None:
    def script(server: WatchedServer) -> tuple[int, bool]:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with Peer(address(server)) as peer:

            def repeated(step: Callable[[], Any]) -> Any:
                while True:
                    try:
                        return step()
                    except ssl.SSLWantReadError:
                        peer.socket.sendall(outgoing.read())
                        if received := peer.socket.recv(1 << 16):
                            incoming.write(received)
                        else:
                            incoming.write_eof()

            repeated(tls.do_handshake)
            if is_asking:
                tls.write(encode_request(MetadataRequest(topics=()), 12, 1, "test"))
            # In one segment with the request, so that the broker finds both at once.
            with suppress(ssl.SSLWantReadError):
                tls.unwrap()
            peer.socket.sendall(outgoing.read())
            received = 0
            while part := peer.socket.recv(1 << 16):
                received += len(part)
            return len(server.callers), received > 0

    assert with_server(tmp_path, TLS, script) == (int(is_asking), True)


def client_hello(length: int, sent: int) -> bytes:
    """The first bytes of a ClientHello that is said to have this length, in records of TLS."""
    body = b"\x01" + length.to_bytes(3, "big") + bytes(sent - 4)
    records = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
    return b"".join(b"\x16\x03\x01" + len(each).to_bytes(2, "big") + each for each in records)


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_a_handshake_that_is_not_over_holds_less_than_half_a_megabyte(
    tmp_path: Path, lane_missing: Callable[[str], None]
) -> None:
    if not Path("/proc/self/statm").exists():
        lane_missing("there is no /proc to read the memory from")
    largest = client_hello(131_000, 130_000)

    def begin(server: WatchedServer, count: int, undo: ExitStack) -> int:
        for _ in range(count):
            undo.enter_context(Peer(address(server))).send(largest)
        # Its handshake comes after all the others, so their bytes were read.
        with TlsPeer(address(server)) as last:
            asked(last)
        return resident_bytes()

    def script(server: WatchedServer) -> float:
        with ExitStack() as undo:
            before = begin(server, 10, undo)
            return (begin(server, 50, undo) - before) / 50

    assert with_server(tmp_path, TLS, script) < 1 << 19


def test_a_client_hello_that_is_longer_than_any_is_refused_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_server(tmp_path, TLS, sending(client_hello(200_000, 1_000)))
    assert closings(caplog.records) == [
        "its TLS handshake failed: OpenSSL says EXCESSIVE_MESSAGE_SIZE"
    ]
