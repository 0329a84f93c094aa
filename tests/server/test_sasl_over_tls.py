"""Logins over TLS: who comes in as whom, and what a stopping broker does with those amid one."""

import json
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from apportion.client.cluster import Cluster
from apportion.security.client_security import (
    ClientIdentity,
    ClientSecurity,
    PasswordLogin,
    TlsSettings,
    TokenFunction,
    TokenLogin,
)
from apportion.security.key_stores import KeyStore
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.peer import Peer
from tests.server.tls_peer import (
    AUTHORITY,
    LOOPS,
    TLS,
    TlsPeer,
    WatchedServer,
    address,
    closings,
    with_server,
)

PASSWORD = "a-secret"
USERS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
SASL_SSL = TLS | {
    "listeners": "SASL_SSL://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
    "apportion.oauthbearer.unsecured": "true",
}
SIGNER = rsa.generate_private_key(65_537, 2048)


def signed_token(_config: str) -> str:
    now = int(time.time())
    claims = {"sub": "carol", "iat": now, "exp": now + 600, "iss": "us"}
    return jwt.encode(claims, SIGNER, "RS256", {"kid": "k"})


def logged_in(
    login: Any, server: WatchedServer, identity: ClientIdentity | None = None
) -> list[str]:
    """Log in and ask for something; the principals of the requests that came to the broker."""
    tls = TlsSettings(trusted=KeyStore(text=AUTHORITY.pem), identity=identity)
    cluster = Cluster(address(server, "SASL_SSL"), security=ClientSecurity(tls, login))
    cluster.call(DescribeClusterRequest())
    cluster.close()
    return list(dict.fromkeys(server.principals))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_password_over_tls_names_its_user(tmp_path: Path, loop: str) -> None:
    script = partial(logged_in, PasswordLogin("PLAIN", "alice", PASSWORD))
    # Versions are asked for before the login.
    assert with_server(tmp_path, SASL_SSL, script, loop) == ["User:ANONYMOUS", "User:alice"]


def test_a_signed_token_over_tls_names_its_user(tmp_path: Path) -> None:
    row = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(SIGNER.public_key()))
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [row | {"kid": "k"}]}))
    settings = SASL_SSL | {
        "apportion.oauthbearer.unsecured": "false",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": "us",
    }
    script = partial(logged_in, TokenLogin(TokenFunction(signed_token)))
    assert with_server(tmp_path / "data", settings, script) == ["User:ANONYMOUS", "User:carol"]


def test_a_login_stands_over_the_name_of_a_certificate(tmp_path: Path) -> None:
    settings = SASL_SSL | {
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "ssl.truststore.certificates": AUTHORITY.pem,
    }
    zoe = AUTHORITY.issue("zoe")
    identity = ClientIdentity(KeyStore(text=zoe.chain_pem()), KeyStore(text=zoe.key_pem()))
    login = PasswordLogin("PLAIN", "alice", PASSWORD)
    script = partial(logged_in, login, identity=identity)
    assert with_server(tmp_path, settings, script) == ["User:ANONYMOUS", "User:alice"]


def test_handshake_and_login_have_one_deadline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SASL_SSL | {"apportion.authentication.timeout.ms": 500}

    def script(server: WatchedServer) -> None:
        with TlsPeer(address(server, "SASL_SSL")) as peer:
            peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            peer.answer(SaslHandshakeRequest, 1)
            assert peer.is_closed()

    with_server(tmp_path, settings, script)
    assert closings(caplog.records) == [
        "it has not authenticated in time (apportion.authentication.timeout.ms)"
    ]


def test_a_broker_that_stops_waits_for_no_login(tmp_path: Path) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
        "apportion.oauthbearer.unsecured": "true",
    }
    began_at = time.monotonic()
    peers: list[Any] = []

    def script(server: WatchedServer) -> None:
        here = address(server, "SASL_PLAINTEXT")
        host, _, port = here.rpartition(":")
        peers.extend(socket.create_connection((host, int(port))) for _ in range(3))
        amid = Peer(here)
        amid.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        amid.answer(SaslHandshakeRequest, 1)
        peers.append(amid.socket)

    with_server(tmp_path, settings, script)
    assert [peer.recv(1) for peer in peers] == [b""] * 4
    for peer in peers:
        peer.close()
    # Within a part of the ten seconds that a login may take.
    assert time.monotonic() - began_at < 8
