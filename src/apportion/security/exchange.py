"""One SASL exchange as a machine: the peer's bytes come in, bytes for the peer or the end go out.

A mechanism is a rule (`rules.py`) in the order of its RFC: it yields bytes for the peer and is sent
the peer's answer. `Exchange` limits what a peer may send, and turns whatever is wrong with the
peer's bytes into an `AuthenticationFailed`. The exchange knows no socket, no clock and no
randomness: nonces come from the driver. Messages of Kafka's protocol carry the bytes
(`wire/messages/sasl_authenticate.py`).
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from apportion.errors import Code
from apportion.readable import MAX_QUOTED, shortened
from apportion.rules import RunningRule

Query = TypeVar("Query")
"""A question of the mechanism to its driver, instead of bytes for the peer."""
Verdict = TypeVar("Verdict")
"""The driver's answer to such a question."""

REJECTED = Code.SASL_AUTHENTICATION_FAILED.sentence
"""The sentence for a client whose credentials are wrong: the same for an unknown user."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The exchange has succeeded.

    name: the user, at the server; "" at a client. reply: the last bytes for the client. A client
    has nothing left to send. expires_at_ms: when the credentials end, on the wall clock; None for
    never. extensions: what the client said besides.
    """

    name: str = ""
    reply: bytes = b""
    expires_at_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """The exchange has failed; the connection is to be closed.

    why: for the log of this side; it names the user, and no secret. sentence: for the client, from
    a server. It does not tell an unknown user from a wrong password.
    """

    why: str
    sentence: str = REJECTED


class UnacceptableBytes(Exception):
    """A peer's bytes with which the exchange cannot go on; the text says why, without them."""


Mechanism = Generator[bytes | Query, bytes | Verdict, Authenticated | AuthenticationFailed]
"""One side of a mechanism: yields bytes for the peer, or a query, and is sent the answer.

It begins with `yield b""`, which is sent the client's first message; at a client, nothing.
"""


class Exchange(Generic[Query, Verdict]):
    """One side of one exchange of a SASL mechanism.

    A mechanism that asks its driver (OAUTHBEARER, about a token) gets the answer by `step`, too.
    """

    def __init__(self, mechanism: Mechanism[Query, Verdict], most_bytes: int) -> None:
        """Begin an exchange.

        most_bytes: the longest message of the peer that is looked at.
        """
        self._running = RunningRule(_outcome(mechanism))
        self._most_bytes = most_bytes

    def step(
        self, received: bytes | Verdict
    ) -> bytes | Query | Authenticated | AuthenticationFailed:
        """Return what follows from the peer's bytes, or from the answer to a query.

        A client begins with `b""`. After the end, every step fails.
        """
        running = self._running
        if running.is_finished:
            return AuthenticationFailed("the peer goes on after the end of the exchange")
        # A decoded message has a view of its frame, which may be kept no longer than this step.
        if isinstance(received, memoryview):
            received = bytes(received)
        if isinstance(received, bytes) and len(received) > self._most_bytes:
            why = f"the peer sent {len(received)} bytes, and {self._most_bytes} are allowed"
            running.fail(UnacceptableBytes(why))
        else:
            running.resume(received)
        answer: bytes | Query = running.query
        return running.result if running.is_finished else answer


def _outcome(mechanism: Mechanism[Query, Verdict]) -> Mechanism[Query, Verdict]:
    """Return the mechanism, ended by bytes with which it cannot go on."""
    try:
        return (yield from mechanism)
    except UnacceptableBytes as fault:
        return AuthenticationFailed(str(fault))


def as_text(received: bytes) -> str:
    """Return a peer's message as text. Errors: UnacceptableBytes."""
    try:
        return received.decode()
    except UnicodeDecodeError:
        # From None: the error has the bytes, which may be a password.
        raise UnacceptableBytes("the peer's message is not UTF-8") from None


def is_sendable(text: str) -> bool:
    """Return whether a message can have a name or a password: no NUL, and no lone surrogates."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def require_text(text: str, what: str) -> None:
    """Check a user's name or password that a client was given.

    Errors: ValueError for one that no message can have; its text has neither of them.
    """
    if not text or not is_sendable(text):
        raise ValueError(f"a {what} must have characters, and neither NUL nor lone surrogates")


def shown(text: str) -> str:
    """Return a name or word of a peer in quotes, for a log line."""
    return f"'{shortened(text, MAX_QUOTED)}'"
