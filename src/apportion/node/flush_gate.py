"""What has been written, what is on the disk, and which answers wait for which. One Flush is under way at the most."""

from collections.abc import Container
from typing import Any, NamedTuple, Protocol

from apportion.machine import Arrived, Flush, Ticket


def may_send(mark: int, durable: int) -> bool:
    """An answer may be seen once all that it tells of is on the disk."""
    return mark <= durable


class FlushedFiles(Protocol):
    """Something with files of its own: a partition, the catalog."""

    def unsynced_paths(self) -> tuple[str, ...]:
        """The files written since the last call; what they now hold is what the next `on_flushed` speaks of."""
        ...

    def on_flushed(self) -> None:
        """What was written before the last `unsynced_paths` is on the disk."""
        ...

    def savepoint(self) -> Any:
        """Return where its files end now, for `roll_back`."""
        ...

    def roll_back(self, savepoint: Any) -> None:
        """Cut away what came after `savepoint`, and read it again from its files."""
        ...


class PendingReply(NamedTuple):
    """An answer that may not be seen yet, with the request it answers: a failed flush turns it into a refusal."""

    ticket: Ticket
    body: Any
    request: Arrived | None


class FlushGate:
    """Marks count the flushes: whatever is written now belongs to `open_seq` and is durable once `durable_seq` reaches it."""

    __slots__ = (
        "_dirty",
        "_flushing",
        "_held",
        "_not_visible",
        "_savepoints",
        "durable_seq",
        "is_collecting",
        "is_failing",
        "open_seq",
    )

    def __init__(self) -> None:
        self.durable_seq = 0
        self.open_seq = 1
        self.is_failing = False  # the last flush that ended was refused
        self.is_collecting = (
            False  # writers are asked for their paths; so until the flush is `flush_issued`, for ever if that broke off
        )
        self._dirty: dict[FlushedFiles, None] = {}
        self._flushing: dict[FlushedFiles, None] = {}
        self._not_visible: dict[FlushedFiles, None] = {}  # durable, but not `made_visible` yet
        self._held: dict[int, list[PendingReply]] = {}
        self._savepoints: dict[FlushedFiles, Any] = {}  # of those that were written since `release_savepoints`

    def begin_write(self, writer: FlushedFiles) -> None:
        """Remember where `writer` is before it changes its files: if what is being done breaks off, it goes back there."""
        if writer not in self._savepoints:
            self._savepoints[writer] = writer.savepoint()

    def release_savepoints(self) -> None:
        """Keep what was done until now, whatever comes after."""
        self._savepoints.clear()

    def take_savepoints(self) -> dict[FlushedFiles, Any]:
        """Return the savepoints of all that were written since the last `release_savepoints`, and release them."""
        savepoints, self._savepoints = self._savepoints, {}
        return savepoints

    def wrote(self, writer: FlushedFiles) -> int:
        """The mark at which what `writer` has just written will be durable."""
        self._dirty[writer] = None
        return self.open_seq

    def hold_reply(self, mark: int, reply: PendingReply) -> None:
        """The answer waits until `mark` is durable."""
        self._held.setdefault(mark, []).append(reply)

    def retract_replies(self, tickets: Container[Ticket]) -> None:
        """Forget the answers with one of these tickets that wait here."""
        self._held = {mark: [reply for reply in answers if reply.ticket not in tickets] for mark, answers in self._held.items()}

    def flush_or_none(self) -> Flush | None:
        """The next Flush, with everything written so far; None if one is under way or nothing was written."""
        self._dirty |= self._not_visible  # showing them broke off: the next flush does it
        self._not_visible.clear()
        if self._flushing or not self._dirty:
            return None
        self.is_collecting = True
        self._flushing, self._dirty = self._dirty, {}
        mark, self.open_seq = self.open_seq, self.open_seq + 1
        paths = dict.fromkeys(path for writer in self._flushing for path in writer.unsynced_paths())
        return Flush(mark, tuple(paths))

    def flush_issued(self) -> None:
        """Note that the flush is on its way to the disk."""
        self.is_collecting = False

    def flushed(self, mark: int) -> tuple[list[FlushedFiles], list[PendingReply]]:
        """The writers whose writes are durable now, which are to be `settled`, and the answers that waited for it, in order."""
        assert self._flushing, f"Flushed({mark}) answers no Flush"
        assert mark == self.open_seq - 1, f"Flushed({mark}) answers no Flush"
        settled, self._flushing = list(self._flushing), {}
        self._not_visible |= dict.fromkeys(settled)
        self.durable_seq = mark
        self.is_failing = False
        return settled, self._held.pop(mark, [])

    def made_visible(self, writer: FlushedFiles) -> None:
        """Note that readers see what `writer` had in the last flush."""
        self._not_visible.pop(writer, None)

    def flush_failed(self) -> tuple[list[FlushedFiles], list[PendingReply]]:
        """The writers that hold anything not durable, and every answer that waited; both are forgotten here."""
        lost = list(self._flushing | self._dirty)
        self._flushing, self._dirty = {}, {}
        answers = [reply for mark in sorted(self._held) for reply in self._held[mark]]
        self._held.clear()
        self.is_failing, self.is_collecting = True, False
        self.durable_seq = self.open_seq
        self.open_seq += 1
        return lost, answers

    def forget(self, writer: FlushedFiles) -> None:
        """`writer` is gone with its files and is not flushed again."""
        self._dirty.pop(writer, None)
        self._not_visible.pop(writer, None)
