"""The simulated network between applications and the broker.

A message takes a random time and keeps its order within its connection. A cut link holds messages
back until it heals, as TCP retransmission does. A message over a connection that its sender has
since closed is dropped, unless it has reached the broker's host. A broker that was restarted resets
the connections of its earlier incarnation.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from apportion.machine import Caller, Ticket
from apportion.sim.kernel.clock import (
    Callback,
    ScheduledCall,
    SimulatedProcess,
    Simulation,
    cancel_call,
)
from apportion.wire.table import (
    api_of,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

UP, DOWN = 0, 1
NO_ANSWER = None


class SimulatedConnection:
    """One connection, with both ends.

    `unanswered` and `ready_answers` are the broker's end: it answers in request order.
    broker_incarnation: of the broker that accepted it; None until its first request came. is_open:
    the application's end. on_reset: called when the broker resets it. due_us: when the last message
    of each direction arrives.
    """

    __slots__ = (
        "broker_incarnation",
        "due_us",
        "is_open",
        "on_reset",
        "ready_answers",
        "unanswered",
    )

    def __init__(self, on_reset: Callable[["SimulatedConnection"], None]) -> None:
        self.broker_incarnation: int | None = None
        self.is_open = True
        self.due_us = [0, 0]
        self.unanswered: deque[Ticket] = deque()
        self.ready_answers: dict[Ticket, Any] = {}
        self.on_reset = on_reset


LEAST_DELAY_US = 50  # of a message over a simulated link


class Link:
    """The link between one application and the broker, which all its connections share."""

    __slots__ = (
        "_held_back",
        "_mean_us",
        "_rng",
        "answers_to_lose",
        "is_cut",
        "joins_to_lose",
        "simulation",
    )

    def __init__(self, simulation: Simulation, name: str) -> None:
        """Begin with a link that is not cut; its delays come from a random stream of its own."""
        self.simulation = simulation
        self._rng = simulation.random_stream(f"link of {name}")
        self._mean_us = simulation.scenario.delay_us
        self._held_back: tuple[list[Any], list[Any]] = ([], [])
        self.is_cut = [False, False]
        self.answers_to_lose = 0
        self.joins_to_lose = 0

    def send(
        self, way: int, connection: SimulatedConnection, callback: Callback, *args: Any
    ) -> None:
        """Send a message over the simulated network: call `callback(*args)` when it arrives.

        The message arrives after the connection's earlier messages in the same direction, and not
        while the link is cut. way: index of the direction in `is_cut` and `due_us`.
        """
        delay_us = LEAST_DELAY_US + int(self._rng.expovariate(1.0) * self._mean_us)
        # TCP keeps the order of one connection; only messages of different connections overtake
        # each other.
        at_us = max(self.simulation.now_us + delay_us, connection.due_us[way] + 1)
        connection.due_us[way] = at_us
        self.simulation.call_later(
            at_us - self.simulation.now_us, self._arrive, way, callback, args
        )

    def set_cut(self, way: int, is_cut: bool) -> None:
        """Cut one direction of a link, or heal it and deliver in order what was held back."""
        self.is_cut[way] = is_cut
        if not is_cut:
            # Copied and cleared first: a delivery may send, or cut the link again.
            messages = self._held_back[way][:]
            self._held_back[way].clear()
            for callback, args in messages:
                callback(*args)

    def _arrive(self, way: int, callback: Callback, args: tuple[Any, ...]) -> None:
        """Deliver a message at the link's other end; hold it back while it is cut."""
        # Behind messages that are held back this one must wait, too, though the link is healed.
        if self.is_cut[way] or self._held_back[way]:
            self._held_back[way].append((callback, args))
        else:
            callback(*args)


class BrokerHost(Protocol):
    """The broker's end of every connection."""

    def receive(self, sent: "SentRequest") -> None:
        """Take a request that has arrived over the simulated network."""
        ...

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Learn that the application has closed the connection."""
        ...


class SentRequest(NamedTuple):
    """A request that a client has sent.

    since_ms: when the broker read it, on its clock.
    """

    connection: SimulatedConnection
    link: Link
    request: Any
    version: int
    channel: "RequestChannel"
    since_ms: int = 0


class RequestChannel:
    """A client's channel to the broker: one connection at a time, one request in flight."""

    __slots__ = ("_broker", "_connection", "_link", "_on_answer", "_process", "_timer", "caller")

    def __init__(self, process: SimulatedProcess, link: Link, broker: BrokerHost) -> None:
        """Begin without a connection, for requests of a simulated process."""
        self._process = process
        self._link = link
        self._broker = broker
        self._connection: SimulatedConnection | None = None
        self._timer: ScheduledCall | None = None
        self._on_answer: Callable[[Any], None] | None = None
        self.caller = Caller(process.name, f"/{process.name}")

    def abandon_request(self) -> None:
        """Close the connection of a request in flight: the next one does not wait for its answer.

        Such as a LeaveGroup behind a heartbeat.
        """
        if self._on_answer is not None:
            self.close()

    def send(
        self, request: Any, version: int, timeout_ms: int, on_answer: Callable[[Any], None]
    ) -> None:
        """Send a request to the broker; call `on_answer` once, with the answer.

        After a timeout or a reset it is called with NO_ANSWER.
        """
        assert self._on_answer is None, "one request at a time"
        self._on_answer = on_answer
        connection = self._connection
        if connection is None:
            connection = self._connection = SimulatedConnection(self._on_reset)
        # In some histories only: bytes show what the schemas lose, and they cost time.
        if self._process.simulation.scenario.encodes:
            request = request_through_bytes(request, version)
        sent = SentRequest(connection, self._link, request, version, self)
        self._link.send(UP, connection, self._broker.receive, sent)
        self._timer = self._process.call_later(timeout_ms * 1_000, self._timed_out)

    def receive_answer(self, connection: SimulatedConnection, body: Any) -> None:
        """Take an answer of the broker that has arrived over `connection`."""
        self._process.deliver(self._process.incarnation, self._accept_answer, connection, body)

    def close(self) -> None:
        """Close the connection and drop its request; `on_answer` is not called."""
        self._take_callback()
        connection, self._connection = self._connection, None
        if connection is not None:
            # Marked at once; the broker learns of it a message later and goes on answering until
            # then.
            connection.is_open = False
            self._link.send(UP, connection, self._broker.connection_closed, connection)

    def forget(self) -> None:
        """Forget the connection on this side only, as a host that lost its power does.

        The broker sees no close.
        """
        if self._connection is not None:
            self._connection.is_open = False
        self._take_callback()
        self._connection = None

    def _accept_answer(self, connection: SimulatedConnection, body: Any) -> None:
        if connection is self._connection and self._on_answer is not None:
            self._complete(body)

    def _on_reset(self, connection: SimulatedConnection) -> None:
        self._process.deliver(self._process.incarnation, self._accept_reset, connection)

    def _accept_reset(self, connection: SimulatedConnection) -> None:
        if connection is self._connection:
            connection.is_open = False
            self._connection = None
            self._complete(NO_ANSWER)

    def _timed_out(self) -> None:
        """Close the connection of a request that was not answered in time, and tell its sender."""
        on_answer = self._take_callback()
        # As real clients do: on this connection the late answer would be taken for the next
        # request's.
        self.close()
        if on_answer is not None:
            on_answer(NO_ANSWER)

    def _complete(self, answer: Any) -> None:
        on_answer = self._take_callback()
        if on_answer is not None:
            on_answer(answer)

    def _take_callback(self) -> Callable[[Any], None] | None:
        """End the request in flight; return its callback; None if there was none."""
        if self._timer is not None:
            cancel_call(self._timer)
        on_answer, self._on_answer, self._timer = self._on_answer, None, None
        return on_answer


def request_through_bytes(request: Any, version: int) -> Any:
    """Return a request as the simulated broker decodes it from its bytes."""
    return decode_request(encode_request(request, version, 1, "sim")[4:]).body


def answer_through_bytes(request_class: Any, version: int, body: Any) -> Any:
    """Return an answer as the simulated application decodes it from its bytes."""
    frame = b"".join(encode_response(api_of(request_class), version, 1, body))
    return decode_response(request_class, version, frame[4:])[1]
