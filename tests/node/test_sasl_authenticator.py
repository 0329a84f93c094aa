"""SASL on one connection: what the broker answers a client that has no name yet, and when it ends
the connection. `tests/kafka/test_sasl_order_on_both.py` asks a real Kafka the same.

A line of `sasl_order.txt` is a connection; what follows from its last step stands behind `>`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.machine import Arrived, Caller, Instant, Reply, Tick, Ticket
from apportion.node.sasl_authenticator import (
    ClientAsked,
    EndConnection,
    LoggedIn,
    PassOn,
    SaslAuthenticator,
    ScramUsers,
    TokenChecked,
)
from apportion.node.sasl_settings import SaslSettings
from apportion.security import scram
from apportion.security.exchange import REJECTED, Authenticated
from apportion.security.oauthbearer import TokenAccepted, TokenCheck, TokenRejected
from apportion.security.scram_credentials import (
    Decoys,
    ScramMechanism,
    credential_of,
    salted_password,
)
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.produce import ProduceRequest
from apportion.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.scripted import check

SECRET = "a-secret-of-alice"
SCRAM = ScramMechanism.SCRAM_SHA_256
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
SETTINGS = SaslSettings(
    mechanisms=MECHANISMS, passwords={"alice": SECRET, "bob": "b"}, most_session_ms={"PLAIN": 5_000}
)
CREDENTIAL = credential_of(SCRAM, salted_password(SCRAM, SECRET, b"salt", 4096), b"salt", 4096)
USERS = ScramUsers({SCRAM: {"alice": CREDENTIAL}}, Decoys(b"key"))
FRESH = bytes(range(16))
VERSIONS = ApiVersionsRequest(client_software_name="x", client_software_version="1")
METADATA = MetadataRequest()
GOOD = b"\0alice\0" + SECRET.encode()


def shake(mechanism: str = "PLAIN") -> SaslHandshakeRequest:
    return SaslHandshakeRequest(mechanism=mechanism)


def token(auth_bytes: Any = GOOD) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=auth_bytes)


def agreed(auth_bytes: bytes = b"", lifetime_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_message="", auth_bytes=auth_bytes, session_lifetime_ms=lifetime_ms
    )


def rejected(sentence: str = REJECTED) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=Code.SASL_AUTHENTICATION_FAILED, error_message=sentence
    )


class Connection:
    """A connection, with the time since it was opened."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 0
        self.tickets = 0
        self.machine = SaslAuthenticator(replace(SETTINGS, **settings), self.now.mono_ms + 10_000)

    @property
    def now(self) -> Instant:
        return Instant(1_000 + self.now_ms, 500_000 + self.now_ms)

    def send(self, request: Any, version: int = 1) -> Any:
        """The one action that follows; of a reply, its body."""
        (action,) = self.actions(request, version)
        return action

    def actions(self, request: Any, version: int = 1) -> list[Any]:
        self.tickets += 1
        ticket = Ticket(self.tickets)
        arrived = Arrived(ticket, request, version, Caller("", "/127.0.0.1"), FRESH)
        return self.bodies(self.machine.step(ClientAsked(arrived, USERS), self.now))

    def bodies(self, actions: list[Any]) -> list[Any]:
        assert all(each.ticket == self.tickets for each in actions if type(each) is Reply)
        return [each.body if type(each) is Reply else each for each in actions]

    def authenticated(self) -> "Connection":
        assert self.send(shake()) == SaslHandshakeResponse(mechanisms=MECHANISMS)
        assert self.actions(token()) == [LoggedIn("User:alice"), agreed(lifetime_ms=5_000)]
        return self


STEPS = {
    "versions": VERSIONS,
    "metadata": METADATA,
    "produce": ProduceRequest(acks=0),
    "login": token(),
    "bearer": token(b"n,,\1auth=Bearer a.b.c\1pool=p\1\1"),
}


def played(line: str) -> list[str]:
    """The actions that follow from the last step on a connection."""
    connection, actions = Connection(), list[Any]()
    for each in line.split(", "):
        step, _, rest = each.partition(" ")
        match step:
            case "endless":
                connection = Connection(most_session_ms={})
            case "at":
                connection.now_ms = int(rest)
            case "wakes":
                actions = [connection.machine.wake_at()]
            case "exchanges":
                actions = [connection.machine.is_exchanging]
            case "tick":
                actions = connection.machine.step(Tick(), connection.now)
            case "verdict":
                user, _, lifetime_ms = rest.partition(" ")
                verdict: Any = TokenRejected("it is over")
                if user:
                    verdict = TokenAccepted(user, connection.now.wall_ms + int(lifetime_ms))
                actions = connection.machine.step(TokenChecked(verdict), connection.now)
            case "handshake":
                mechanism, _, version = rest.partition(" ")
                actions = connection.actions(shake(mechanism), int(version or 1))
            case "token":
                text = rest.replace("SECRET", SECRET).encode().decode("unicode_escape")
                actions = connection.actions(token(text.encode("latin-1")))
            case _:
                actions = connection.actions(STEPS[step])
    return list(map(shown, connection.bodies(actions))) or ["nothing"]


def shown(action: Any) -> str:
    """An action in words; a response with its fields that are not at their defaults."""
    match action:
        case EndConnection():
            told = "" if action.response is None else f"; told before: {shown(action.response)}"
            late = f" after {action.delay_ms} ms" if action.delay_ms else ""
            return f"closed{late}: {action.why}{told}"
        case TokenCheck():
            return f"to be checked: {action.token} {action.extensions}"
        case LoggedIn():
            return f"{action.principal} is logged in"
        case PassOn():
            return "passed on"
    if not hasattr(action, "__fields__"):
        return str(action)
    fields = {each.name: getattr(action, each.name) for each in action.__fields__}
    defaults = {each.name: each.default for each in action.__fields__}
    code = Code(fields.pop("error_code", 0)).name
    changed = [f"{name}={value!r}" for name, value in fields.items() if value != defaults[name]]
    return " ".join([type(action).__name__.removesuffix("Response"), code, *changed])


def test_requests_are_answered_in_kafkas_order(request: pytest.FixtureRequest) -> None:
    check(Path(__file__).with_name("sasl_order.txt"), played, request)


def test_scram_takes_its_nonce_from_the_request() -> None:
    connection = Connection()
    client = scram.client(SCRAM, "alice", SECRET, "abc")
    assert connection.send(shake("SCRAM-SHA-256")).error_code == Code.NONE
    challenge = connection.send(token(client.step(b""))).auth_bytes
    assert challenge.startswith(b"r=abc" + FRESH.hex().encode() + b",s=")
    logged_in, answer = connection.actions(token(client.step(challenge)))
    assert logged_in == LoggedIn("User:alice")
    assert answer == agreed(answer.auth_bytes)
    assert client.step(answer.auth_bytes) == Authenticated()


def test_scram_does_not_tell_an_unknown_user_from_a_wrong_password() -> None:
    ends = []
    for name in ("alice", "eve"):
        connection = Connection()
        client = scram.client(SCRAM, name, "wrong", "abc")
        connection.send(shake("SCRAM-SHA-256"))
        challenge = connection.send(token(client.step(b""))).auth_bytes
        ends.append(connection.send(token(client.step(challenge))))
    assert [end.why for end in ends] == [
        "SASL SCRAM-SHA-256: user 'alice' gave a wrong password",
        "SASL SCRAM-SHA-256: user 'eve' has no credential of SCRAM-SHA-256",
    ]
    assert [end.response for end in ends] == [rejected(), rejected()]


BAD_LOGINS = (
    b"\0eve\0" + SECRET.encode(),
    b"\0alice\0wrong",
    b"n,,n=alice,r=abc",
    b"n,,\1auth=Bearer a.b.c\1\1",
    b"\1",
)
REQUESTS = st.sampled_from(
    [VERSIONS, METADATA, *map(shake, (*MECHANISMS, "", "GSSAPI"))]
) | st.builds(token, st.binary(max_size=40) | st.sampled_from(BAD_LOGINS))
EVENTS = st.tuples(
    REQUESTS | st.just(TokenChecked(TokenRejected("it is over"))) | st.just(Tick()),
    st.sampled_from([0, 1]),
    st.integers(0, 3_000),
)


@given(st.lists(EVENTS, max_size=12))
def test_no_order_of_wrong_bytes_is_served_or_raises(events: list[Any]) -> None:
    connection = Connection()
    was_checking = False
    for event, version, pause_ms in events:
        connection.now_ms += pause_ms
        if type(event) is TokenChecked and not was_checking:
            continue  # a verdict follows a question
        if type(event) in (TokenChecked, Tick):
            actions = connection.bodies(connection.machine.step(event, connection.now))
        else:
            actions = connection.actions(event, version)
        was_checking = any(type(action) is TokenCheck for action in actions) or (
            was_checking and type(event) is Tick
        )
        assert not any(type(action) is LoggedIn for action in actions)
        if PassOn() in actions:
            assert event == VERSIONS
        assert SECRET not in repr(actions)


BOBS = token(b"\0bob\0b")
RENEWALS = REQUESTS | st.sampled_from([shake(), token(), BOBS])


@given(st.lists(st.tuples(RENEWALS, st.integers(0, 3_000)), max_size=8))
def test_a_session_never_takes_another_name(events: list[Any]) -> None:
    connection = Connection().authenticated()
    for request, pause_ms in events:
        connection.now_ms += pause_ms
        actions = connection.actions(request)
        assert LoggedIn not in map(type, actions)
        if request == BOBS:
            assert all(type(each) in (EndConnection, PassOn) for each in actions)
