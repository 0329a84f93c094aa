"""The flush gate: group commit; replies wait until the writes that they show are on the disk.

The problem: a reply may leave only when all writes that it shows are durable, but a disk syncs far
fewer times a second than a broker answers requests.

The method is group commit. Writes are not synced one by one: each belongs to the flush that is open
while it is written, numbered `open_seq`. One flush at most is under way; `begin_flush_or_none`
closes the open one, asks all its writers for their files, and opens the next. When the disk is
done, the flush's number becomes `durable_seq`, and every reply whose number is not above it may
leave: `may_send` is the whole rule. Under load a flush covers as many writes as came in during the
one before, so the cost of a sync is shared and no timer is needed.

The wait ends because a reply waits at most for the flush under way and the one behind it, and each
flush ends with `Flushed` or `FlushFailed`. After a failure nothing that was written since
`durable_seq` may be trusted; so all of it is cut back, and each waiting request gets an error.

Example, with `durable_seq` 0 and `open_seq` 1:

    append A             -> number 1, its reply is held at 1
    begin_flush_or_none  -> Flush(1), and 2 is open
    append B             -> number 2, its reply is held at 2; no second flush begins
    flushed(1)           -> A's reply leaves; the next begin_flush_or_none gives Flush(2)
    flushed(2)           -> B's reply leaves

Savepoints are another matter, in the same place because both follow writes: a writer that changes
its files in a unit of work can be put back to where it was before that unit
(`node/unit_of_work.py`).
"""

from collections.abc import Container
from typing import Any, NamedTuple, Protocol

from apportion.deadlines import Key
from apportion.machine import Arrived, Flush, Note, Ticket

FLUSH: Key = ("flush",)
"""The deadline of the next flush: while it is armed none begins."""
FLUSH_RETRY_MS = 1_000  # the pause before the next flush after two refused ones in a row


def may_send(flush_seq: int, durable_seq: int) -> bool:
    """Return whether a reply may leave: all writes that it shows are on the disk."""
    return flush_seq <= durable_seq


class FlushedFiles(Protocol):
    """A writer with files of its own, a partition or the metadata log, that the gate flushes."""

    def take_unsynced_paths(self) -> tuple[str, ...]:
        """Return the files written since the last call, for the next flush, and forget them.

        The present ends of the files are remembered for `note_durable`.
        """
        ...

    def note_durable(self) -> None:
        """Note that all writes before the last `take_unsynced_paths` are on the disk."""
        ...

    def on_flushed(self) -> None:
        """Let readers see what `note_durable` noted last, in a unit of work of its own."""
        ...

    def savepoint(self) -> Any:
        """Return where its files end now, for `roll_back`."""
        ...

    def roll_back(self, savepoint: Any) -> None:
        """Cut off all writes after `savepoint`, and read the rest again from the files."""
        ...


class PendingReply(NamedTuple):
    """A reply that may not leave yet, with its request: after a failed flush that gets an error."""

    ticket: Ticket
    body: Any
    request: Arrived


class FlushGate:
    """The numbers of flushes, their writers, the replies and log lines that wait, and savepoints.

    is_failing: the last flush that ended had failed.
    is_collecting: the writers are being asked for their files. It stays True if that raises,
    because nobody knows then what the next flush would cover.
    """

    __slots__ = (
        "_dirty",
        "_flushing",
        "_held",
        "_not_visible",
        "_notes",
        "_savepoints",
        "durable_seq",
        "is_collecting",
        "is_failing",
        "open_seq",
    )

    def __init__(self) -> None:
        self.durable_seq = 0
        self.open_seq = 1
        self.is_failing = False
        self.is_collecting = False
        self._dirty: dict[FlushedFiles, None] = {}  # written since the last flush began
        self._flushing: dict[FlushedFiles, None] = {}
        self._not_visible: dict[FlushedFiles, None] = {}  # durable, and readers do not see it yet
        self._held: dict[int, list[PendingReply]] = {}
        self._notes: dict[int, list[Note]] = {}
        self._savepoints: dict[FlushedFiles, Any] = {}  # of the current unit of work

    def begin_write(self, files: FlushedFiles) -> None:
        """Take a savepoint of the partition or metadata log before the unit of work changes it."""
        # The first one counts, because a unit of work is undone as a whole.
        if files not in self._savepoints:
            self._savepoints[files] = files.savepoint()

    def release_savepoints(self) -> None:
        """Forget the savepoints: the unit of work has succeeded."""
        self._savepoints.clear()

    def take_savepoints(self) -> dict[FlushedFiles, Any]:
        """Return the savepoints of the current unit of work for its rollback, and forget them."""
        savepoints, self._savepoints = self._savepoints, {}
        return savepoints

    def wrote(self, files: FlushedFiles) -> int:
        """Note a write to these files; return the number of the flush that will cover it."""
        self._dirty[files] = None
        return self.open_seq

    def hold_reply(self, flush_seq: int, reply: PendingReply) -> None:
        """Keep the reply until flush `flush_seq` has succeeded or failed."""
        self._held.setdefault(flush_seq, []).append(reply)

    def hold_note(self, flush_seq: int, note: Note) -> None:
        """Keep the log line until flush `flush_seq` has succeeded; if it fails, drop the line."""
        self._notes.setdefault(flush_seq, []).append(note)

    def retract_replies(self, tickets: Container[Ticket]) -> None:
        """Forget the held replies with one of these tickets, whose unit of work has failed."""
        self._held = {
            flush_seq: [reply for reply in replies if reply.ticket not in tickets]
            for flush_seq, replies in self._held.items()
        }

    @property
    def has_written(self) -> bool:
        """True if there is anything that the next flush has to cover."""
        return bool(self._dirty or self._not_visible)

    def begin_flush_or_none(self) -> Flush | None:
        """Begin a flush of all files written so far (group commit), and return it.

        Returns None if another flush is under way or nothing was written.
        """
        # `on_flushed` of these has failed: the next flush calls it again
        self._dirty |= self._not_visible
        self._not_visible.clear()
        if self._flushing or not self._dirty:
            return None
        self.is_collecting = True
        self._flushing, self._dirty = self._dirty, {}
        flush_seq, self.open_seq = self.open_seq, self.open_seq + 1
        paths = dict.fromkeys(
            path for files in self._flushing for path in files.take_unsynced_paths()
        )
        return Flush(flush_seq, tuple(paths))

    def flush_issued(self) -> None:
        """Note that the flush was put together and is on its way to the disk."""
        self.is_collecting = False

    def flushed(self, flush_seq: int) -> tuple[list[FlushedFiles], list[PendingReply], list[Note]]:
        """Note a flush that succeeded; return its files, and the replies and lines that waited.

        The files (partitions or the metadata log) are for a call of `on_flushed`.
        """
        assert self._flushing, f"Flushed({flush_seq}) answers no Flush"
        assert flush_seq == self.open_seq - 1, f"Flushed({flush_seq}) answers no Flush"
        flushed, self._flushing = list(self._flushing), {}
        # Here, and not where readers come to see it: if that fails, a later flush that fails, too,
        # must not take back what was acknowledged.
        for files in flushed:
            files.note_durable()
        self._not_visible |= dict.fromkeys(flushed)
        self.durable_seq = flush_seq
        self.is_failing = False
        return flushed, self._held.pop(flush_seq, []), self._notes.pop(flush_seq, [])

    def made_visible(self, files: FlushedFiles) -> None:
        """Note that readers see what the writer had in the last flush."""
        self._not_visible.pop(files, None)

    def flush_failed(self) -> tuple[list[FlushedFiles], list[PendingReply]]:
        """Note a flush that failed; return the files with unflushed data and the held replies."""
        lost = list(self._flushing | self._dirty)
        self._flushing, self._dirty = {}, {}
        # In the order in which they would have left.
        replies = [reply for flush_seq in sorted(self._held) for reply in self._held[flush_seq]]
        self._held.clear()
        self._notes.clear()
        self.is_failing, self.is_collecting = True, False
        # The failed and the open flush are both over, since the writes of both are cut back.
        self.durable_seq = self.open_seq
        self.open_seq += 1
        return lost, replies

    def forget(self, files: FlushedFiles) -> None:
        """Flush this partition no more: its files are deleted."""
        self._dirty.pop(files, None)
        self._not_visible.pop(files, None)
