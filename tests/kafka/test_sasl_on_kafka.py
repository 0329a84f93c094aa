"""Our side of SASL against a real Kafka's: each mechanism logs in, and fails as it should."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from apportion.client.connection import BrokerConnection
from apportion.errors import Code
from apportion.security import oauthbearer, plain, scram
from apportion.security.exchange import Authenticated, AuthenticationFailed
from apportion.security.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
    salted_password,
)
from apportion.testing.kafka import KafkaMissing, RealKafka
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_user_scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.kafka.conftest import until
from tests.server.secured import plain_users

MODULES = "org.apache.kafka.common.security"
PASSWORD = "pässwörd ª"
NUMBERS = {
    ScramMechanism.SCRAM_SHA_256: SCRAM_SHA_256,
    ScramMechanism.SCRAM_SHA_512: SCRAM_SHA_512,
}
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": plain_users(alice="a-secret"),
    **{
        f"listener.name.sasl.{mechanism.value.lower()}.sasl.jaas.config": (
            f"{MODULES}.scram.ScramLoginModule required;"
        )
        for mechanism in ScramMechanism
    },
    # Tokens without a signature, which Kafka has for tests.
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";'
    ),
    "listener.name.sasl.scram-sha-512.connections.max.reauth.ms": "60000",
}
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def secured(
    jars: Any, tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> Iterator[RealKafka]:
    """A Kafka with a second listener, on which clients must authenticate."""
    listeners = {"SASL": "SASL_PLAINTEXT"}
    directory = tmp_path_factory.mktemp("secured")
    try:
        with RealKafka(jars, directory, SETTINGS, listeners=listeners) as broker:
            yield broker
    except KafkaMissing as problem:
        lane_missing(str(problem))


def connection_to(address: str) -> BrokerConnection:
    host, _, port = address.rpartition(":")
    return BrokerConnection(host, int(port), "sasl", TIMEOUT_MS)


def login(broker: RealKafka, mechanism: str, exchange: Any) -> tuple[Any, Any]:
    """How the exchange ends on our side (None if the broker ends it), and its last answer."""
    connection = connection_to(broker.addresses["SASL"])
    try:
        shake = connection.call(SaslHandshakeRequest(mechanism=mechanism), timeout_ms=TIMEOUT_MS)
        assert shake.error_code == Code.NONE
        answer, outcome = None, exchange.step(b"")
        while isinstance(outcome, bytes):
            request = SaslAuthenticateRequest(auth_bytes=outcome)
            answer = connection.call(request, timeout_ms=TIMEOUT_MS)
            if answer.error_code:
                return None, answer
            outcome = exchange.step(answer.auth_bytes)
        if isinstance(outcome, Authenticated):
            cluster = connection.call(DescribeClusterRequest(), timeout_ms=TIMEOUT_MS)
            assert cluster.error_code == Code.NONE
        return outcome, answer
    finally:
        connection.close()


def set_password(broker: RealKafka, mechanism: ScramMechanism, name: str, iterations: int) -> Any:
    """The result of a request that sets the user's password."""
    salt = b"a salt of " + name.encode()
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=NUMBERS[mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(mechanism, PASSWORD, salt, iterations),
    )
    connection = connection_to(broker.bootstrap)
    try:
        (result,) = connection.call(
            AlterUserScramCredentialsRequest(upsertions=(upsertion,)), timeout_ms=TIMEOUT_MS
        ).results
        return result
    finally:
        connection.close()


def token(lifetime_s: int) -> str:
    """A token without a signature, of alice, that lives so long from now on."""
    now = int(time.time())
    claims = {"sub": "alice", "iat": now - 100, "exp": now + lifetime_s}
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    )
    return f"{head}.{body}."


def test_plain_logs_in_with_the_right_password_alone(secured: RealKafka) -> None:
    outcome, answer = login(secured, plain.NAME, plain.client("alice", "a-secret"))
    assert (outcome, answer.session_lifetime_ms) == (Authenticated(), 0)
    _, answer = login(secured, plain.NAME, plain.client("alice", "wrong"))
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("iterations", [MIN_ITERATIONS, MAX_ITERATIONS])
def test_scram_logs_in_with_a_password_that_we_have_set(
    secured: RealKafka, mechanism: ScramMechanism, iterations: int
) -> None:
    name = f"a=b,c-{iterations}"  # a Kafka refuses names beyond ASCII
    assert set_password(secured, mechanism, name, iterations).error_code == Code.NONE
    answers = []

    def logs_in() -> bool:
        client = scram.client(mechanism, name, PASSWORD, "our-nonce")
        outcome, answer = login(secured, mechanism.value, client)
        answers.append(answer)
        return isinstance(outcome, Authenticated)

    # The broker learns of a credential from the controller, a little later.
    until(logs_in)
    answer = answers[-1]
    lifetime_ms = 60_000 if mechanism is ScramMechanism.SCRAM_SHA_512 else 0
    assert answer.session_lifetime_ms == lifetime_ms
    # A Kafka does not prepare passwords: `ª` is not `a`.
    for other in ("pässwörd a", "wrong"):
        client = scram.client(mechanism, name, other, "our-nonce")
        _, answer = login(secured, mechanism.value, client)
        assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("iterations", [MIN_ITERATIONS - 1, MAX_ITERATIONS + 1])
def test_both_refuse_a_credential_with_as_many_iterations(
    secured: RealKafka, iterations: int
) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    result = set_password(secured, mechanism, "bob", iterations)
    assert result.error_code == Code.UNACCEPTABLE_CREDENTIAL
    with pytest.raises(ValueError, match=f"iterations, not {iterations}$"):
        credential_of(mechanism, bytes(32), b"salt", iterations)


def test_a_token_logs_in_for_as_long_as_it_lives(secured: RealKafka) -> None:
    client = oauthbearer.client(token(500), {"pool": "p 1"})
    outcome, answer = login(secured, oauthbearer.NAME, client)
    assert outcome == Authenticated()
    assert 400_000 < answer.session_lifetime_ms <= 500_000


def test_a_token_that_is_over_is_acknowledged_and_refused(secured: RealKafka) -> None:
    client = oauthbearer.client(token(-50), {})
    _, answer = login(secured, oauthbearer.NAME, client)
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert json.loads(answer.error_message)["status"] == "invalid_token"
    # It has acknowledged the error, of which it knows the reason.
    assert client.step(b"") == AuthenticationFailed(
        "the server does not accept the token: 'invalid_token'"
    )
