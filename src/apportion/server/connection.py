"""The server's side of one connection: requests start in their order, within limits.

**A request starts when all before it on its connection are answered**, as in Kafka, whose broker
does not read a connection while it has a request of it. So it shows what those before it did, and
what waits (a delayed Fetch, a JoinGroup, a write that is not on the disk) holds up all behind it.

One exception, because a flush takes a thousand times as long as an append: a request of an API in
`SHARES_FLUSH` starts while those before it, all of the same API, wait for the disk. Each of them is
decided by what is appended, durable or not, so none can tell that the others still wait, and one
flush covers them all (`node/flush_gate.py`). The limits are for such a run. Its responses leave in
the order of the requests.

A connection stops reading while the peer does not read, and while requests wait. Bytes that are not
a request close it, with a line in the log.
"""

import asyncio
import logging
import time
from collections import deque
from typing import Any

from apportion.errors import Code, DecodeError
from apportion.machine import ANONYMOUS, Caller, CloseConnection
from apportion.server.closed_transport import CLOSED
from apportion.server.reading import Reading
from apportion.server.request_receiver import (
    PRODUCE,
    SHARES_FLUSH,
    RequestReceiver,
    ResponseSlot,
)
from apportion.server.sockets import peer_of
from apportion.wire.frames import FrameSplitter, request_header
from apportion.wire.repeated_requests import RequestDecoder
from apportion.wire.table import api_versions_response, encode_response

log = logging.getLogger("apportion.server")
# Only Produce may be larger: decoded, the many small parts of another request would take many times
# the memory of its bytes.
MAX_BYTES_WITHOUT_RECORDS = 16 << 20
TLS_HANDSHAKE = b"\x16\x03"
"""How a connection begins whose client speaks TLS; as the size of a request it is too large."""
SPEAKS_TLS = (
    "it speaks TLS, and the listener {0} does not: its client wants security.protocol PLAINTEXT or "
    "SASL_PLAINTEXT, or another listener"
)
IDLE = "nothing came or went for {0} ms (connections.max.idle.ms)"
# Responses that are ready while requests are started, or in one step of the broker, are written
# together, up to this size.
COLLECTED_BYTES = 1 << 16


class ServerConnection(asyncio.Protocol):
    """The asyncio protocol of one client connection."""

    __slots__ = (
        "_caller",
        "_close_reason",
        "_decoder",
        "_frames",
        "_inflight_bytes",
        "_is_collecting",
        "_is_finishing",
        "_most_plain_bytes",
        "_peer_is_reading",
        "_pending",
        "_reading",
        "_receiver",
        "_transport",
        "_unsent_bytes",
        "_unwritten",
        "_unwritten_bytes",
        "_waiting_frames",
        "host",
        "last_active_s",
        "peer",
    )

    def __init__(
        self, receiver: RequestReceiver, listener: str, principal: str = ANONYMOUS
    ) -> None:
        """Begin a client's connection to the broker's server, before asyncio has its transport.

        listener: the name of that which has accepted it. principal: the client's.
        """
        self._receiver = receiver
        self._frames = FrameSplitter(receiver.settings.socket_request_max_bytes)
        self._decoder = RequestDecoder()
        self._waiting_frames: deque[bytes] = deque()  # whole requests that may not start yet
        # requests whose response was not written, oldest first
        self._pending: deque[ResponseSlot] = deque()
        self._inflight_bytes = 0
        self._most_plain_bytes = MAX_BYTES_WITHOUT_RECORDS  # that any request may have
        self._peer_is_reading = True
        self._is_finishing = False
        self._is_collecting = False
        self._unwritten: list[Any] = []
        self._unwritten_bytes = 0
        self._close_reason: str | None = None
        self._caller = Caller("", "", principal, listener)
        self._transport: Any = None
        self._reading: Reading
        self._unsent_bytes = 0  # that the transport had when the connection seemed idle
        self.last_active_s = 0.0
        self.peer = self.host = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the peer's address; close the connection if there are more than max.connections."""
        self._transport = transport
        self._reading = Reading(transport, self._pending, self.abort)
        self.last_active_s = time.monotonic()
        self.host, self.peer = peer_of(transport)
        # With a slash, as Kafka has client hosts in group descriptions (InetAddress.toString).
        self._caller = self._caller._replace(host=f"/{self.host}")
        # Accepted first and closed then: the peer sees a closed connection and no hanging connect.
        if not self._receiver.connection_opened(self, transport.get_extra_info("socket")):
            self._close("there are too many connections")

    def data_received(self, data: bytes) -> None:
        """Split bytes of a client into requests, and start as many as the limits allow."""
        self.last_active_s = time.monotonic()
        if self._is_finishing:
            return
        try:
            self._waiting_frames.extend(self._frames.feed(data))
        except DecodeError as error:
            self._receiver.answer_submitted()
            speaks_tls = data.startswith(TLS_HANDSHAKE)
            self._close(SPEAKS_TLS.format(self._caller.listener) if speaks_tls else str(error))
        self.start_requests()

    def start_requests(self) -> None:
        """Start the client's waiting requests as far as the limits allow, and write the responses.

        While a request must wait, the socket is not read: TCP's flow control stops the client.
        """
        if self._is_finishing or self._transport.is_closing():
            return
        waiting_frames = self._waiting_frames
        self._is_collecting = True
        while (
            waiting_frames
            and self._may_start(waiting_frames[0])
            # After a frame that is no request, where the next one begins is a guess.
            and self._close_reason is None
        ):
            self._start(waiting_frames.popleft())
            if self._unwritten_bytes >= COLLECTED_BYTES:
                self._write()  # may call pause_writing: then no further request starts
        self._is_collecting = False
        if self._unwritten:
            self._write()
        if self._close_reason is not None:
            self._close_transport()
        # One of these requests may have had `stop_reading` called.
        elif not self._is_finishing and self._reading.is_on is bool(waiting_frames):
            self._reading.switch(not waiting_frames)

    def send_response(self, slot: ResponseSlot, body: Any) -> None:
        """Send a response to the client after those of all its earlier requests.

        body: for Produce with acks=0, None or a `CloseConnection`.
        """
        slot.ticket = None
        if self._transport.is_closing():
            return  # written or not, it would take memory, and let the next request start
        if type(body) is CloseConnection:
            slot.close_reason, body = body.why, None
            self._start_no_more()
        slot.encoded = (
            []
            if body is None
            else encode_response(slot.api, slot.version, slot.correlation_id, body)
        )
        # Clients match responses to requests by their order: one that is ready waits for those
        # before it.
        pending = self._pending
        while pending and pending[0].encoded is not None and self._close_reason is None:
            ready = pending.popleft()
            self._close_reason = ready.close_reason
            for part in ready.encoded or ():
                self._unwritten.append(part)
                self._unwritten_bytes += len(part)
            self._inflight_bytes -= ready.size_bytes
        if not self._is_collecting:
            if self._unwritten_bytes >= COLLECTED_BYTES:
                self._write()
            self._receiver.write_soon(self)

    def write_responses(self) -> None:
        """Write the responses that are ready to the client; then close if one of them says so.

        If none does, start the client's waiting requests soon.
        """
        self._write()
        if self._close_reason is not None:
            self._close_transport()
        elif self._waiting_frames:
            # Not at once: this may be called while the node's actions are performed.
            asyncio.get_running_loop().call_soon(self.start_requests)

    def pause_writing(self) -> None:
        """Start no further request: the peer does not read fast enough (asyncio's callback)."""
        self._peer_is_reading = False

    def resume_writing(self) -> None:
        """Start the client's requests again: it has read its responses (asyncio's callback)."""
        self._peer_is_reading = True
        asyncio.get_running_loop().call_soon(self.start_requests)

    def connection_lost(self, _error: Exception | None) -> None:
        """Drop everything that waits for this client's connection, which is closed (asyncio)."""
        self._close_reason = self._close_reason or ""  # "": the peer closed, or the server stops
        self._reading.stop()
        self._waiting_frames.clear()
        self._unwritten.clear()
        tickets = tuple(slot.ticket for slot in self._pending if slot.ticket is not None)
        self._pending.clear()
        self._transport = CLOSED
        self._receiver.connection_closed(self, tickets, self._close_reason)

    def stop_reading(self) -> None:
        """Start no further request of the client; the broker still answers those in flight.

        Called when the server stops.
        """
        self._is_finishing = True
        self._waiting_frames.clear()
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def close_after_writes(self) -> None:
        """Close the connection after the responses that are ready."""
        self._write()
        self._transport.close()

    def abort(self, reason: str = "") -> None:
        """Close the connection now; what the peer has not read is lost."""
        self._close_reason = self._close_reason or reason
        self._transport.abort()

    def close_if_idle(self, since_s: float) -> None:
        """Close the connection if nothing has come or gone since then.

        As in Kafka, also if the client waits for an answer: it may have gone without a word. A
        response that is not read counts as going at the first look after it was written.
        """
        if self.last_active_s > since_s:
            return
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes != self._unsent_bytes:  # the client takes a long response bit by bit
            self._unsent_bytes = unsent_bytes
            self.last_active_s = time.monotonic()
            return
        reason = IDLE.format(self._receiver.settings.connections_max_idle_ms)
        (self.abort if unsent_bytes else self._close)(reason)

    def _start_no_more(self) -> None:
        """Do nothing that comes behind a refused request, however long its response has to wait.

        The socket is read on: the end of a peer that goes away meanwhile would not be noticed.
        """
        self._is_finishing = True
        self._waiting_frames.clear()
        if not self._transport.is_closing():
            self._reading.switch(True)

    def _may_start(self, frame: bytes) -> bool:
        """Return whether the connection's order and limits allow to start a request.

        If no other request of the connection is in flight, one of any size is allowed.
        """
        if not self._peer_is_reading or not self._pending:
            return self._peer_is_reading
        key = self._pending[-1].api.key
        settings = self._receiver.settings
        return (
            key in SHARES_FLUSH
            and key == int.from_bytes(frame[:2], "big")
            and len(self._pending) < settings.apportion_connection_max_inflight_requests
            and self._inflight_bytes + len(frame)
            <= settings.apportion_connection_max_inflight_bytes
        )

    def _start(self, frame: bytes) -> None:
        """Decode one request of the client and submit it to the server.

        Bytes that are no request make the server close the connection.
        """
        try:
            if len(frame) > self._most_plain_bytes:
                self._refuse_undecoded(frame)
            incoming = self._decoder.decode(frame)
        except DecodeError as error:
            self._receiver.answer_submitted()  # the requests before these bytes
            self._close_reason = self._close_reason or str(error)
            return
        slot = ResponseSlot(incoming, len(frame))
        self._pending.append(slot)
        self._inflight_bytes += slot.size_bytes
        # KIP-511: an ApiVersions request of a version that we do not know is answered in version 0,
        # which every client can read, with UNSUPPORTED_VERSION and the versions that we know.
        if incoming.body is None:
            slot.version = 0
            self.send_response(slot, api_versions_response(Code.UNSUPPORTED_VERSION))
            return
        caller = self._caller
        if caller.client_id != incoming.client_id:
            caller = self._caller = caller._replace(client_id=incoming.client_id)
        self._receiver.submit(self, slot, incoming.body, caller)

    def _refuse_undecoded(self, frame: bytes) -> None:
        """Raise DecodeError for a large request that must not even be decoded.

        That is one other than Produce that is larger than the server allows.
        """
        if len(frame) > MAX_BYTES_WITHOUT_RECORDS and (key := request_header(frame)[0]) != PRODUCE:
            raise DecodeError(
                f"a request of API {key} has {len(frame)} bytes; {MAX_BYTES_WITHOUT_RECORDS} are "
                "allowed without records"
            )

    def _write(self) -> None:
        """Write the encoded responses that are collected for the client to its socket.

        If that fails, end this connection: the requests of others must be answered.
        """
        parts = self._unwritten
        if not parts or self._transport.is_closing():
            return
        self._unwritten, self._unwritten_bytes = [], 0
        self.last_active_s = time.monotonic()
        try:
            # writelines joins its parts, a copy that one part does not need.
            if len(parts) == 1:
                self._transport.write(parts[0])
            else:
                self._transport.writelines(parts)
        except Exception as error:
            log.error("could not write to %s: %r", self.peer, error)
            self.abort()

    def _close(self, reason: str) -> None:
        self._close_reason = reason
        self._close_transport()

    def _close_transport(self) -> None:
        """Close the connection once the peer has taken what was written."""
        self._transport.close()
