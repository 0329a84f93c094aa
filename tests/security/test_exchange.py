"""Every side of every mechanism: whatever a peer sends, the exchange goes on or fails, with no
exception, and says no secret.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.security import oauthbearer, plain, scram
from apportion.security.exchange import (
    REJECTED,
    Authenticated,
    AuthenticationFailed,
    Exchange,
)
from apportion.security.oauthbearer import TokenAccepted, TokenCheck, TokenRejected
from apportion.security.scram_credentials import (
    Decoys,
    ScramMechanism,
    credential_of,
    salted_password,
)

SECRET = "a-secret-of-alice"
MECHANISM = ScramMechanism.SCRAM_SHA_512
CREDENTIALS = {
    "alice": credential_of(
        MECHANISM, salted_password(MECHANISM, SECRET, b"salt", 4096), b"salt", 4096
    )
}
Side = tuple[Exchange[Any, Any], Exchange[Any, Any]]
SIDES: dict[str, Callable[[], Side]] = {
    "PLAIN": lambda: (plain.client("alice", SECRET), plain.server({"alice": SECRET})),
    "SCRAM": lambda: (
        scram.client(MECHANISM, "alice", SECRET, "abc"),
        scram.server(MECHANISM, CREDENTIALS, Decoys(b"key"), "def"),
    ),
    "OAUTHBEARER": lambda: (oauthbearer.client(SECRET, {"a": "1"}), oauthbearer.server()),
}
VERDICTS = [TokenAccepted("alice", 5), TokenRejected("it is expired")]


def said(name: str, verdict: Any) -> Iterator[tuple[str, bytes]]:
    """What each side says of a good exchange, in order: (who, bytes)."""
    client, server = SIDES[name]()
    received = b""
    while True:
        from_client = client.step(received)
        if not isinstance(from_client, bytes):
            return
        yield "client", from_client
        from_server = server.step(from_client)
        if isinstance(from_server, TokenCheck):
            from_server = server.step(verdict)
        if isinstance(from_server, AuthenticationFailed):
            return
        received = from_server.reply if isinstance(from_server, Authenticated) else from_server
        yield "server", received


GOOD = [
    (name, verdict, list(said(name, verdict)))
    for name in SIDES
    for verdict in (VERDICTS if name == "OAUTHBEARER" else VERDICTS[:1])
]


@st.composite
def damaged(draw: st.DrawFn, message: bytes) -> bytes:
    """A message with some bytes changed, inserted, cut off or all of them replaced."""
    kind = draw(st.sampled_from(["noise", "changed", "inserted", "cut", "twice"]))
    if kind == "noise" or not message:
        return draw(st.binary(max_size=80))
    at = draw(st.integers(0, len(message) - 1))
    piece = draw(
        st.binary(min_size=1, max_size=3) | st.sampled_from([b",", b"=", b"\0", b"\x01", b"m=x,"])
    )
    if kind == "changed":
        return message[:at] + piece + message[at + len(piece) :]
    if kind == "inserted":
        return message[:at] + piece + message[at:]
    return message[:at] if kind == "cut" else message + message


@pytest.mark.parametrize("who", ["client", "server"])
@settings(max_examples=300, deadline=None)
@given(case=st.sampled_from(GOOD), data=st.data())
def test_any_bytes_of_a_peer_go_on_or_fail_without_an_exception(
    who: str, case: Any, data: st.DataObject
) -> None:
    name, verdict, good = case
    exchange = SIDES[name]()[0 if who == "client" else 1]
    if who == "client":
        exchange.step(b"")
    theirs = [message for side, message in good if side != who]
    wrong = data.draw(st.integers(0, len(theirs) - 1))
    outcome: Any = b""
    for index, message in enumerate(theirs):
        received = data.draw(damaged(message)) if index >= wrong else message
        outcome = exchange.step(received)
        if isinstance(outcome, TokenCheck):
            outcome = exchange.step(verdict)
        assert isinstance(outcome, bytes | Authenticated | AuthenticationFailed)
        if isinstance(outcome, AuthenticationFailed):
            assert SECRET not in f"{outcome!r}"
        if not isinstance(outcome, bytes):
            break
    if not isinstance(outcome, bytes):
        assert exchange.step(b"more") == AuthenticationFailed(
            "the peer goes on after the end of the exchange"
        )


@pytest.mark.parametrize("name", SIDES)
def test_a_good_exchange_ends_well_on_both_sides(name: str) -> None:
    client, server = SIDES[name]()
    outcomes: list[Any] = []
    received: Any = b""
    while len(outcomes) < 2:
        from_client = client.step(received)
        if not isinstance(from_client, bytes):
            outcomes.append(from_client)
            break
        from_server = server.step(from_client)
        if isinstance(from_server, TokenCheck):
            from_server = server.step(VERDICTS[0])
        if isinstance(from_server, Authenticated):
            outcomes.append(from_server.name)
            from_server = from_server.reply
        received = from_server
    assert outcomes == ["alice", Authenticated()]


def test_a_view_of_a_frame_is_taken_like_bytes() -> None:
    view = memoryview(f"\0alice\0{SECRET}".encode())
    assert plain.server({"alice": SECRET}).step(view) == Authenticated("alice")  # type: ignore[arg-type]


def test_the_sentence_for_a_client_does_not_tell_what_is_wrong() -> None:
    assert REJECTED == "The broker did not accept the credentials."


def test_no_exchange_shows_what_it_knows() -> None:
    for make in SIDES.values():
        assert SECRET not in "".join(map(repr, make()))
