"""The end of idle connections, on which nothing has come or gone for `connections.max.idle.ms`.

A request notes the time and sets no timer: one timer waits for the connection that is idle longest.

The time is read afresh. An event loop may say when its round began, cut to a whole millisecond, and
a connection would be closed before its limit.
"""

import asyncio
import time
from collections.abc import Iterable

from apportion.server.request_receiver import OpenConnection

LOOKS_PER_LIMIT = 20
"""Many connections may become idle one after the other: all are looked at no more often."""


class IdleConnections:
    """The time limit of the idle connections of one server."""

    __slots__ = ("_connections", "_limit_s", "_timer")

    def __init__(self, connections: Iterable[OpenConnection], limit_ms: int) -> None:
        """Begin without a timer.

        connections: those of the server, as they are at any time. limit_ms: negative for none.
        """
        self._connections = connections
        self._limit_s = limit_ms / 1000
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Have the server's connections looked at; called when one is opened."""
        if self._timer is None and self._limit_s >= 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limit_s, self._close_idle)

    def stop(self) -> None:
        """Look no more: the server stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_idle(self) -> None:
        """Close what is idle for too long, and wait for what will be next."""
        self._timer = None
        moment_s = time.monotonic()
        connections = list(self._connections)
        for connection in connections:
            connection.close_if_idle(moment_s - self._limit_s)
        if connections:
            oldest_s = min(connection.last_active_s for connection in connections)
            soonest_s = moment_s + self._limit_s / LOOKS_PER_LIMIT
            # The oldest is infinite while all connections are in their handshakes.
            when_s = min(max(oldest_s + self._limit_s, soonest_s), moment_s + self._limit_s)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(when_s - moment_s, self._close_idle)
