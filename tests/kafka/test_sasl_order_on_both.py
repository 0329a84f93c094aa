"""The order of SASL on a connection: the same requests to a real Kafka and to our broker; and SCRAM
with a password that we have set.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.errors import Refused
from apportion.security.scram_credentials import ScramMechanism
from tests.kafka.conftest import until
from tests.kafka.secured import LOGINS, PASSWORD, PLAIN_USERS, Secured, add_scram_user
from tests.messages import request
from tests.server.peer import Peer
from tests.server.secured import token, with_token

OURS: dict[str, Any] = {
    "listeners": "LOGINS://127.0.0.1:0",
    "listener.security.protocol.map": "LOGINS:SASL_PLAINTEXT",
    "apportion.oauthbearer.unsecured": "true",
}

Step = tuple[Any, int]
"""A request and its version."""


def shake(mechanism: str = "PLAIN") -> Step:
    return request("SaslHandshake", mechanism=mechanism), 1


def say(auth_bytes: bytes, version: int = 2) -> Step:
    return request("SaslAuthenticate", auth_bytes=auth_bytes), version


def show(text: str) -> Step:
    return say(with_token(text))


def versions(client: str) -> Step:
    named = {"client_software_name": client, "client_software_version": "1"}
    return request("ApiVersions", **named), 3


VERSIONS, NAMELESS = versions("x"), versions("-")
METADATA: Step = (request("Metadata", topics=()), 9)
ALICE = f"alice\0{PASSWORD}"
GOOD, BOB, WRONG = (say(f"\0{each}".encode()) for each in (ALICE, f"bob\0{PASSWORD}", "alice\0x"))
SCRIPTS: dict[str, tuple[Step, ...]] = {
    "a login": (VERSIONS, shake(), GOOD, METADATA),
    "without versions": (shake(), GOOD, METADATA),
    "an old client": (shake(), say(f"\0{ALICE}".encode(), 0), METADATA),
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
    "as another": (shake(), say(f"bob\0{ALICE}".encode()), GOOD),
    "garbage for SCRAM": (shake("SCRAM-SHA-256"), say(b"zzz"), GOOD),
    "garbage for OAUTHBEARER": (shake("OAUTHBEARER"), say(b"zzz"), GOOD),
    "a bad token": (shake("OAUTHBEARER"), show("a.b.c"), say(b"\x01"), GOOD),
    "a token that is over": (shake("OAUTHBEARER"), show(token(-60)), say(b"\x01")),
    "a login after the login": (shake(), GOOD, GOOD, METADATA),
    "renewed": (shake(), GOOD, shake(), GOOD, METADATA),
    "renewed at once again": (shake(), GOOD, shake(), GOOD, shake(), METADATA),
    "renewed as another": (shake(), GOOD, shake(), BOB, METADATA),
    "renewed by a wrong password": (shake(), GOOD, shake(), WRONG, METADATA),
    "metadata amid a renewal": (shake(), GOOD, shake(), METADATA, GOOD),
    "versions amid a renewal": (shake(), GOOD, shake(), VERSIONS, GOOD),
}


@pytest.fixture(scope="module")
def addresses(secured: Secured) -> Iterator[tuple[str, str]]:
    """The listeners with SASL of a real Kafka and of our broker."""
    settings = LOGINS | {"plain.sasl.jaas.config": PLAIN_USERS}
    prefixed = {f"listener.name.logins.{name}": each for name, each in settings.items()}
    with EmbeddedBroker(**OURS | prefixed) as ours:
        yield secured.broker.addresses["LOGINS"], ours.bootstrap


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
            offered.append(sorted(peer.answer(type(shake()[0]), 1)[1].mechanisms))
    assert offered[0] == offered[1] == ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256"]


def test_a_session_is_as_long_as_its_token(addresses: tuple[str, str]) -> None:
    steps = shake("OAUTHBEARER"), show(token(500)), METADATA
    for address in addresses:
        _, (name, code, has_words, lifetime_ms), metadata = played(address, *steps)
        assert (name, code, has_words, metadata) == ("SaslAuthenticate", 0, False, ("Metadata", 1))
        assert 400_000 < lifetime_ms <= 500_000


@pytest.mark.parametrize(
    ("listener", "number", "iterations"), [("SASL", 2, 16_384), ("LOGINS", 1, 4_096)]
)
def test_scram_logs_in_with_a_password_that_we_have_set(
    secured: Secured, listener: str, number: int, iterations: int
) -> None:
    name = f"a=b,c-{number}"  # a Kafka refuses names beyond ASCII
    add_scram_user(secured.broker, name, "pässwörd ª", number, iterations)
    mechanism = list(ScramMechanism)[number - 1].value

    def logs_in(password: str = "pässwörd ª") -> bool:
        login: Any = {"sasl_mechanism": mechanism, "sasl_username": name, "sasl_password": password}
        security = client_security(secured.options(listener, **login))
        with closing(Cluster(secured.broker.addresses[listener], security=security)) as cluster:
            try:
                return bool(cluster.nodes())
            except Refused:
                return False

    # The broker learns of a credential from the controller, a little later.
    until(logs_in)
    # A Kafka does not prepare passwords: `ª` is not `a`.
    assert not logs_in("pässwörd a")


def test_the_two_differ_in_four_things(addresses: tuple[str, str]) -> None:
    """docs/differences.md names them."""
    other = shake(), GOOD, shake("SCRAM-SHA-256"), GOOD
    unknown = shake(), GOOD, shake("GSSAPI")
    twice = VERSIONS, VERSIONS
    bare = ((shake()[0], 0),)
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
