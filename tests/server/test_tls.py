"""TLS of listeners: who comes in as whom, and one sentence for whoever does not."""

import logging
import socket
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apportion.node.settings import SettingRefused
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest
from tests.certificates import Authority, Issued, written
from tests.server.peer import Peer, batch, produce
from tests.server.tls_peer import (
    AUTHORITY,
    BROKER,
    LOOPS,
    MUTUAL,
    TLS,
    TlsPeer,
    WatchedServer,
    address,
    client_context,
    closings,
    with_server,
)

VERSIONS = ("TLSv1_2", "TLSv1_3")
ALICE = AUTHORITY.issue("alice")
SECRET = "sesame"


def asked(peer: Peer) -> Any:
    peer.ask(MetadataRequest(topics=()), 12)
    return peer.answer(MetadataRequest, 12)[1]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_a_certificate_is_anonymous(
    tmp_path: Path, loop: str, version: str
) -> None:
    def script(server: WatchedServer) -> list[str]:
        with TlsPeer(address(server), client_context(version=version)) as peer:
            [broker] = asked(peer).brokers
            assert f"{broker.host}:{broker.port}" == address(server)
        return server.principals

    assert with_server(tmp_path, TLS, script, loop) == ["User:ANONYMOUS"]


@pytest.mark.parametrize(
    ("settings", "identity", "principal"),
    [
        ({}, ALICE, "User:CN=alice"),
        ({"ssl.client.auth": "requested"}, ALICE, "User:CN=alice"),
        ({"ssl.client.auth": "requested"}, None, "User:ANONYMOUS"),
        ({"ssl.client.auth": "none"}, ALICE, "User:ANONYMOUS"),
        ({"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}, ALICE, "User:ALICE"),
    ],
)
def test_a_clients_certificate_says_who_it_is(
    tmp_path: Path, settings: dict[str, Any], identity: Issued | None, principal: str
) -> None:
    context = client_context(identity, directory=tmp_path)

    def script(server: WatchedServer) -> list[str]:
        with TlsPeer(address(server), context) as peer:
            asked(peer)
        return server.principals

    assert with_server(tmp_path / "data", MUTUAL | settings, script) == [principal]


def test_each_listener_tells_its_own_address_and_has_its_own_security(tmp_path: Path) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,MUTUAL://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL,MUTUAL:SSL",
        "advertised.listeners": "MUTUAL://kafka.example.com:443",
        "ssl.keystore.certificate.chain": BROKER.chain_pem(),
        "ssl.keystore.key": BROKER.key_pem(),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.certificates": AUTHORITY.pem,
    }
    context = client_context(ALICE, directory=tmp_path)

    def script(server: WatchedServer) -> Any:
        ports = {name: listening.port for name, listening in server.advertised.items()}
        bound = [each.sockets[0].getsockname()[1] for each in server._listening]
        told = []
        for number, name in enumerate(ports):
            at = f"127.0.0.1:{bound[number]}"
            with Peer(at) if name == "INSIDE" else TlsPeer(at, context) as peer:
                [broker] = asked(peer).brokers
                told.append((broker.host, broker.port))
        callers = [(each.listener, each.principal) for each in server.callers]
        return told, [tuple(each) for each in server.advertised.values()], callers

    told, advertised, callers = with_server(tmp_path / "data", settings, script)
    assert told == advertised
    assert told[2] == ("kafka.example.com", 443)
    assert callers == [
        ("INSIDE", "User:ANONYMOUS"),
        ("OUTSIDE", "User:ANONYMOUS"),
        ("MUTUAL", "User:CN=alice"),
    ]


@pytest.mark.parametrize("loop", LOOPS)
def test_large_requests_and_responses_pass_byte_for_byte(tmp_path: Path, loop: str) -> None:
    records = batch(900_000)

    def script(server: WatchedServer) -> list[int]:
        codes = []
        with TlsPeer(address(server)) as peer:
            for _ in range(3):
                peer.ask(MetadataRequest(topics=None), 12)
            peer.ask(produce("t", records), 7)
            for _ in range(3):
                peer.answer(MetadataRequest, 12)
            answer = peer.answer(type(produce("t", b"")), 7)[1]
            codes.append(answer.responses[0].partition_responses[0].error_code)
        return codes

    assert with_server(tmp_path, TLS, script, loop) == [3]


def plain(server: WatchedServer) -> bool:
    with Peer(address(server)) as peer:
        peer.ask(ApiVersionsRequest(), 0)
        peer.socket.recv(100)  # the alert
        return peer.is_closed()


def http(server: WatchedServer) -> bool:
    with Peer(address(server)) as peer:
        peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        peer.socket.recv(100)
        return peer.is_closed()


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
NO_CERTIFICATE = "it has no client certificate, and ssl.client.auth of the listener SSL is required"
UNKNOWN_CA = (
    "its client certificate is of no CA that the listener trusts (ssl.truststore.location): unable "
    "to get local issuer certificate"
)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("settings", "script", "seen", "line"),
    [
        (TLS, plain, True, NO_TLS),
        (TLS, http, True, NO_TLS),
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
            time.sleep(0.4)
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


@pytest.mark.parametrize("loop", LOOPS)
def test_a_broker_that_stops_ends_tls_and_gives_up_handshakes(tmp_path: Path, loop: str) -> None:
    def script(server: WatchedServer) -> tuple[TlsPeer, Peer]:
        peer, begun = TlsPeer(address(server)), Peer(address(server))
        asked(peer)
        return peer, begun

    peer, begun = with_server(tmp_path, TLS, script, loop)
    with peer, begun:
        assert peer.socket.recv(1) == b"", "the end of TLS, not of the connection alone"
        assert begun.is_closed()


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", "PEM"])
def test_certificates_are_read_from_files_of_each_kind(tmp_path: Path, kind: str) -> None:
    pem = BROKER.key_pem(SECRET) + BROKER.chain_pem()
    is_pem = kind == "PEM"
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": kind,
        "ssl.keystore.location": written(
            tmp_path, "broker", pem if is_pem else BROKER.pkcs12(SECRET)
        ),
        "ssl.key.password" if is_pem else "ssl.keystore.password": SECRET,
        "ssl.truststore.type": kind,
        "ssl.truststore.location": written(
            tmp_path, "ca", AUTHORITY.pem if is_pem else AUTHORITY.trusted_pkcs12(SECRET)
        ),
        "ssl.truststore.password": SECRET,
        "ssl.client.auth": "required",
    }
    context = client_context(ALICE, directory=tmp_path)

    def script(server: WatchedServer) -> list[str]:
        with TlsPeer(address(server), context) as peer:
            asked(peer)
        return server.principals

    assert with_server(tmp_path / "data", settings, script) == ["User:CN=alice"]


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
            {
                "ssl.keystore.certificate.chain": BROKER.chain_pem(),
                "ssl.keystore.key": ALICE.key_pem(),
            },
            "ssl.keystore.certificate.chain: the PEM text has a key that does not belong to the "
            "PEM text.",
        ),
        (
            {
                "ssl.keystore.certificate.chain": BROKER.chain_pem(),
                "ssl.keystore.key": BROKER.key_pem(SECRET),
                "ssl.key.password": "another",
            },
            "ssl.keystore.certificate.chain: the key of the PEM text cannot be read: see that "
            "ssl.key.password is right.",
        ),
        (
            {
                "ssl.keystore.certificate.chain": BROKER.chain_pem(),
                "ssl.keystore.key": BROKER.key_pem(),
                "ssl.client.auth": "required",
                "ssl.truststore.location": "no.pem",
            },
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


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        (
            {"listeners": "0.0.0.0:0"},
            [
                "the listener PLAINTEXT://0.0.0.0:0 is reachable from other machines and "
                "authenticates nobody: whoever connects may read and write everything "
                "(docs/security.md)"
            ],
        ),
        (
            TLS | {"listeners": "SSL://[::]:0"},
            [
                "the listener SSL://[::]:0 is reachable from other machines and authenticates "
                "nobody: whoever connects may read and write everything (docs/security.md)"
            ],
        ),
        (MUTUAL | {"listeners": "SSL://0.0.0.0:0"}, []),
        ({"listeners": "localhost:0"}, []),
    ],
)
def test_the_first_line_of_the_log_warns_of_a_listener_that_is_open_to_all(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], lines: list[str]
) -> None:
    caplog.set_level(logging.INFO, logger="apportion.server")
    with EmbeddedBroker(**settings):
        pass
    assert [record.getMessage() for record in caplog.records][:1] == lines


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
