"""The interface of machines, and the events and actions that every driver of one understands.

A Machine is a state machine without I/O. It decides and does nothing else: `step(event, now)`
changes its own state and returns actions in an order that is a contract; `wake_at()` names the next
moment at which it needs a `Tick`. It knows no clocks, sockets, disks or threads. Each kind of
machine adds its own events and actions; those here are shared.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, NewType, Protocol, TypeVar

Ticket = NewType("Ticket", int)
"""The number of a request, chosen by the driver; a machine may keep it and reply later, once."""

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that does not authenticate, as in Kafka."""
PLAINTEXT_LISTENER = "PLAINTEXT"
"""The name of a listener that was given none, as in Kafka."""


class Instant(NamedTuple):
    """One reading of both clocks.

    Deadlines use `mono_ms` only, records and retention `wall_ms` only.
    """

    mono_ms: int
    wall_ms: int


class Caller(NamedTuple):
    """The client that sent a request, as its connection sees it.

    host: with a slash before it, as in Kafka. principal: who has authenticated, as
    `User:alice`. listener: the name of that which the client is connected to.
    """

    client_id: str
    host: str
    principal: str = ANONYMOUS
    listener: str = PLAINTEXT_LISTENER


class Access(Protocol):
    """A value that says what the caller of a request may know of, where the broker has ACLs."""

    def may_describe_topic(self, name: str) -> bool:
        """Return whether the caller may know of the topic."""
        ...

    def completed(self, response: Any) -> Any:
        """Return the response with what was refused of its request, and without what is hidden."""
        ...


class Arrived(NamedTuple):
    """A decoded request has arrived; it is answered by one `Reply` with its ticket.

    fresh: 16 random bytes that no other event has, for an id that this step may have to generate.
    version: the API version of the request, in which its response is encoded. access: None if the
    caller may know of everything that the response says; a broker without ACLs sets none.
    """

    ticket: Ticket
    request: Any
    version: int
    caller: Caller
    fresh: bytes
    access: Access | None = None


class Arrivals(NamedTuple):
    """Requests that have arrived together, oldest first: as if each had arrived alone."""

    requests: tuple[Arrived, ...]


@dataclass(slots=True, frozen=True)
class Gone:
    """The connection behind these tickets is closed: their responses can no longer be delivered."""

    tickets: tuple[Ticket, ...]


@dataclass(slots=True, frozen=True)
class Tick:
    """Time has passed; deadlines at or before `now` are due."""


@dataclass(slots=True, frozen=True)
class Flushed:
    """Everything that was appended up to and including `flush_seq` is on the disk."""

    flush_seq: int


@dataclass(slots=True, frozen=True)
class FlushFailed:
    """The disk failed the flush that ends at `flush_seq`.

    Nothing that was appended since the last `Flushed` may be trusted. error_number: the system's;
    None where it is not known.
    """

    flush_seq: int
    why: str
    error_number: int | None = None


class Computation(Protocol):
    """A computation as a value: it reads nothing but its fields, and changes nothing."""

    @property
    def group_id(self) -> str:
        """The group that needs the result."""
        ...

    @property
    def is_foreign(self) -> bool:
        """True if it calls code that is not apportion's, which may never return."""
        ...

    def run(self) -> Any:
        """Return the result, a value."""
        ...


@dataclass(slots=True, frozen=True)
class Computed:
    """The computation of a `Compute` has run, with this result."""

    computation: Computation
    result: Any


@dataclass(slots=True, frozen=True)
class ComputeFailed:
    """The computation of a `Compute` raised an error instead of returning a result."""

    computation: Computation
    why: str


ComputationEnd = Computed | ComputeFailed


@dataclass(slots=True, frozen=True)
class Compute:
    """Run `computation` where it delays no step, then post its `ComputationEnd`."""

    computation: Computation


@dataclass(slots=True, frozen=True)
class Abandon:
    """Wait no longer for the end of `computation`; its `ComputationEnd` may still be posted."""

    computation: Computation


class CloseConnection(NamedTuple):
    """The body of a reply that says by closing the connection that the request was refused.

    why: for the log.
    """

    why: str


class Reply(NamedTuple):
    """Send `body` as the response to the request with this ticket.

    To Produce with acks=0 there is no response: None ends the request, and a `CloseConnection` its
    connection.
    """

    ticket: Ticket
    body: Any


@dataclass(slots=True, frozen=True)
class Flush:
    """Make every file in `paths` durable, then post `Flushed` or `FlushFailed` with `flush_seq`."""

    flush_seq: int
    paths: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Note:
    """One line for the log of the process. `level` is 'info', 'warning' or 'error'.

    hint: the end of the line for people; simulated histories, which are compared, leave it out.
    """

    level: str
    text: str
    hint: str = ""


E = TypeVar("E", contravariant=True)
A = TypeVar("A")


class Machine(Protocol[E, A]):
    """A state machine without I/O: the broker, a coordinator shard, a member.

    A machine is called by one driver at a time, so it has no lock; it has no clock of its own.
    """

    def step(self, event: E, now: Instant) -> list[A]:
        """Return the actions that `event` causes at `now`, in the order to perform them."""
        ...

    def wake_at(self) -> int | None:
        """Return the monotonic millisecond at which the machine needs a `Tick`; None for never."""
        ...
