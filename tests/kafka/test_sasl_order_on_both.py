"""The order of SASL on a connection: the same requests to a real Kafka and to our broker."""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from apportion.broker import EmbeddedBroker
from apportion.testing.kafka import KafkaMissing, RealKafka
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.peer import Peer
from tests.server.secured import Secured, plain_users, token, with_token

MODULES = "org.apache.kafka.common.security"
LIFETIME_MS = 60_000
SHARED = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": plain_users(alice="a-secret", bob="b-secret"),
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
        f"{MODULES}.scram.ScramLoginModule required;"
    ),
    "listener.name.sasl.plain.connections.max.reauth.ms": str(LIFETIME_MS),
}
REAL = {
    # Tokens without a signature are what a Kafka takes where nothing else is said.
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";'
    ),
}
OURS: dict[str, Any] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "apportion.oauthbearer.unsecured": "true",
}

Step = tuple[Any, int]
"""A request and its version."""


def shake(mechanism: str = "PLAIN") -> Step:
    return SaslHandshakeRequest(mechanism=mechanism), 1


def say(auth_bytes: bytes, version: int = 2) -> Step:
    return SaslAuthenticateRequest(auth_bytes=auth_bytes), version


def show(text: str) -> Step:
    return say(with_token(text))


VERSIONS: Step = (ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
NAMELESS: Step = (ApiVersionsRequest(client_software_name="-", client_software_version="1"), 3)
METADATA: Step = (MetadataRequest(topics=()), 9)
GOOD, BOB, WRONG = (
    say(f"\0{each}".encode()) for each in ("alice\0a-secret", "bob\0b-secret", "alice\0x")
)
SCRIPTS: dict[str, tuple[Step, ...]] = {
    "a login": (VERSIONS, shake(), GOOD, METADATA),
    "without versions": (shake(), GOOD, METADATA),
    "an old client": (shake(), say(b"\0alice\0a-secret", 0), METADATA),
    "versions that failed": (NAMELESS, VERSIONS, shake(), GOOD, METADATA),
    "metadata first": (METADATA,),
    "metadata after versions": (VERSIONS, METADATA),
    "metadata after the handshake": (shake(), METADATA, METADATA),
    "versions after the handshake": (shake(), VERSIONS, VERSIONS),
    "a handshake again": (shake(), shake(), GOOD),
    "a token first": (GOOD,),
    "a token after versions": (VERSIONS, GOOD),
    "an unknown mechanism": (shake("GSSAPI"), shake()),
    "a wrong password": (shake(), WRONG, GOOD),
    "an unknown user": (shake(), say(b"\0eve\0x"), GOOD),
    "a password without a user": (shake(), say(b"\0alice"), GOOD),
    "as another": (shake(), say(b"bob\0alice\0a-secret"), GOOD),
    "garbage for SCRAM": (shake("SCRAM-SHA-256"), say(b"zzz"), GOOD),
    "garbage for OAUTHBEARER": (shake("OAUTHBEARER"), say(b"zzz"), GOOD),
    "a bad token": (shake("OAUTHBEARER"), show("a.b.c"), say(b"\x01"), GOOD),
    "a login after the login": (shake(), GOOD, GOOD, METADATA),
    "renewed": (shake(), GOOD, shake(), GOOD, METADATA),
    "renewed at once again": (shake(), GOOD, shake(), GOOD, shake(), METADATA),
    "renewed as another": (shake(), GOOD, shake(), BOB, METADATA),
    "renewed by a wrong password": (shake(), GOOD, shake(), WRONG, METADATA),
    "metadata amid a renewal": (shake(), GOOD, shake(), METADATA, GOOD),
    "versions amid a renewal": (shake(), GOOD, shake(), VERSIONS, GOOD),
}


@pytest.fixture(scope="module")
def addresses(
    jars: Any, tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> Iterator[tuple[str, str]]:
    """The listeners with SASL of a real Kafka and of our broker."""
    listeners = {"SASL": "SASL_PLAINTEXT"}
    directory = tmp_path_factory.mktemp("secured")
    try:
        with (
            RealKafka(jars, directory, SHARED | REAL, listeners=listeners) as real,
            EmbeddedBroker(**SHARED | OURS) as ours,
        ):
            yield real.addresses["SASL"], Secured(ours).sasl
    except KafkaMissing as problem:
        lane_missing(str(problem))


def played(address: str, *steps: Step) -> list[Any]:
    """What a broker answers to each request: its code, and what else counts; or "closed"."""
    answers: list[Any] = []
    with Peer(address) as peer:
        for request, version in steps:
            try:
                peer.ask(request, version)
                answers.append(seen(peer.answer(type(request), version)[1]))
            except (EOFError, ConnectionError):
                return [*answers, "closed"]
    return answers


def seen(answer: Any) -> Any:
    """The part of an answer in which both brokers must agree; words are our own."""
    name = type(answer).__name__.removesuffix("Response")
    if name == "Metadata":
        return name, len(answer.brokers)
    if name == "ApiVersions":
        return name, answer.error_code, bool(answer.api_keys)
    if name == "SaslAuthenticate":
        return name, answer.error_code, bool(answer.error_message), answer.session_lifetime_ms
    # What there is to choose from is told once: a session goes on by the mechanism that it has.
    return name, answer.error_code


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_answer_alike(addresses: tuple[str, str], script: str) -> None:
    real, ours = (played(address, *SCRIPTS[script]) for address in addresses)
    assert ours == real


def test_both_offer_the_same_mechanisms(addresses: tuple[str, str]) -> None:
    offered = []
    for address in addresses:
        with Peer(address) as peer:
            peer.ask(*shake("GSSAPI"))
            offered.append(sorted(peer.answer(SaslHandshakeRequest, 1)[1].mechanisms))
    assert offered[0] == offered[1] == ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256"]


def test_a_session_is_as_long_as_its_token(addresses: tuple[str, str]) -> None:
    steps = shake("OAUTHBEARER"), show(token(500)), METADATA
    for address in addresses:
        _, (name, code, has_words, lifetime_ms), metadata = played(address, *steps)
        assert (name, code, has_words, metadata) == ("SaslAuthenticate", 0, False, ("Metadata", 1))
        assert 400_000 < lifetime_ms <= 500_000


def test_the_two_differ_in_four_things(addresses: tuple[str, str]) -> None:
    """docs/differences.md names them."""
    other = shake(), GOOD, shake("SCRAM-SHA-256"), GOOD
    unknown = shake(), GOOD, shake("GSSAPI")
    twice = VERSIONS, VERSIONS
    bare = ((SaslHandshakeRequest(mechanism="PLAIN"), 0),)
    real, ours = (
        [played(address, *steps)[-1] for steps in (other, unknown, twice, bare)]
        for address in addresses
    )
    assert real == ["closed", "closed", "closed", ("SaslHandshake", 0)]
    assert ours == [
        "closed",
        ("SaslHandshake", 33),
        ("ApiVersions", 0, True),
        ("SaslHandshake", 35),
    ]
