"""The reading of a client's socket: while requests must wait, TCP's flow control stops the client.

The end of a client that hangs up comes behind its bytes, and would not be noticed while they are
not read: its requests, which may wait for days, and its connection would stay. So a socket that is
not read is looked at once a second.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from apportion.server.closed_transport import CLOSED
from apportion.server.request_receiver import SHARES_FLUSH, ResponseSlot
from apportion.server.sockets import has_hung_up

LOOK_SECONDS = 1
HUNG_UP = "it hung up before it had its answers"


class Reading:
    """The reading of one client's socket.

    A client that hangs up loses what it has sent and what it has not read, if for a second none of
    its requests was answered and it has taken nothing. A request that waits for the disk alone is
    answered soon, and is no reason: a producer with acks=0 may close when it has sent its last
    record, and all are stored, as in Kafka.
    """

    __slots__ = ("_abort", "_pending", "_timer", "_transport", "is_on")

    def __init__(
        self, transport: Any, pending: Sequence[ResponseSlot], abort: Callable[[str], None]
    ) -> None:
        """Begin with a socket that is read.

        pending: the requests that have no answer yet, oldest first, as they are at any time. abort:
        closes the connection now, for a reason.
        """
        self._abort = abort
        self._transport: Any = transport
        self._pending = pending
        self.is_on = True
        self._timer: asyncio.TimerHandle | None = None

    def switch(self, is_on: bool) -> None:
        """Read the socket from now on, or leave the client's bytes in it."""
        if is_on == self.is_on:
            return
        self.is_on = is_on
        if is_on:
            self._transport.resume_reading()
            return
        self._transport.pause_reading()
        # One that has paused many times within a second is looked at once.
        if self._timer is None:
            self._look_later()

    def stop(self) -> None:
        """Look no more: the connection has closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Both refer to the connection, which refers to this.
        self._transport, self._abort = CLOSED, _nobody

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LOOK_SECONDS, self._close_if_hung_up, *self._awaited())

    def _awaited(self) -> tuple[ResponseSlot | None, int]:
        """Return the oldest request without an answer, and how many bytes are not sent."""
        oldest = self._pending[0] if self._pending else None
        return oldest, self._transport.get_write_buffer_size()

    def _close_if_hung_up(self, oldest: ResponseSlot | None, unsent_bytes: int) -> None:
        """Close a connection whose client has gone.

        oldest, unsent_bytes: what was awaited a second ago.
        """
        self._timer = None
        if self.is_on or self._transport.is_closing():
            return
        is_awaiting = unsent_bytes > 0 if oldest is None else oldest.api.key not in SHARES_FLUSH
        is_stuck = is_awaiting and self._awaited() == (oldest, unsent_bytes)
        if is_stuck and has_hung_up(self._transport.get_extra_info("socket")):
            # Not `close`, which waits for a peer that may never read its responses.
            self._abort(HUNG_UP)
        else:
            self._look_later()


def _nobody(_reason: str) -> None:
    """Do nothing: the connection has closed."""
