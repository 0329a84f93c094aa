"""One running broker: a listening socket, a data directory, and the Node that answers requests.

The server is the driver's other half: `LoopDriver` feeds the node with events, and the server turns
requests into events and replies into bytes. It decides in which order a start and a stop go.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.coord.metrics import BrokerMetrics, GroupMetrics
from apportion.drive.aio import LoopDriver
from apportion.drive.clocks import now
from apportion.drive.notes import log_note
from apportion.machine import Arrived, Caller, Flush, Flushed, Gone, Note, Reply, Ticket
from apportion.node.authorization.denials import RequestDenied
from apportion.node.bootstrap import NOTHING, BootstrapMetadata
from apportion.node.listeners import Address, host_and_port
from apportion.node.node import Node
from apportion.node.settings import BrokerSettings
from apportion.readable import readable
from apportion.server.closed_connections import ClosedConnectionLog
from apportion.server.counted_lines import SUMMARY_INTERVAL_S
from apportion.server.denied_requests import DeniedRequestLog
from apportion.server.fresh_ids import FreshIds
from apportion.server.idle_connections import IdleConnections
from apportion.server.openings import Openings
from apportion.server.request_receiver import OpenConnection, RespondingConnection, ResponseSlot
from apportion.server.sockets import (
    bind_listeners,
    bind_socket,
    granted_descriptors,
    kept_descriptors,
    leaves_descriptors,
)
from apportion.server.start_warnings import (
    certificate_warnings,
    open_listener_warnings,
    super_user_warnings,
    unchangeable_acl_warnings,
    user_warnings,
)
from apportion.server.stepped_together import STEPPED_TOGETHER
from apportion.server.written_together import WrittenTogether
from apportion.store.files import RealDisk
from apportion.store.metadata_log import ScramCredentials

if TYPE_CHECKING:
    from apportion.server.metrics_listener import MetricsListener

log = logging.getLogger("apportion.server")
ACCEPT_BACKLOG = 1024  # connections that may wait to be accepted, as for listen(2)
# How long a stopping broker waits, in all, for peers to read their last responses.
DRAIN_SECONDS = 2
# Passes of the event loop from an accepted socket to `connection_made`.
ACCEPTING_PASSES = 2
GROUPS_AT_ONCE = 50  # whose metrics are read before the event loop may do other things


class Server:
    """One running broker, on the event loop that calls `start`.

    `start` recovers and then listens; `stop` answers what is in flight and closes the directory.
    """

    def __init__(
        self, settings: BrokerSettings, data_dir: str | Path, bootstrap: BootstrapMetadata = NOTHING
    ) -> None:
        """Keep the settings and the data directory's path; `start` opens it and listens."""
        self.settings = settings
        self._bootstrap = bootstrap
        self._data_dir = data_dir
        self._disk: RealDisk
        self._unanswered: dict[Ticket, tuple[RespondingConnection, ResponseSlot]] = {}
        self._connections: dict[OpenConnection, None] = {}
        self._idle = IdleConnections(self._connections, settings.connections_max_idle_ms)
        self._last_ticket = 0
        self._fresh_ids = FreshIds()
        self._written_together = WrittenTogether()
        self._listening: list[asyncio.Server] = []
        self._stopping = asyncio.Event()
        self._all_closed = asyncio.Event()  # set while no connection is open
        self._all_closed.set()
        self._is_closing = False
        self._failure: Exception | None = None
        self._closed_log = ClosedConnectionLog()
        self._denied_log = DeniedRequestLog()
        self._has_logged_last_counts = False
        self._summary_timer: asyncio.TimerHandle | None = None
        self._metrics_listener: MetricsListener[BrokerMetrics] | None = None
        self.advertised: dict[str, Address] = {}  # by listener, once started
        self.metrics_address: Address | None = None  # where they are read, if they are
        self._openings = Openings(self)
        self._node: Node
        self._driver: LoopDriver

    async def start(self) -> Address:
        """Start the broker: recover its logs, listen, and return the first listener's address.

        Raises DiskError if another broker has the directory or it cannot be used, and OSError if
        an address cannot be bound; the sockets are closed and the directory unlocked again then.
        """
        loop = asyncio.get_running_loop()
        with ExitStack() as undo:
            # The sockets are bound first, so that a wrong address fails at once, and before a new
            # directory is made. Connections are accepted only after recovery.
            bound = bind_listeners(self.settings.listening(), undo)
            listeners = [each.listener for each in bound]
            unguarded = [each.listener for each in bound if each.is_unguarded]
            self._warn(*open_listener_warnings(unguarded, self.settings))
            self._warn(*super_user_warnings(self.settings.super_users))
            # All of them may be accepted at one time, before the first is turned away.
            backlog = min(ACCEPT_BACKLOG, kept_descriptors(granted_descriptors()) // 2)
            openings = [self._openings.begin(each) for each in listeners]
            self._warn(*certificate_warnings(listeners, time.time()))
            metrics_listener = self._bind_metrics(undo)
            self._disk = RealDisk(self._data_dir)
            undo.callback(self._disk.close)
            self._disk.lock()
            self.advertised = {each.listener.name: each.advertised for each in bound}
            self._recover(loop)
            self._warn(*user_warnings(listeners, self.scram_credentials))
            self._warn(*unchangeable_acl_warnings(listeners, self._node.durable, self.settings))
            for each, opening in zip(bound, openings, strict=True):
                listening = await loop.create_server(opening, sock=each.socket, backlog=backlog)
                undo.callback(listening.close)
                self._listening.append(listening)
            if metrics_listener is not None:
                await self._start_metrics(metrics_listener)
            undo.pop_all()
        return self.advertised[bound[0].listener.name]

    async def metrics(self) -> BrokerMetrics:
        """Return the metrics of the broker and of its groups, these in the order of their ids.

        Requests are answered in between: the values of one group are of one moment, those of two
        groups may be of two.
        """
        groups: list[GroupMetrics] = []
        for _, shard in list(self._node.shards()):
            for number, group_id in enumerate(list(shard.ledger.groups), 1):
                group = shard.metrics_or_none(group_id, now())
                if group is not None:
                    groups.append(group)
                if number % GROUPS_AT_ONCE == 0:
                    await asyncio.sleep(0)
        heartbeats = self._node.heartbeats
        return BrokerMetrics(
            heartbeat_budget_per_second=heartbeats.per_second,
            booked_heartbeats=heartbeats.bookings,
            groups=tuple(sorted(groups, key=lambda group: group.group_id)),
        )

    def end(self) -> None:
        """Let `run_until_ended` return. Must be called on the loop's thread."""
        self._stopping.set()

    async def run_until_ended(self) -> None:
        """Run the broker's server, once started, until `end` is called; then stop it.

        Called by the command `apportion serve` and by EmbeddedBroker. Raises the error that made
        the broker unable to go on, if one did.
        """
        await self._stopping.wait()
        await self.stop()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stop the broker: close its connections, make records durable, unlock the directory.

        Requests in flight are answered first; no further ones are read. A peer that does not read
        its responses within DRAIN_SECONDS loses them.
        """
        if self._metrics_listener is not None:
            await self._metrics_listener.stop()
        for listening in self._listening:
            listening.close()
        self._is_closing = True
        self._idle.stop()
        for connection in self._connections:
            connection.stop_reading()  # else a busy client would keep the driver from being idle
        # Every request in flight is answered before a connection is closed: an acknowledged write
        # must be known to its client.
        await self._driver.idle()
        for connection in list(self._connections):
            connection.close_after_writes()
        # After the last response, which may have waited for a flush.
        await self._driver.stop()
        # Nothing writes any more, so another broker may take the directory while peers read their
        # last bytes.
        self._disk.close()
        self._openings.stop()
        await self._close_connections()
        self._has_logged_last_counts = True
        if self._summary_timer is not None:
            self._summary_timer.cancel()
            self._summary_timer = None
            self._log_counts()

    @property
    def scram_credentials(self) -> ScramCredentials:
        """The credentials of SCRAM that clients log in by."""
        return self._node.durable.scram_credentials

    def connection_opened(self, connection: OpenConnection, accepted: socket.socket | None) -> bool:
        """Register a client's connection; return False if there are more than max.connections.

        Or more than leave descriptors for the broker's files. The connection then closes itself,
        and is unregistered when it has closed.
        """
        self._connections[connection] = None
        self._all_closed.clear()
        if self._is_closing:  # accepted before the listener was closed
            connection.stop_reading()
            connection.close_after_writes()
        else:
            self._idle.watch()
        return len(self._connections) <= self._node.settings.max_connections and leaves_descriptors(
            accepted
        )

    def submit(
        self, connection: RespondingConnection, slot: ResponseSlot, request: Any, caller: Caller
    ) -> None:
        """Post a client's request to the node, and remember which connection waits for it."""
        self._last_ticket += 1
        ticket = slot.ticket = Ticket(self._last_ticket)
        self._unanswered[ticket] = (connection, slot)
        arrived = Arrived(ticket, request, slot.version, caller, self._fresh_ids.take())
        (self._driver.post_soon if type(request) in STEPPED_TOGETHER else self._driver.post)(
            arrived
        )

    def write_soon(self, connection: RespondingConnection) -> None:
        """Write a connection's responses, together with the others of the node's step."""
        self._written_together.write_soon(connection)

    def answer_submitted(self) -> None:
        """Have the node step over the requests that wait for others of their pass of the loop."""
        self._driver.post_arrivals()

    def connection_closed(
        self, connection: OpenConnection, tickets: tuple[Ticket, ...], reason: str | None
    ) -> None:
        """Forget a closed connection, and tell the node which of its requests need no answer."""
        self._connections.pop(connection, None)
        if not self._connections:
            self._all_closed.set()
        if reason:
            line = self._closed_log.line_or_none(connection.host, connection.peer, readable(reason))
            if line is not None:
                self._warn(line)
            self._schedule_summary()
        if tickets:
            for ticket in tickets:
                self._unanswered.pop(ticket, None)
            self._driver.post(Gone(tickets))

    def _warn(self, *lines: str) -> None:
        for line in lines:
            log.warning("%s", line)

    def _report_denied(self, denied: RequestDenied) -> None:
        """Log that a request was denied, or count it."""
        line = self._denied_log.line_or_none(denied)
        if line is not None:
            log.info("%s", line)
        self._schedule_summary()

    def _log_counts(self) -> None:
        """Log how many connections were closed, and requests denied, without a line of theirs."""
        self._warn(*self._closed_log.take_summary())
        for line in self._denied_log.take_summary():
            log.info("%s", line)

    def _schedule_summary(self) -> None:
        """Have the server log its counts in a minute, if there are any.

        Does nothing if that is scheduled already.
        """
        has_any = self._closed_log or self._denied_log
        if self._summary_timer is None and has_any and not self._has_logged_last_counts:
            self._summary_timer = asyncio.get_running_loop().call_later(
                SUMMARY_INTERVAL_S, self._log_summary
            )

    def _log_summary(self) -> None:
        """Log the server's counts by host; called by its timer."""
        self._summary_timer = None
        self._log_counts()
        self._schedule_summary()

    async def _close_connections(self) -> None:
        """Wait, while the server stops, until every connection is closed; abort the slow ones.

        A socket that is open when the event loop ends leaks: nothing can close it any more.
        """
        # The event loop may still accept sockets that came before the listener was closed.
        for _ in range(ACCEPTING_PASSES):
            await asyncio.sleep(0)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_closed.wait(), DRAIN_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        await self._all_closed.wait()

    def _bind_metrics(self, undo: ExitStack) -> socket.socket | None:
        """Return a socket bound to `apportion.metrics.listen`; None if that is off."""
        if not self.settings.apportion_metrics_listen:
            return None
        host, port = host_and_port(
            self.settings.apportion_metrics_listen, "apportion.metrics.listen"
        )
        listener = bind_socket(host, port)
        undo.callback(listener.close)
        self.metrics_address = Address(host, listener.getsockname()[1])
        return listener

    async def _start_metrics(self, listener: socket.socket) -> None:
        """Let metrics be read over HTTP."""
        # Imported here: prometheus_client takes 10 ms, and most brokers do without.
        from apportion.server.metrics_listener import MetricsListener
        from apportion.server.prometheus import FORMATS

        self._metrics_listener = MetricsListener(self.metrics, FORMATS, "the ids of all groups")
        await self._metrics_listener.start(listener)
        log.info("metrics are at http://%s/metrics", Address(*listener.getsockname()[:2]))

    def _recover(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create the node from the data directory, and make all that it has read durable."""
        self._node = node = Node(self._disk, self.settings, self.advertised)
        self._driver = LoopDriver(
            node, sync=self._disk.sync, carry_out=self._perform, broken=self._fail, loop=loop
        )
        for action in node.start(now(), self._fresh_ids.take(), self._bootstrap):
            # No client may see records that a crash could still lose, so this flush is waited for;
            # if it fails, the broker does not start.
            if type(action) is Flush:
                self._disk.sync(action.paths)
                self._driver.post(Flushed(action.flush_seq))
            else:
                self._perform([action])

    def _perform(self, actions: list[Any]) -> None:
        """Perform the actions of a step that are not the driver's own: replies and log lines."""
        with self._written_together:
            for action in actions:
                if type(action) is Reply:
                    # None: the connection was closed before its request was answered.
                    if (waiting := self._unanswered.pop(action.ticket, None)) is not None:
                        self._send_response(*waiting, action.body)
                elif type(action) is Note:
                    log_note(log, action)
                elif type(action) is RequestDenied:
                    self._report_denied(action)

    def _fail(self, error: Exception) -> None:
        """End the broker: the driver could not undo a failed step, or the disk has failed."""
        log.error("the broker cannot go on and ends: %r", error)
        self._failure = error
        self._stopping.set()

    def _send_response(
        self, connection: RespondingConnection, slot: ResponseSlot, body: Any
    ) -> None:
        """Send a response; if it cannot be encoded, close that connection alone.

        A response that cannot be encoded is a bug of ours, and other connections must not suffer
        from it.
        """
        try:
            connection.send_response(slot, body)
        except Exception as error:
            log.error(
                "could not answer %s v%d of %s: %r",
                slot.api.name,
                slot.version,
                connection.peer,
                error,
            )
            connection.close_after_writes()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop factory for the broker, if installed; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
