"""A broker on a socket: one data directory, one Node, one loop."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from apportion.drive.aio import LoopDriver
from apportion.drive.clocks import now
from apportion.machine import Arrived, Caller, Flush, Flushed, Gone, Note, Reply, Ticket
from apportion.node.broker import Address
from apportion.node.node import Node
from apportion.node.settings import BrokerSettings, host_and_port
from apportion.readable import readable
from apportion.server.closed_connections import SUMMARY_INTERVAL_S, ClosedConnectionLog
from apportion.server.connection import ResponseSlot, ServerConnection
from apportion.store.files import RealDisk

LOG = logging.getLogger("apportion.server")
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FRESH_BYTES = 16
BACKLOG = 1024  # connections that may wait to be accepted
# how long a stopping broker waits, in all, for peers to read what they were answered
DRAIN_SECONDS = 2
ACCEPTING_PASSES = 2  # of the loop, from a connection that is accepted to one that is opened


class Server:
    """One running broker. `start` recovers, then listens; `stop` answers what can be answered and
    leaves a clean directory.
    """

    def __init__(self, settings: BrokerSettings, data_dir: str | Path) -> None:
        self.settings = settings
        self._disk = RealDisk(data_dir)
        self._waiting: dict[Ticket, tuple[ServerConnection, ResponseSlot]] = {}
        self._connections: dict[ServerConnection, None] = {}
        self._last_ticket = 0
        self._random = b""
        self._random_at = 0
        self._listener: asyncio.Server | None = None
        self._stopping = asyncio.Event()
        self._unconnected = asyncio.Event()  # no connection is open
        self._unconnected.set()
        self._is_deaf = False  # who connects is not served any more
        self._failure: Exception | None = None
        self._closings = ClosedConnectionLog()
        self._has_counted = False  # for the last time
        self._next_count: asyncio.TimerHandle | None = None
        self._driver: LoopDriver

    async def start(self) -> Address:
        """The broker has recovered and listens; the address that clients may use.

        Errors: DiskError when another broker has the directory or it cannot be used, OSError when
        the address cannot be had; the directory is free again then.
        """
        loop = asyncio.get_running_loop()
        self._disk.lock()
        with ExitStack() as undo:
            undo.callback(self._disk.close)
            host, port = host_and_port(self.settings.listeners)
            bound = bound_socket(host, port)
            undo.callback(bound.close)
            address = advertised(self.settings, host, bound.getsockname()[1])
            self._recover(address, loop)
            self._listener = await loop.create_server(
                lambda: ServerConnection(self), sock=bound, backlog=BACKLOG
            )
            undo.pop_all()
        return address

    def end(self) -> None:
        """`run_until_ended` returns. To be called on the loop's thread."""
        self._stopping.set()

    async def run_until_ended(self) -> None:
        """The broker has served until `end`, and stopped. What made it unable to go on, if anything
        did, is raised.
        """
        await self._stopping.wait()
        await self.stop()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Nothing is accepted, every connection is closed, everything written is on the disk, and
        the directory is free.

        What peers were answered goes out first, but for those that need longer than DRAIN_SECONDS
        to read it. What else they asked is not read.
        """
        if self._listener is not None:
            self._listener.close()
        self._is_deaf = True
        for connection in self._connections:
            connection.finish()  # or a busy client would keep the disk busy for ever
        await self._driver.idle()
        for connection in list(self._connections):
            connection.hang_up()
        await self._driver.stop()
        self._disk.close()
        await self._drain()
        self._has_counted = True
        if self._next_count is not None:
            self._next_count.cancel()
            self._next_count = None
            self._warn(*self._closings.counted())

    def opened(self, connection: ServerConnection) -> bool:
        """See Desk."""
        self._connections[connection] = None
        self._unconnected.clear()
        if self._is_deaf:
            connection.finish()
            connection.hang_up()
        return len(self._connections) <= self.settings.max_connections

    def ask(
        self, connection: ServerConnection, slot: ResponseSlot, request: Any, caller: Caller
    ) -> Ticket:
        """See Desk."""
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        self._waiting[ticket] = (connection, slot)
        self._driver.post(Arrived(ticket, request, slot.version, caller, self._fresh()))
        return ticket

    def closed(
        self, connection: ServerConnection, tickets: tuple[Ticket, ...], why: str | None
    ) -> None:
        """See Desk."""
        self._connections.pop(connection, None)
        if not self._connections:
            self._unconnected.set()
        if why:
            line = self._closings.line_or_none(connection.host, connection.peer, readable(why))
            if line is not None:
                self._warn(line)
            self._count_in_a_minute()
        if tickets:
            for ticket in tickets:
                self._waiting.pop(ticket, None)
            self._driver.post(Gone(tickets))

    def _warn(self, *lines: str) -> None:
        for line in lines:
            LOG.warning("%s", line)

    def _count_in_a_minute(self) -> None:
        """Have what is closed from now on counted in the log in a minute; a server that has stopped
        counts no more.
        """
        if self._next_count is None and self._closings and not self._has_counted:
            self._next_count = asyncio.get_running_loop().call_later(
                SUMMARY_INTERVAL_S, self._count_closings
            )

    def _count_closings(self) -> None:
        self._next_count = None
        self._warn(*self._closings.counted())
        self._count_in_a_minute()

    async def _drain(self) -> None:
        """No connection is left: a loop that ends under an open one cannot close it any more."""
        for _ in range(ACCEPTING_PASSES):
            await asyncio.sleep(0)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._unconnected.wait(), DRAIN_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        await self._unconnected.wait()

    def _recover(self, address: Address, loop: asyncio.AbstractEventLoop) -> None:
        """The node is as the disk says, and everything that it could tell of is durable."""
        node = Node(self._disk, self.settings, address)
        self._driver = LoopDriver(
            node, sync=self._disk.sync, carry_out=self._carry_out, broken=self._break, loop=loop
        )
        for action in node.start(now(), self._fresh()):
            # nobody is served before this is on the disk, and there is no start if it cannot be
            if type(action) is Flush:
                self._disk.sync(action.paths)
                self._driver.post(Flushed(action.flush_seq))
            else:
                self._carry_out(action)

    def _carry_out(self, action: Any) -> None:
        if type(action) is Reply:
            place = self._waiting.pop(action.ticket, None)
            if place is not None:
                self._answer(place[0], place[1], action.body)
        elif type(action) is Note:
            LOG.log(LEVELS[action.level], "%s", readable(action.text))

    def _break(self, error: Exception) -> None:
        LOG.error("the broker cannot go on and ends: %r", error)
        self._failure = error
        self._stopping.set()

    def _answer(self, connection: ServerConnection, slot: ResponseSlot, body: Any) -> None:
        """The answer is on its way. One that cannot be written is our mistake: it costs that
        connection and nothing else.
        """
        try:
            connection.answer(slot, body)
        except Exception as error:
            LOG.error(
                "could not answer %s v%d of %s: %r",
                slot.api.name,
                slot.version,
                connection.peer,
                error,
            )
            connection.hang_up()

    def _fresh(self) -> bytes:
        """16 random bytes, drawn from the system a page at a time."""
        start = self._random_at
        if start == len(self._random):
            self._random, start = os.urandom(256 * FRESH_BYTES), 0
        self._random_at = start + FRESH_BYTES
        return self._random[start : self._random_at]


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop where it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that has the address but does not listen yet. OSError that names the address."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setblocking(False)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound


def advertised(settings: BrokerSettings, host: str, port: int) -> Address:
    """What clients are told: advertised.listeners, else the bound address, else (bound to all) this
    machine's name.
    """
    if settings.advertised_listeners:
        return Address(*host_and_port(settings.advertised_listeners))
    return Address(socket.gethostname() if host in ("0.0.0.0", "::") else host, port)
