"""TLS of listeners: who comes in as whom, and where clients are sent."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion.wire.messages.metadata import MetadataRequest
from tests.certificates import Issued, written
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
    asked,
    client_context,
    with_server,
)

VERSIONS = ("TLSv1_2", "TLSv1_3")
ALICE = AUTHORITY.issue("alice")
SECRET = "sesame"


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


def test_a_broker_without_tls_does_not_import_it() -> None:
    program = (
        "import sys\n"
        "from apportion.server.embedded import EmbeddedBroker\n"
        "EmbeddedBroker().close()\n"
        "print(*(name for name in sys.modules if 'tls' in name or 'key_files' in name))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == []
