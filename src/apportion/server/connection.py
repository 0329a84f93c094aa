"""The server's side of one connection: frames in, responses out in request order, within limits.

A connection stops reading while the peer does not read, or while too many of its requests or bytes
are in flight. Bytes that are no request close it, with a line in the log. It does not know what a
request means.
"""

import asyncio
from collections import deque
from typing import Any, Protocol

from apportion.errors import Code, DecodeError
from apportion.machine import Caller, Ticket
from apportion.node.settings import BrokerSettings
from apportion.wire.frames import FrameSplitter, request_header
from apportion.wire.table import (
    Api,
    DecodedRequest,
    api_versions_response,
    decode_request,
    encode_response,
)

# no request but Produce is larger: read, its small parts take many times their size
WITHOUT_RECORDS_BYTES = 16 << 20
PRODUCE = 0
GATHERED_BYTES = 1 << 16  # answers to a burst of requests go out together, up to this size


class ResponseSlot:
    """One request in the order of responses. answer: the encoded response; None until it is
    known.
    """

    __slots__ = ("answer", "api", "correlation_id", "size_bytes", "version")

    def __init__(self, incoming: DecodedRequest, size_bytes: int) -> None:
        self.api: Api = incoming.api
        self.version = incoming.version
        self.correlation_id = incoming.correlation_id
        self.size_bytes = size_bytes
        self.answer: list[Any] | None = None


class RequestReceiver(Protocol):
    """What a connection needs of its server."""

    settings: BrokerSettings

    def opened(self, connection: "ServerConnection") -> bool:
        """Count the connection; return False if there are too many, so that it must close."""
        ...

    def ask(
        self, connection: "ServerConnection", slot: ResponseSlot, request: Any, caller: Caller
    ) -> Ticket:
        """Take a request; `connection.answer(slot, body)` is called once, perhaps before this
        returns.
        """
        ...

    def closed(
        self, connection: "ServerConnection", tickets: tuple[Ticket, ...], why: str | None
    ) -> None:
        """Drop the tickets of a closed connection. why: set if the peer's bytes closed it."""
        ...


class ServerConnection(asyncio.Protocol):
    """The asyncio protocol of one client connection."""

    __slots__ = (
        "_backlog",
        "_caller",
        "_desk",
        "_frames",
        "_gathering",
        "_inflight_bytes",
        "_is_finishing",
        "_is_reading",
        "_out",
        "_out_bytes",
        "_peer_reads",
        "_slots",
        "_tickets",
        "_transport",
        "_why",
        "host",
        "peer",
    )

    def __init__(self, desk: RequestReceiver) -> None:
        self._desk = desk
        self._frames = FrameSplitter(desk.settings.socket_request_max_bytes)
        self._backlog: deque[bytes] = deque()  # whole frames that may not start yet
        # requests without an answer on its way, oldest first
        self._slots: deque[ResponseSlot] = deque()
        self._tickets: dict[ResponseSlot, Ticket] = {}
        self._inflight_bytes = 0
        self._peer_reads = True
        self._is_reading = True
        self._is_finishing = False
        self._gathering = False
        self._out: list[Any] = []
        self._out_bytes = 0
        self._why: str | None = None
        self._caller = Caller("", "")
        self._transport: Any = None
        self.peer = self.host = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn the peer's address; close the connection if there are too many."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        host = peer[0] if isinstance(peer, tuple) and peer else "?"
        self.host = str(host)
        self.peer = f"{host}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else host
        self._caller = Caller("", f"/{host}")
        if not self._desk.opened(self):
            self._close("there are too many connections")

    def data_received(self, data: bytes) -> None:
        """Start the requests that `data` completes, as far as the limits allow."""
        try:
            self._backlog.extend(self._frames.feed(data))
        except DecodeError as error:
            self._close(str(error))
        self.go_on()

    def go_on(self) -> None:
        """Start the frames that wait, as far as the limits allow, and write the responses that are
        ready.
        """
        if self._is_finishing:
            return
        backlog = self._backlog
        self._gathering = True
        while backlog and self._has_room(len(backlog[0])) and self._why is None:
            self._start(backlog.popleft())
            if self._out_bytes >= GATHERED_BYTES:
                self._write()  # which may find that the peer does not read
        self._gathering = False
        self._write()
        if self._why is not None:
            self._transport.close()
        elif self._is_reading != (not backlog):
            self._is_reading = not backlog
            (
                self._transport.resume_reading
                if self._is_reading
                else self._transport.pause_reading
            )()

    def answer(self, slot: ResponseSlot, body: Any) -> None:
        """Send a response after those of all earlier requests. body: None where the request has no
        response.
        """
        self._tickets.pop(slot, None)
        slot.answer = (
            []
            if body is None
            else encode_response(slot.api, slot.version, slot.correlation_id, body)
        )
        slots = self._slots
        while slots and slots[0].answer is not None:
            ready = slots.popleft()
            for part in ready.answer or ():
                self._out.append(part)
                self._out_bytes += len(part)
            self._inflight_bytes -= ready.size_bytes
        if not self._gathering:
            self._write()
            if self._backlog:
                asyncio.get_running_loop().call_soon(self.go_on)

    def pause_writing(self) -> None:
        """Start no further request: the peer does not read fast enough."""
        self._peer_reads = False

    def resume_writing(self) -> None:
        """Start requests again: the peer has read."""
        self._peer_reads = True
        asyncio.get_running_loop().call_soon(self.go_on)

    def connection_lost(self, error: Exception | None) -> None:
        """Drop what waits for this connection."""
        self._why = self._why or ""
        self._backlog.clear()
        self._out.clear()
        self._slots.clear()
        self._desk.closed(self, tuple(self._tickets.values()), self._why)
        self._tickets.clear()

    def finish(self) -> None:
        """Start no further request; those in flight are still answered."""
        self._is_finishing = True
        self._backlog.clear()
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def hang_up(self) -> None:
        """Close the connection after the responses that are ready."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection now; what the peer has not read is lost."""
        self._transport.abort()

    def _has_room(self, size_bytes: int) -> bool:
        settings = self._desk.settings
        if (
            not self._peer_reads
            or len(self._slots) >= settings.apportion_connection_max_inflight_requests
        ):
            return False
        return (
            not self._slots
            or self._inflight_bytes + size_bytes <= settings.apportion_connection_max_inflight_bytes
        )

    def _start(self, frame: bytes) -> None:
        try:
            _refuse_swollen(frame)
            incoming = decode_request(frame)
        except DecodeError as error:
            self._why = str(error)
            return
        slot = ResponseSlot(incoming, len(frame))
        self._slots.append(slot)
        self._inflight_bytes += slot.size_bytes
        # ApiVersions from the future is answered in the oldest version, which every client reads
        if incoming.body is None:
            slot.version = 0
            self.answer(slot, api_versions_response(Code.UNSUPPORTED_VERSION))
            return
        caller = self._caller
        if caller.client_id != incoming.client_id:
            caller = self._caller = Caller(incoming.client_id, caller.host)
        ticket = self._desk.ask(self, slot, incoming.body, caller)
        if slot.answer is None:
            self._tickets[slot] = ticket

    def _write(self) -> None:
        out = self._out
        if not out or self._transport.is_closing():
            return
        self._out, self._out_bytes = [], 0
        if len(out) == 1:
            self._transport.write(out[0])
        else:
            self._transport.writelines(out)

    def _close(self, why: str) -> None:
        self._why = why
        self._transport.close()


def _refuse_swollen(frame: bytes) -> None:
    """Raise DecodeError for a request that is far larger than its API can need."""
    if len(frame) > WITHOUT_RECORDS_BYTES and (key := request_header(frame)[0]) != PRODUCE:
        raise DecodeError(
            f"a request of API {key} has {len(frame)} bytes; {WITHOUT_RECORDS_BYTES} are "
            "allowed without records"
        )
