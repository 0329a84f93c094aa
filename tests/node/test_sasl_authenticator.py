"""SASL on one connection: what the broker answers a client that has no name yet, and when it ends
the connection. `tests/kafka/test_sasl_order_on_both.py` asks a real Kafka the same.
"""

from dataclasses import replace
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
from apportion.security import oauthbearer, scram
from apportion.security.exchange import REJECTED, Authenticated
from apportion.security.oauthbearer import TokenAccepted, TokenCheck, TokenRejected
from apportion.security.scram_credentials import (
    Decoys,
    ScramMechanism,
    credential_of,
    salted_password,
)
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.metadata import MetadataRequest, MetadataResponse
from apportion.wire.messages.produce import ProduceRequest
from apportion.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

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
BROKEN_OFF = EndConnection("its session is over, and it has not authenticated again")


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


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_user_may_ask_for_versions_authenticates_and_is_served(before: int) -> None:
    connection = Connection()
    for _ in range(before):
        assert connection.send(VERSIONS) == PassOn()
    connection.authenticated()
    assert connection.send(METADATA) == connection.send(VERSIONS) == PassOn()


NO_LOGIN = "it sent {} before it authenticated: the listener has SASL"
NO_TOKEN = "it sent {} in place of SaslAuthenticate"
PRODUCE = ProduceRequest(acks=0)
LOGIN = (shake(), token())
ENDINGS: dict[str, tuple[tuple[Any, ...], Any, EndConnection]] = {
    "metadata first": ((), METADATA, EndConnection(NO_LOGIN.format("Metadata"))),
    "a token first": ((), token(), EndConnection(NO_LOGIN.format("SaslAuthenticate"))),
    "no answer wanted first": ((), PRODUCE, EndConnection(NO_LOGIN.format("Produce"))),
    "metadata amid an exchange": (
        *((shake(),), METADATA),
        EndConnection(NO_TOKEN.format("Metadata"), MetadataResponse(topics=())),
    ),
    "a handshake amid an exchange": (
        *((shake(),), shake()),
        EndConnection(
            NO_TOKEN.format("SaslHandshake"),
            SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE),
        ),
    ),
    "no answer wanted amid an exchange": (
        *((shake(),), PRODUCE),
        EndConnection(NO_TOKEN.format("Produce")),
    ),
    "metadata amid a renewal": (
        *((*LOGIN, shake()), METADATA),
        EndConnection(NO_TOKEN.format("Metadata"), MetadataResponse(topics=())),
    ),
    "an unknown mechanism": (
        *((), shake("GSSAPI")),
        EndConnection(
            "it wants the SASL mechanism 'GSSAPI', and may use PLAIN, SCRAM-SHA-256, OAUTHBEARER",
            SaslHandshakeResponse(
                error_code=Code.UNSUPPORTED_SASL_MECHANISM, mechanisms=MECHANISMS
            ),
        ),
    ),
    "a renewal by another mechanism": (
        *(LOGIN, shake("SCRAM-SHA-256")),
        EndConnection(
            "it wants the SASL mechanism 'SCRAM-SHA-256', and may use PLAIN",
            SaslHandshakeResponse(
                error_code=Code.UNSUPPORTED_SASL_MECHANISM, mechanisms=("PLAIN",)
            ),
        ),
    ),
    "a renewal as another user": (
        *((*LOGIN, shake()), token(b"\0bob\0b")),
        EndConnection(
            "SASL PLAIN: 'User:alice' wants to go on as 'User:bob'",
            rejected("A connection goes on with the user who has authenticated on it first."),
            delay_ms=100,
        ),
    ),
    **{
        why: (
            *((shake(),), token(auth_bytes)),
            EndConnection(f"SASL PLAIN: {why}", rejected(), delay_ms=100),
        )
        for auth_bytes, why in (
            (b"\0alice\0wrong", "user 'alice' gave a wrong password"),
            (b"\0eve\0wrong", "user 'eve' is unknown"),
            (b"\0alice", "a message of PLAIN has three parts, and the client's 2"),
            (b"bob" + GOOD, "user 'alice' wants to act as 'bob'"),
            (b"\xff", "the peer's message is not UTF-8"),
        )
    },
}


@pytest.mark.parametrize(("before", "last", "ending"), ENDINGS.values(), ids=ENDINGS)
def test_a_wrong_request_ends_the_connection_with_an_answer_or_without(
    before: tuple[Any, ...], last: Any, ending: EndConnection
) -> None:
    connection = Connection()
    for request in before:
        connection.actions(request)
    assert connection.send(last) == ending
    assert connection.actions(token()) == []
    assert connection.machine.wake_at() is None


def test_tokens_without_requests_of_their_own_are_refused() -> None:
    assert Connection().send(shake(), version=0) == EndConnection(
        "it wants SASL without SaslAuthenticate (SaslHandshake 0), as before KIP-152",
        SaslHandshakeResponse(error_code=Code.UNSUPPORTED_VERSION, mechanisms=MECHANISMS),
    )


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


def checking() -> Connection:
    """A connection whose token is being looked at."""
    connection = Connection()
    connection.send(shake("OAUTHBEARER"))
    client = oauthbearer.client("a.b.c", {"pool": "p"})
    assert connection.send(token(client.step(b""))) == TokenCheck("a.b.c", {"pool": "p"})
    return connection


def test_a_token_is_looked_at_and_its_session_ends_with_it() -> None:
    connection = checking()
    verdict = TokenChecked(TokenAccepted("alice", connection.now.wall_ms + 7_000))
    actions = connection.machine.step(verdict, connection.now)
    assert connection.bodies(actions) == [LoggedIn("User:alice"), agreed(lifetime_ms=7_000)]
    connection.now_ms += 6_999
    assert connection.send(METADATA) == PassOn()
    connection.now_ms += 1
    assert connection.send(METADATA) == BROKEN_OFF


def test_a_bad_token_is_acknowledged_and_refused() -> None:
    connection = checking()
    actions = connection.machine.step(TokenChecked(TokenRejected("it is over")), connection.now)
    error = '{"status": "invalid_token"}'
    assert connection.bodies(actions) == [agreed(error.encode())]
    assert connection.send(token(b"\1")) == EndConnection(
        "SASL OAUTHBEARER: it is over", rejected(error), delay_ms=100
    )


def test_a_client_that_goes_on_while_its_token_is_looked_at_is_cut_off() -> None:
    connection = checking()
    assert connection.send(METADATA) == EndConnection(
        "it sent Metadata while its token was being checked"
    )
    verdict = TokenChecked(TokenAccepted("alice", connection.now.wall_ms + 7_000))
    assert connection.machine.step(verdict, connection.now) == []


@pytest.mark.parametrize("requests", [(), (shake(),), (VERSIONS, shake())])
def test_a_client_that_takes_too_long_is_cut_off(requests: tuple[Any, ...]) -> None:
    connection = Connection()
    for request in requests:
        connection.send(request)
    connection.now_ms = 9_999
    assert connection.machine.step(Tick(), connection.now) == []
    assert connection.machine.wake_at() == 1_000 + 10_000
    connection.now_ms = 10_000
    assert connection.machine.step(Tick(), connection.now) == [
        EndConnection("it has not authenticated in time (apportion.authentication.timeout.ms)")
    ]
    assert connection.machine.wake_at() is None


def test_a_client_with_a_name_may_take_its_time() -> None:
    connection = Connection().authenticated()
    assert connection.machine.wake_at() is None
    connection.now_ms = 10_000
    assert connection.machine.step(Tick(), connection.now) == []


def test_a_session_ends_unless_the_user_authenticates_again() -> None:
    connection = Connection().authenticated()
    connection.now_ms = 4_000
    before = connection.machine.is_exchanging
    assert connection.send(shake()) == SaslHandshakeResponse(mechanisms=("PLAIN",))
    assert (before, connection.machine.is_exchanging) == (False, True)
    assert connection.send(token()) == agreed(lifetime_ms=5_000)
    connection.now_ms = 8_999
    assert connection.send(METADATA) == PassOn()
    connection.now_ms = 9_000
    assert connection.send(METADATA) == BROKEN_OFF


def test_a_session_that_is_over_can_still_be_renewed() -> None:
    connection = Connection().authenticated()
    connection.now_ms = 6_000
    connection.send(shake())
    assert connection.send(token()) == agreed(lifetime_ms=5_000)
    assert connection.send(METADATA) == PassOn()


def test_a_session_that_is_over_does_not_take_a_token_without_a_handshake() -> None:
    connection = Connection().authenticated()
    connection.now_ms = 6_000
    assert connection.send(token()) == BROKEN_OFF


def test_a_session_is_renewed_once_in_a_second() -> None:
    connection = Connection().authenticated()
    connection.send(shake())
    connection.send(token())
    connection.now_ms = 999
    # The node refuses it, and the connection goes on.
    assert connection.send(shake()) == PassOn()
    assert connection.send(METADATA) == PassOn()
    connection.now_ms = 1_000
    assert connection.send(shake()) == SaslHandshakeResponse(mechanisms=("PLAIN",))


def test_a_session_without_an_end_is_not_renewed() -> None:
    connection = Connection(most_session_ms={})
    connection.send(shake())
    assert connection.actions(token()) == [LoggedIn("User:alice"), agreed()]
    connection.now_ms = 10**9
    assert connection.send(shake()) == connection.send(token()) == PassOn()


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
