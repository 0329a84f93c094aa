"""TLS between a client's socket and its `ServerConnection`, which knows nothing of it.

asyncio's own TLS closes a connection whose handshake failed without the alert that says why, so a
client would take a wrong certificate for a broker that stops. Here the alert is sent, and what a
client can make the broker hold before it has authenticated is bounded.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf
from typing import Any

from apportion.node.listeners import ListenerTls
from apportion.server.closed_transport import CLOSED
from apportion.server.request_receiver import RequestReceiver
from apportion.server.sockets import peer_of
from apportion.server.tls import ClientUnnamed, handshake_fault, is_no_tls, tls_principal

READ_BYTES = 1 << 14  # as many as one record of TLS has
PLAIN_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
"""The alert to a client that speaks no TLS, for which OpenSSL has none: of its protocol version. By
it a client of Kafka sees that the listener speaks TLS.
"""
ALERT_SECONDS = 1  # for how long a client may read why its handshake failed

AfterHandshake = Callable[[str, float], asyncio.Protocol]
"""Returns the connection of a client with this principal, and the loop's time at which it must have
authenticated. It takes the `TlsConnection` for its transport.
"""


class TlsConnection(asyncio.Protocol):
    """The TLS of one client connection: the protocol of its socket, the transport of what is above.

    Until the handshake is over it is counted as a connection itself.
    """

    __slots__ = (
        "_above",
        "_after_handshake",
        "_close_reason",
        "_deadline_s",
        "_incoming",
        "_is_ending",
        "_is_paused_above",
        "_listener",
        "_outgoing",
        "_peer_is_reading",
        "_receiver",
        "_settings",
        "_timer",
        "_tls",
        "_transport",
        "host",
        "last_active_s",
        "peer",
    )

    def __init__(
        self,
        receiver: RequestReceiver,
        listener: str,
        tls: tuple[ListenerTls, ssl.SSLContext],
        after_handshake: AfterHandshake,
    ) -> None:
        """Begin a client's connection to a listener of that name, before asyncio has its transport.

        tls: its settings, and the context that was made of them.
        """
        self._receiver = receiver
        self._listener = listener
        self._settings, context = tls
        self._after_handshake = after_handshake
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._above: asyncio.Protocol | None = None  # once the handshake is over
        self._close_reason = ""
        self._is_ending = False
        self._is_paused_above = False
        self._peer_is_reading = True
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_s = 0.0
        self._transport: Any = None
        self.last_active_s = inf  # the handshake has a time limit of its own
        self.peer = self.host = "?"

    # The protocol of the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the peer's address, and when its handshake must be over (asyncio's callback)."""
        self._transport = transport
        self.host, self.peer = peer_of(transport)
        loop = asyncio.get_running_loop()
        timeout_ms = self._receiver.settings.apportion_authentication_timeout_ms
        self._deadline_s = loop.time() + timeout_ms / 1000
        self._timer = loop.call_at(self._deadline_s, self._overdue)
        if not self._receiver.connection_opened(self, transport.get_extra_info("socket")):
            # At once: no alert is there to be read, and the socket is one too many.
            self._close_reason = "there are too many connections"
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Decrypt bytes of a client, or go on with its handshake (asyncio's callback)."""
        if self._is_ending:
            return
        self._incoming.write(data)
        if self._above is None:
            self._shake_hands()
        if self._above is not None and not self._is_ending:
            self._deliver()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read (asyncio's callback).

        TLS itself answers some of what a client sends, which would pile up.
        """
        self._peer_is_reading = False
        self._read_or_pause()
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """Go on with a client that reads again (asyncio's callback)."""
        self._peer_is_reading = True
        self._read_or_pause()
        if self._above is not None:
            self._above.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the client's connection, which is closed (asyncio's callback)."""
        self._is_ending = True
        self._stop_timer()
        if self._above is None:
            self._receiver.connection_closed(self, (), self._close_reason)
        else:
            self._above.connection_lost(error)
        self._transport = CLOSED

    # The transport of the connection above.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what asyncio knows of the socket."""
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether nothing can be written any more."""
        return self._is_ending or bool(self._transport.is_closing())

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes the socket has not taken."""
        return int(self._transport.get_write_buffer_size())

    def write(self, data: Any) -> None:
        """Encrypt and send bytes."""
        self.writelines((data,))

    def writelines(self, parts: Iterable[Any]) -> None:
        """Encrypt and send bytes."""
        if self._is_ending:
            return
        try:
            for part in parts:
                rest = memoryview(part).cast("B")
                while rest:
                    rest = rest[self._tls.write(rest) :]
        except ssl.SSLError:  # the client has ended TLS
            self.abort()
        else:
            self._flush()

    def pause_reading(self) -> None:
        """Leave the client's bytes in its socket."""
        self._is_paused_above = True
        self._read_or_pause()

    def resume_reading(self) -> None:
        """Read the client's bytes again."""
        self._is_paused_above = False
        self._read_or_pause()

    def close(self) -> None:
        """Close the connection after what was written; the client is told that this is the end."""
        if self._is_ending:
            return
        self._is_ending = True
        with suppress(ssl.SSLError):  # it would wait for the client's own end
            self._tls.unwrap()
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection now; what the peer has not read is lost."""
        self._is_ending = True
        self._transport.abort()

    # The part of a connection that the server uses while there is none above.

    def stop_reading(self) -> None:
        """Give up the handshake: the server stops."""
        self.abort()

    def close_after_writes(self) -> None:
        """Give up the handshake: the server stops."""
        self.abort()

    def close_if_idle(self, since_s: float) -> None:
        """Leave the handshake to its own time limit."""

    def _shake_hands(self) -> None:
        """Go on with the handshake as far as the client's bytes allow."""
        try:
            self._tls.do_handshake()
            principal = tls_principal(self._tls, self._settings)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            if is_no_tls(error) and not self._outgoing.pending:
                self._outgoing.write(PLAIN_ALERT)
            self._flush()  # the alert
            self._end(handshake_fault(error, self._listener))
        except ClientUnnamed as error:
            self._end(str(error))
        else:
            self._flush()
            self._stop_timer()
            self._receiver.connection_closed(self, (), "")
            self._above = self._after_handshake(principal, self._deadline_s)
            self._above.connection_made(self)  # type: ignore[arg-type]

    def _deliver(self) -> None:
        """Decrypt what has come, and hand it to the connection above."""
        assert self._above is not None, "the handshake is over"
        received, is_end = [], False
        try:
            # Another read that finds nothing would cost an exception, for every request.
            while not is_end and (self._incoming.pending or self._tls.pending()):
                received.append(self._tls.read(READ_BYTES))
                is_end = not received[-1]
        except ssl.SSLWantReadError:  # a part of a record
            pass
        except ssl.SSLError:  # the client has ended TLS, or sends what is none
            is_end = True
        self._flush()
        if any(received):
            self._above.data_received(b"".join(received))
        if is_end:
            self.close()

    def _flush(self) -> None:
        """Send what TLS has to send."""
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def _read_or_pause(self) -> None:
        """Have the socket read if neither side has a reason against it."""
        if self._transport.is_closing():
            return
        if self._peer_is_reading and not self._is_paused_above:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _overdue(self) -> None:
        timeout_ms = self._receiver.settings.apportion_authentication_timeout_ms
        self._close_reason = (
            f"its TLS handshake has not ended within {timeout_ms} ms "
            "(apportion.authentication.timeout.ms)"
        )
        self.abort()

    def _end(self, reason: str) -> None:
        """End a connection without a handshake; the client has a moment to read the alert.

        Bytes of the client that nobody has read would make the system drop the alert.
        """
        self._close_reason = reason
        self._is_ending = True
        self._stop_timer()
        self._transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(ALERT_SECONDS, self._transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
