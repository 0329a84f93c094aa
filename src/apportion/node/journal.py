"""What has been written, what is on the disk, and which answers wait for which. One Flush is under way at the most."""

from typing import Any, NamedTuple, Protocol

from apportion.machine import Arrived, Flush, Ticket


def may_leave(mark: int, durable: int) -> bool:
    """An answer may be seen once all that it tells of is on the disk."""
    return mark <= durable


class Writer(Protocol):
    """Something with files of its own: a partition, the catalog."""

    def unsynced_paths(self) -> tuple[str, ...]:
        """The files written since the last call; what they now hold is what the next `settled` speaks of."""
        ...

    def settled(self) -> None:
        """What was written before the last `unsynced_paths` is on the disk."""
        ...


class Held(NamedTuple):
    """An answer that may not be seen yet, with the request it answers: a failed flush turns it into a refusal."""

    ticket: Ticket
    body: Any
    asked: Arrived | None


class Journal:
    """Marks count the flushes: whatever is written now belongs to `open_mark` and is durable once `durable` reaches it."""

    __slots__ = ("_dirty", "_flushing", "_held", "durable", "is_failing", "open_mark")

    def __init__(self) -> None:
        self.durable = 0
        self.open_mark = 1
        self.is_failing = False  # the last flush that ended was refused
        self._dirty: dict[Writer, None] = {}
        self._flushing: dict[Writer, None] = {}
        self._held: dict[int, list[Held]] = {}

    def wrote(self, writer: Writer) -> int:
        """The mark at which what `writer` has just written will be durable."""
        self._dirty[writer] = None
        return self.open_mark

    def hold(self, mark: int, held: Held) -> None:
        """The answer waits until `mark` is durable."""
        self._held.setdefault(mark, []).append(held)

    def holds(self, ticket: Ticket) -> bool:
        """True when an answer with that ticket waits here."""
        return any(held.ticket == ticket for answers in self._held.values() for held in answers)

    def flush_or_none(self) -> Flush | None:
        """The next Flush, with everything written so far; None if one is under way or nothing was written."""
        if self._flushing or not self._dirty:
            return None
        self._flushing, self._dirty = self._dirty, {}
        mark, self.open_mark = self.open_mark, self.open_mark + 1
        paths = dict.fromkeys(path for writer in self._flushing for path in writer.unsynced_paths())
        return Flush(mark, tuple(paths))

    def flushed(self, mark: int) -> tuple[list[Writer], list[Held]]:
        """The writers whose writes are durable now, and the answers that waited for that, in their order."""
        assert self._flushing and mark == self.open_mark - 1, f"Flushed({mark}) answers no Flush"
        settled, self._flushing = list(self._flushing), {}
        self.durable = mark
        self.is_failing = False
        for writer in settled:
            writer.settled()
        return settled, self._held.pop(mark, [])

    def failed(self) -> tuple[list[Writer], list[Held]]:
        """The writers that hold anything not durable, and every answer that waited; both are forgotten here."""
        lost = list(self._flushing | self._dirty)
        self._flushing, self._dirty = {}, {}
        answers = [held for mark in sorted(self._held) for held in self._held[mark]]
        self._held.clear()
        self.is_failing = True
        self.durable = self.open_mark
        self.open_mark += 1
        return lost, answers

    def forget(self, writer: Writer) -> None:
        """`writer` is gone with its files and is not flushed again."""
        self._dirty.pop(writer, None)
