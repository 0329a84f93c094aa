"""One step's pen and paper. `emit` is the only way to change what is saved, and `close` gives the actions in order."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from apportion.coord.config import GroupSettings
from apportion.coord.records import Append, CoordinatorRecord
from apportion.coord.replay import Ledger
from apportion.deadlines import Deadlines
from apportion.machine import Caller, Instant, Note, Reply, Ticket
from apportion.topics import Topics

B = TypeVar("B")
Action = Append | Reply | Note


class GroupRequest(NamedTuple, Generic[B]):
    """A request that waits for its answer: what was asked, in which version, by whom, and 16 bytes for an id it may need."""

    ticket: Ticket
    body: B
    version: int
    caller: Caller
    fresh: bytes


class Turn:
    """One step of one shard: the state to read, and the pen to write with.

    A reply stands behind every record that was emitted before it, so nobody is told what is not in the log first.
    """

    __slots__ = (
        "_actions",
        "_apply",
        "_parked",
        "_unappended",
        "deadlines",
        "ledger",
        "now",
        "on_members_leaving",
        "settings",
        "topics",
    )

    def __init__(
        self,
        ledger: Ledger,
        deadlines: Deadlines,
        settings: GroupSettings,
        topics: Topics,
        now: Instant,
        apply: Mapping[type[Any], Callable[[Ledger, Any, Any], None]],
        parked: dict[Ticket, int],
        gives_way: Callable[["Turn", Any, tuple[Any, ...]], bool],
    ) -> None:
        self.ledger = ledger
        self.deadlines = deadlines
        self.settings = settings
        self.topics = topics
        self.now = now
        self._apply = apply
        self._parked = parked
        self.on_members_leaving = (
            gives_way  # asked with a group and members that leave: True, and a group of another kind is in its place
        )
        self._unappended: list[CoordinatorRecord] = []
        self._actions: list[Action] = []

    @property
    def has_written(self) -> bool:
        """True once this step has emitted a record; from then on it may refuse nothing."""
        return bool(self._unappended) or any(isinstance(action, Append) for action in self._actions)

    def emit(self, record: CoordinatorRecord) -> None:
        """The record counts from now on, and will be in the log before any later reply is sent."""
        self._apply[record.key.__class__](self.ledger, record.key, record.value)
        self._unappended.append(record)

    def emit_all(self, records: Iterable[CoordinatorRecord]) -> None:
        """The records count from now on, in their order."""
        for record in records:
            self.emit(record)

    def reply(self, ticket: Ticket, body: Any) -> None:
        """The ticket is spent on `body`."""
        self._append_records()
        self._actions.append(Reply(ticket, body))

    def park(self, request: GroupRequest[Any]) -> Ticket:
        """The request waits for a later step. Its ticket is for the group to keep, and to `release` before it is spent."""
        self._parked[request.ticket] = request.version
        return request.ticket

    def unpark(self, ticket: Ticket | None) -> int | None:
        """The version in which the parked ticket must be answered now; None if nobody waits for it any more."""
        return None if ticket is None else self._parked.pop(ticket, None)

    def note(self, level: str, text: str) -> None:
        """The process's log will have this line."""
        self._actions.append(Note(level, text))

    def close(self) -> list[Action]:
        """What this step asks for, in the order in which it must be done."""
        self._append_records()
        return self._actions

    def _append_records(self) -> None:
        if self._unappended:
            self._actions.append(Append(tuple(self._unappended)))
            self._unappended = []
