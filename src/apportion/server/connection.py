"""One client's connection: frames in, answers out in the order of the requests, and a limit on what may be under way.

A connection stops reading while the peer does not read, while it has too many requests or bytes under way, and starts again when
that is over. Bytes that mean nothing close it, with one line in the log. It refuses to know what a request means.
"""

import asyncio
from collections import deque
from typing import Any, Protocol

from apportion.errors import Code, DecodeError
from apportion.machine import Caller, Ticket
from apportion.node.settings import BrokerSettings
from apportion.wire.frames import FrameSplitter, request_header
from apportion.wire.table import Api, DecodedRequest, api_versions_response, decode_request, encode_response

WITHOUT_RECORDS_BYTES = 16 << 20  # no request but Produce is larger: read, its small parts take many times their size
PRODUCE = 0
GATHERED_BYTES = 1 << 16  # answers to a burst of requests go out together, up to this size


class ResponseSlot:
    """The place of one request in the order of answers."""

    __slots__ = ("answer", "api", "correlation_id", "size_bytes", "version")

    def __init__(self, incoming: DecodedRequest, size_bytes: int) -> None:
        self.api: Api = incoming.api
        self.version = incoming.version
        self.correlation_id = incoming.correlation_id
        self.size_bytes = size_bytes
        self.answer: list[Any] | None = None


class RequestReceiver(Protocol):
    """Where connections hand in their requests."""

    settings: BrokerSettings

    def opened(self, connection: "ServerConnection") -> bool:
        """The connection is counted; False if there are too many and it must close."""
        ...

    def ask(self, connection: "ServerConnection", slot: ResponseSlot, request: Any, caller: Caller) -> Ticket:
        """The request is on its way; `connection.answer(slot, body)` will be called once, perhaps before this returns."""
        ...

    def closed(self, connection: "ServerConnection", tickets: tuple[Ticket, ...], why: str | None) -> None:
        """The connection is gone and waits for none of these; `why` if it was the peer's bytes."""
        ...


class ServerConnection(asyncio.Protocol):
    """See the module."""

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
        self._slots: deque[ResponseSlot] = deque()  # requests without an answer on its way, oldest first
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
        """The peer is known, and may be too many."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        host = peer[0] if isinstance(peer, tuple) and peer else "?"
        self.host = str(host)
        self.peer = f"{host}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else host
        self._caller = Caller("", f"/{host}")
        if not self._desk.opened(self):
            self._close("there are too many connections")

    def data_received(self, data: bytes) -> None:
        """Whole requests among `data` are on their way, as far as the limits allow."""
        try:
            self._backlog.extend(self._frames.feed(data))
        except DecodeError as error:
            self._close(str(error))
        self.go_on()

    def go_on(self) -> None:
        """Waiting frames have started as far as the limits allow, and what could be answered at once is answered."""
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
            (self._transport.resume_reading if self._is_reading else self._transport.pause_reading)()

    def answer(self, slot: ResponseSlot, body: Any) -> None:
        """The answer to that request goes out after those of the requests before it; None: the request wants none."""
        self._tickets.pop(slot, None)
        slot.answer = [] if body is None else encode_response(slot.api, slot.version, slot.correlation_id, body)
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
        """The peer does not read fast enough: no further request is started."""
        self._peer_reads = False

    def resume_writing(self) -> None:
        """The peer has read: requests start again."""
        self._peer_reads = True
        asyncio.get_running_loop().call_soon(self.go_on)

    def connection_lost(self, error: Exception | None) -> None:
        """Nobody waits for the answers any more."""
        self._why = self._why or ""
        self._backlog.clear()
        self._out.clear()
        self._slots.clear()
        self._desk.closed(self, tuple(self._tickets.values()), self._why)
        self._tickets.clear()

    def finish(self) -> None:
        """No further request is started; those under way are still answered."""
        self._is_finishing = True
        self._backlog.clear()
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def hang_up(self) -> None:
        """What is answered goes out; the connection closes after it."""
        self._transport.close()

    def abort(self) -> None:
        """The connection closes now; what the peer has not read is lost."""
        self._transport.abort()

    def _has_room(self, size_bytes: int) -> bool:
        settings = self._desk.settings
        if not self._peer_reads or len(self._slots) >= settings.apportion_connection_max_inflight_requests:
            return False
        return not self._slots or self._inflight_bytes + size_bytes <= settings.apportion_connection_max_inflight_bytes

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
        if incoming.body is None:  # ApiVersions from the future is answered in the oldest version, which every client reads
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
    """DecodeError for a request that is far larger than anything that its API needs."""
    if len(frame) > WITHOUT_RECORDS_BYTES and (key := request_header(frame)[0]) != PRODUCE:
        raise DecodeError(f"a request of API {key} has {len(frame)} bytes; {WITHOUT_RECORDS_BYTES} are allowed without records")
