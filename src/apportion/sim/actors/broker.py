"""The broker as a process: a real Node on a disk that may lose its power, with connections that answer in order.

This is the simulator's driver of a Node: it performs actions and posts events, and holds no rule. A flush takes time; what it is
about reaches the disk at its beginning or at its end, as the dice say, for a crash in between may find either.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apportion.coord.config import GroupSettings
from apportion.machine import Arrived, Flush, Flushed, FlushFailed, Gone, Note, Reply, Tick, Ticket
from apportion.node.broker import Address
from apportion.node.node import Node
from apportion.node.settings import BrokerSettings
from apportion.sim.kernel.clock import Alarm, Process, World
from apportion.sim.kernel.network import DOWN, Connection, Line, Link, answer_through_bytes
from apportion.sim.kernel.outcome import LawBroken
from apportion.store.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from apportion.sim.checks.checker import Watch

HERE = Address("broker", 9092)
LAST_FLUSH_US = 1_500_000  # a disk that dies takes its time


class Asked:
    """A request that the broker has read and not answered. since_ms: of the broker's clock."""

    __slots__ = ("connection", "line", "link", "request", "since_ms", "version")

    def __init__(self, connection: Connection, link: Link, request: Any, version: int, line: Line, since_ms: int) -> None:
        self.connection = connection
        self.link = link
        self.request = request
        self.version = version
        self.line = line
        self.since_ms = since_ms


class Broker(Process):
    """One broker, and the watch that sees each of its steps and answers.

    asked: the requests whose tickets are not spent. is_listening: it has recovered, and its recovery is on the disk.
    """

    def __init__(self, world: World, watch: "Watch") -> None:
        super().__init__(world, "broker")
        self.watch = watch
        self.disk = MemoryDisk()
        self.settings = settings_of(world)
        self.node: Node | None = None
        self.is_listening = False
        self.asked: dict[Ticket, Asked] = {}
        self.refusals = 0
        self.crashes = 0
        self.doom: Callable[[], None] | None = None  # what happens in the middle of the next flush
        self._tickets = 0
        self._gone: dict[Ticket, bool] = {}  # not answered when their connection closed
        self._is_flushing = False
        self._was_refused = False  # the last flush that ended was: the node pauses before the next
        self._is_silent = False  # while it is down, its host does not even refuse connections
        self._alarm = Alarm(self, self._rings)
        self._tick = Tick()

    def start(self) -> None:
        """The broker reads what its disk has, and listens when that is flushed."""
        self.starts()
        self.world.say(self.name, "starts")
        self.refusals = 0
        self.doom = None
        self._is_flushing = self._was_refused = False
        self._alarm = Alarm(self, self._rings)
        self.node = Node(self.disk, self.settings, HERE)
        actions = self.node.start(self.now(), self.dice.randbytes(16))
        self.is_listening = not any(type(action) is Flush for action in actions)
        self.watch.stepped(None)
        self._perform(actions)

    def crash(self, tear_bytes: int | None, resets: bool) -> None:
        """The broker is dead; its disk has what was flushed, and perhaps a torn end.

        resets: its host says so to every application; otherwise they learn it by waiting in vain.
        """
        self.world.say(self.name, f"crashes, tearing {tear_bytes} bytes" if tear_bytes is not None else "crashes")
        self.crashes += 1
        self.ends()
        self.node, self.is_listening = None, False
        self.disk = self.disk.crash(tear_bytes)
        asked, self.asked = self.asked, {}
        self._gone.clear()
        self._is_silent = not resets
        if resets:
            for each in asked.values():
                each.link.send(DOWN, each.connection, each.connection.lost, each.connection)

    def receive(self, connection: Connection, link: Link, request: Any, version: int, line: Line) -> None:
        """A request has come to the broker's host over `connection`."""
        if not connection.is_open:
            return  # given up while it was under way
        if connection.broker_life is None:
            connection.broker_life = self.life
        if not self.is_up and self._is_silent:
            return
        if not self.is_listening or connection.broker_life != self.life:
            link.send(DOWN, connection, connection.lost, connection)
        else:
            self.hear(self.life, self._read, connection, link, request, version, line)

    def closed(self, connection: Connection) -> None:
        """The application has closed its end."""
        if connection.broker_life == self.life:
            self.hear(self.life, self._closed, connection)

    def _read(self, connection: Connection, link: Link, request: Any, version: int, line: Line) -> None:
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self.asked[ticket] = Asked(connection, link, request, version, line, self.mono_ms())
        connection.order.append(ticket)
        self._step(Arrived(ticket, request, version, line.caller, self.dice.randbytes(16)))

    def _closed(self, connection: Connection) -> None:
        tickets = tuple(ticket for ticket in connection.order if ticket in self.asked)
        for ticket in tickets:
            del self.asked[ticket]
            self._gone[ticket] = True
        connection.order.clear()
        connection.answers.clear()
        self._step(Gone(tickets))

    def _rings(self) -> None:
        assert self.node is not None
        wake_ms = self.node.wake_at()
        if wake_ms is not None and wake_ms <= self.mono_ms():
            self._step(self._tick)
        else:
            self._alarm.set(wake_ms)

    def _step(self, event: Any) -> None:
        assert self.node is not None
        self.watch.before(event)
        actions = self.node.step(event, self.now())
        self.watch.stepped(event)
        self._perform(actions)

    def _perform(self, actions: list[Any]) -> None:
        assert self.node is not None
        for action in actions:
            if type(action) is Reply:
                self._reply(action)
            elif type(action) is Flush:
                self._flush(action)
            elif type(action) is Note:
                self.world.say(self.name, action.text)
        self._alarm.set(self.node.wake_at())
        if self.asked and not self._is_flushing and not self._was_refused:
            parked = self.watch.parked()  # nobody else in this world asks for more patience than the disk needs
            for ticket, waiting in self.asked.items():
                if ticket not in parked:
                    why = f"{type(waiting.request).__name__} has no answer, is not parked, and no flush is under way."
                    raise LawBroken("ticket-once", why)

    def _reply(self, reply: Reply) -> None:
        asked = self.asked.pop(reply.ticket, None)
        if asked is None:
            if self._gone.pop(reply.ticket, False):
                return  # its connection was closed while the answer waited for the disk
            raise LawBroken("ticket-once", f"ticket {reply.ticket} is spent a second time, on {type(reply.body).__name__}.")
        self.watch.answers(asked, reply.body)
        connection = asked.connection
        connection.answers[reply.ticket] = (asked, reply.body)
        while connection.order and connection.order[0] in connection.answers:
            self._send(*connection.answers.pop(connection.order.popleft()))

    def _send(self, asked: Asked, body: Any) -> None:
        link, connection = asked.link, asked.connection
        if link.answers_to_lose:
            link.answers_to_lose -= 1
            self.world.say(self.name, f"an answer to {asked.line.caller.client_id} is lost")
            link.send(DOWN, connection, connection.lost, connection)
            return
        if self.world.scenario.encodes:
            body = answer_through_bytes(type(asked.request), asked.version, body)
        link.send(DOWN, connection, asked.line.answer, connection, body)

    def _flush(self, flush: Flush) -> None:
        self._is_flushing = True
        refused = self.refusals > 0
        self.refusals -= refused
        doom, self.doom = self.doom, None
        is_early = not refused and self.dice.random() < 0.5
        if is_early:
            self.disk.sync(flush.paths)
        spent_us = 20 + int(self.dice.expovariate(1.0) * self.world.scenario.flush_us)
        if doom is None:
            self.later(spent_us, self._flush_ends, flush, refused, is_early)
        else:
            self.later(self.dice.randint(1, LAST_FLUSH_US), doom)

    def _flush_ends(self, flush: Flush, refused: bool, is_early: bool) -> None:
        self._is_flushing, self._was_refused = False, refused
        if refused:
            self._step(FlushFailed(flush.flush_seq, "the simulated disk is full"))
            return
        if not is_early:
            self.disk.sync(flush.paths)
        if not self.is_listening:
            self.is_listening = True
            self.world.say(self.name, "listens")
        self._step(Flushed(flush.flush_seq))


def settings_of(world: World) -> BrokerSettings:
    """The broker's settings in that world."""
    scenario = world.scenario
    return BrokerSettings(
        auto_create_topics_enable=False,
        offsets_topic_num_partitions=scenario.shards,
        group=GroupSettings(
            group_consumer_session_timeout_ms=scenario.session_ms,
            group_consumer_min_session_timeout_ms=min(scenario.session_ms, 1_000),
            group_consumer_max_session_timeout_ms=max(scenario.session_ms, 60_000),
            group_consumer_heartbeat_interval_ms=scenario.heartbeat_ms,
            group_min_session_timeout_ms=min(scenario.session_ms, 1_000),
            group_consumer_assignors=(scenario.assignor,),
            offsets_retention_check_interval_ms=8 * 86_400_000,  # never, here: the laws know of nobody who forgets a group
            apportion_consumer_unsettled_heartbeat_interval_ms=scenario.unsettled_heartbeat_ms,
        ),
    )
