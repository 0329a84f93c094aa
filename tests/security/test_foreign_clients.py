"""Clients that we did not write, against our servers: kafka-python's and aiokafka's mechanisms."""

import base64
import warnings
from typing import Any

import pytest
from aiokafka.conn import ScramAuthenticator

from apportion.security import oauthbearer, plain, scram
from apportion.security.exchange import Authenticated, AuthenticationFailed
from apportion.security.oauthbearer import TokenAccepted, TokenCheck, TokenRejected
from apportion.security.scram_credentials import (
    Decoys,
    ScramMechanism,
    credential_of,
    salted_password,
)

# it reads its schemas in an old way
with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
    from kafka.net.sasl.plain import SaslMechanismPlain
    from kafka.net.sasl.scram import SaslMechanismScram

PASSWORD = "pässwörd ª"
LOGIN = {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}


def server_of(mechanism: ScramMechanism, password: str = PASSWORD) -> Any:
    salted = salted_password(mechanism, password, b"salt", 8192)
    users = {"alice": credential_of(mechanism, salted, b"salt", 8192)}
    return scram.server(mechanism, users, Decoys(b"key"), "server-nonce")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_kafka_python_proves_its_password(mechanism: ScramMechanism) -> None:
    client = SaslMechanismScram(sasl_mechanism=mechanism.value, **LOGIN)
    server = server_of(mechanism)
    client.receive(server.step(client.auth_bytes()))
    end = server.step(client.auth_bytes())
    assert end == Authenticated("alice", end.reply)
    assert client.receive(end.reply)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_kafka_python_fails_with_a_wrong_password(mechanism: ScramMechanism) -> None:
    client = SaslMechanismScram(sasl_mechanism=mechanism.value, **LOGIN)
    server = server_of(mechanism, "another")
    client.receive(server.step(client.auth_bytes()))
    assert server.step(client.auth_bytes()) == AuthenticationFailed(
        "user 'alice' gave a wrong password"
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_aiokafka_proves_its_password(mechanism: ScramMechanism) -> None:
    client = ScramAuthenticator(loop=None, sasl_mechanism=mechanism.value, **LOGIN)
    server = server_of(mechanism)
    client.process_server_first_message(server.step(client.first_message().encode()).decode())
    end = server.step(client.final_message().encode())
    assert end == Authenticated("alice", end.reply)
    client.process_server_final_message(end.reply.decode())
    assert len(base64.b64decode(end.reply[2:])) == mechanism.hash_bytes


def test_kafka_python_says_its_password() -> None:
    client = SaslMechanismPlain(**LOGIN)
    assert plain.server({"alice": PASSWORD}).step(client.auth_bytes()) == Authenticated("alice")


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
    """The token of a test."""

    def token(self) -> str:
        return "a.b.c"

    def extensions(self) -> dict[str, str]:
        return {"pool": "p-1"}


def test_kafka_python_shows_its_token() -> None:
    client, server = SaslMechanismOAuth(sasl_oauth_token_provider=Provider()), oauthbearer.server()
    assert server.step(client.auth_bytes()) == TokenCheck("a.b.c", {"pool": "p-1"})
    end = server.step(TokenAccepted("alice", 5))
    assert end == Authenticated("alice", b"", 5, {"pool": "p-1"})


def test_kafka_python_acknowledges_that_its_token_is_refused() -> None:
    client, server = SaslMechanismOAuth(sasl_oauth_token_provider=Provider()), oauthbearer.server()
    server.step(client.auth_bytes())
    client.receive(server.step(TokenRejected("it is expired")))
    assert server.step(client.auth_bytes()) == AuthenticationFailed(
        "it is expired", '{"status": "invalid_token"}'
    )
