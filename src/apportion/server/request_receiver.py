"""The interfaces between a connection and the server: requests go one way, responses the other."""

import socket
from typing import Any, Protocol

from apportion.machine import Caller, Ticket
from apportion.node.settings import BrokerSettings
from apportion.wire.table import Api, DecodedRequest

PRODUCE, OFFSET_COMMIT = 0, 8
SHARES_FLUSH = frozenset({PRODUCE, OFFSET_COMMIT})
"""The API keys of requests that wait for nothing but the disk, and read nothing but their place in
the log, their producer's state or their group's, which appending has changed already.
"""


class ResponseSlot:
    """One request in flight, in the order in which the responses must leave.

    ticket: names the request to the broker while it has no answer.
    encoded: the parts of the encoded response; None until there is one.
    close_reason: why the connection ends when this request is answered; None if it does not.
    """

    __slots__ = (
        "api",
        "close_reason",
        "correlation_id",
        "encoded",
        "size_bytes",
        "ticket",
        "version",
    )

    def __init__(self, incoming: DecodedRequest, size_bytes: int) -> None:
        self.api: Api = incoming.api
        self.version = incoming.version
        self.correlation_id = incoming.correlation_id
        self.size_bytes = size_bytes
        self.ticket: Ticket | None = None
        self.encoded: list[Any] | None = None
        self.close_reason: str | None = None


class OpenConnection(Protocol):
    """The part of a connection that `Server` uses for each, whatever it has got to.

    host: the client's address. peer: the same with its port. last_active_s: when something came or
    went last, on the event loop's clock; infinite while the connection has another time limit.
    """

    host: str
    peer: str
    last_active_s: float

    def stop_reading(self) -> None:
        """Start no further request of the client."""
        ...

    def close_after_writes(self) -> None:
        """Close the connection after the responses that are ready."""
        ...

    def abort(self) -> None:
        """Close the connection now."""
        ...

    def close_if_idle(self, since_s: float) -> None:
        """Close the connection if nothing has come or gone since then."""
        ...


class RespondingConnection(OpenConnection, Protocol):
    """A connection of which requests are in flight."""

    def send_response(self, slot: ResponseSlot, body: Any) -> None:
        """Send a response to the client after those of all its earlier requests."""
        ...

    def write_responses(self) -> None:
        """Write the responses that are ready to the client."""
        ...


class RequestReceiver(Protocol):
    """The part of `Server` that its connections use."""

    settings: BrokerSettings

    def connection_opened(self, connection: OpenConnection, accepted: socket.socket | None) -> bool:
        """Count the connection; return False if there are too many, so that it must close.

        accepted: its socket, unless it has closed already.
        """
        ...

    def submit(
        self, connection: RespondingConnection, slot: ResponseSlot, request: Any, caller: Caller
    ) -> None:
        """Hand a client's request to the broker; give its slot the ticket that names it there.

        The server calls `connection.send_response(slot, body)` once, perhaps before this returns.
        """
        ...

    def write_soon(self, connection: RespondingConnection) -> None:
        """Write a connection's responses, together with those of other clients if there are any.

        The server calls `connection.write_responses()` once, perhaps before this returns.
        """
        ...

    def answer_submitted(self) -> None:
        """Have the broker take all that was submitted: what needs no time is answered then."""
        ...

    def connection_closed(
        self, connection: OpenConnection, tickets: tuple[Ticket, ...], reason: str | None
    ) -> None:
        """Forget the unanswered requests of a closed connection.

        reason: why we closed it; empty if the peer did, or if the server stops.
        """
        ...
