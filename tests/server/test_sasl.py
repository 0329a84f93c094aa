"""Listeners with SASL on real sockets: who is let in, who is told what, and what the log says."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.security.client_security import (
    ClientSecurity,
    PasswordLogin,
    TokenFunction,
    TokenLogin,
)
from apportion.security.scram_credentials import ScramMechanism, salted_password
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_user_scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512

PASSWORD = "pässwörd ª"
NAME = "listener.name.sasl"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SETTINGS: dict[str, Any] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    f"{NAME}.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_alice="{PASSWORD}" user_bob="b";'
    ),
    "apportion.oauthbearer.unsecured": "true",
    "apportion.authentication.timeout.ms": 1_000,
    "connection.failed.authentication.delay.ms": 1,
}
MAPPED = {ScramMechanism.SCRAM_SHA_256: SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512: SCRAM_SHA_512}


class Secured:
    """A broker whose second listener has SASL."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.plain = broker.bootstrap
        assert broker._server is not None
        self.sasl = "{}:{}".format(*broker._server.advertised["SASL"])


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with EmbeddedBroker(**SETTINGS) as broker:
        secured = Secured(broker)
        cluster = Cluster(secured.plain)
        for mechanism, number in MAPPED.items():
            upsertion = ScramCredentialUpsertion(
                name="alice",
                mechanism=number,
                iterations=4_096,
                salt=b"salt",
                salted_password=salted_password(mechanism, PASSWORD, b"salt", 4_096),
            )
            cluster.call(AlterUserScramCredentialsRequest(upsertions=(upsertion,)))
        cluster.close()
        yield secured


def token(lifetime_s: float = 600, user: str = "alice") -> str:
    """A token without a signature."""
    now_s = time.time()
    claims = {"sub": user, "iat": now_s - 5, "exp": now_s + lifetime_s}
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    )
    return f"{head}.{body}."


def login(mechanism: str, password: str = PASSWORD) -> ClientSecurity:
    if mechanism == "OAUTHBEARER":
        return ClientSecurity(login=TokenLogin(TokenFunction(lambda _config: token())))
    return ClientSecurity(login=PasswordLogin(mechanism, "alice", password))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_logs_in(secured: Secured, mechanism: str) -> None:
    cluster = Cluster(secured.sasl, security=login(mechanism))
    assert len(cluster.call(DescribeClusterRequest()).brokers) == 1
    cluster.close()
