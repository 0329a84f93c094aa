"""The network between applications and the broker: messages take time, keep their order within one connection, and get lost.

A cut holds back what is under way until it heals, as TCP does; what an application has given up by closing its end is dropped,
unless the broker's host has it already. A broker that lives again, or is away, resets what belonged to its earlier life.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apportion.machine import Caller, Ticket
from apportion.sim.kernel.clock import Call, Entry, Process, World, call_off
from apportion.wire.table import api_of, decode_request, decode_response, encode_request, encode_response

if TYPE_CHECKING:
    from apportion.sim.actors.broker import Broker

UP, DOWN = 0, 1
NO_ANSWER = None


class Connection:
    """One connection. `order` and `answers` are the broker's end: it answers in the order of the requests.

    broker_life: the life of the broker that accepted it; None until the first message has come. is_open: the application's end.
    """

    __slots__ = ("answers", "broker_life", "due_us", "is_open", "lost", "order")

    def __init__(self, lost: Callable[["Connection"], None]) -> None:
        self.broker_life: int | None = None
        self.is_open = True
        self.due_us = [0, 0]
        self.order: deque[Ticket] = deque()
        self.answers: dict[Ticket, Any] = {}
        self.lost = lost


class Link:
    """The way between one application and the broker."""

    __slots__ = ("_dice", "_held", "_mean_us", "answers_to_lose", "is_cut", "world")

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self._dice = world.dice(f"link of {name}")
        self._mean_us = world.scenario.delay_us
        self._held: tuple[list[Any], list[Any]] = ([], [])
        self.is_cut = [False, False]
        self.answers_to_lose = 0

    def send(self, way: int, connection: Connection, call: Call, *what: Any) -> None:
        """`call(*what)` happens at the other end, after everything that was sent this way before."""
        delay_us = 50 + int(self._dice.expovariate(1.0) * self._mean_us)
        at_us = max(self.world.now_us + delay_us, connection.due_us[way] + 1)
        connection.due_us[way] = at_us
        self.world.after(at_us - self.world.now_us, self._arrive, way, call, what)

    def set_cut(self, way: int, is_cut: bool) -> None:
        """Nothing passes that way; or it does again, and what was held back comes now, in its order."""
        self.is_cut[way] = is_cut
        if not is_cut:
            held = self._held[way][:]
            self._held[way].clear()
            for call, what in held:
                call(*what)

    def _arrive(self, way: int, call: Call, what: tuple[Any, ...]) -> None:
        if self.is_cut[way] or self._held[way]:
            self._held[way].append((call, what))
        else:
            call(*what)


class Line:
    """An application's way to ask the broker: one connection after another, one request at a time."""

    __slots__ = ("_broker", "_connection", "_done", "_link", "_process", "_timer", "caller")

    def __init__(self, process: Process, link: Link, broker: "Broker") -> None:
        self._process = process
        self._link = link
        self._broker = broker
        self._connection: Connection | None = None
        self._timer: Entry | None = None
        self._done: Callable[[Any], None] | None = None
        self.caller = Caller(process.name, f"/{process.name}")

    @property
    def is_busy(self) -> bool:
        """A request is under way."""
        return self._done is not None

    def ask(self, request: Any, version: int, timeout_ms: int, done: Callable[[Any], None]) -> None:
        """`done` is called once, in this life of the process: with the answer, or with NO_ANSWER if none will come."""
        assert self._done is None, "one request at a time"
        self._done = done
        connection = self._connection
        if connection is None:
            connection = self._connection = Connection(self._lost)
        if self._process.world.scenario.encodes:
            request = request_through_bytes(request, version)
        self._link.send(UP, connection, self._broker.receive, connection, self._link, request, version, self)
        self._timer = self._process.later(timeout_ms * 1_000, self._timed_out)

    def answer(self, connection: Connection, body: Any) -> None:
        """The broker's answer has come over `connection`."""
        self._process.hear(self._process.life, self._answered, connection, body)

    def close(self) -> None:
        """The connection is closed and its request given up, without a word to whoever asked."""
        self._forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.is_open = False
            self._link.send(UP, connection, self._broker.closed, connection)

    def vanish(self) -> None:
        """The connection is forgotten on this side only: the broker learns nothing."""
        if self._connection is not None:
            self._connection.is_open = False
        self._forget()
        self._connection = None

    def _answered(self, connection: Connection, body: Any) -> None:
        if connection is self._connection and self._done is not None:
            self._is_done(body)

    def _lost(self, connection: Connection) -> None:
        self._process.hear(self._process.life, self._reset, connection)

    def _reset(self, connection: Connection) -> None:
        if connection is self._connection:
            connection.is_open = False
            self._connection = None
            self._is_done(NO_ANSWER)

    def _timed_out(self) -> None:
        done = self._forget()
        self.close()
        if done is not None:
            done(NO_ANSWER)

    def _is_done(self, answer: Any) -> None:
        done = self._forget()
        if done is not None:
            done(answer)

    def _forget(self) -> Callable[[Any], None] | None:
        """Nothing is under way any more; who asked, if somebody did."""
        if self._timer is not None:
            call_off(self._timer)
        done, self._done, self._timer = self._done, None, None
        return done


def request_through_bytes(request: Any, version: int) -> Any:
    """The request as the other end reads it."""
    return decode_request(encode_request(request, version, 1, "sim")[4:]).body


def answer_through_bytes(request_class: Any, version: int, body: Any) -> Any:
    """The answer as the application reads it."""
    frame = b"".join(encode_response(api_of(request_class), version, 1, body))
    return decode_response(request_class, version, frame[4:])[1]
