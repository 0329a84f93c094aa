"""Failed steps of the node: the pause before a retry, and their log lines.

The first failure at a line of code is logged; others at the same line are counted, and logged once
a minute. It knows no clock.
"""

from apportion.deadlines import Key
from apportion.errors import raised_at
from apportion.machine import Note
from apportion.store.disk import DiskError

IN_A_ROW_MS = 10_000
"""Failures no further apart than this are in a row, whatever succeeded between them."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 10, 1_000
FAILURES: Key = ("failures",)
"""The deadline at which failures that were only counted are logged."""
COUNTED_EACH_MS = 60_000
MAX_ORIGINS = 16
"""How many lines of code that raise are counted separately."""


class StepFailures:
    """The recent failures.

    pause_ms: how long to wait before a retry; 0 after the first of a row.
    """

    __slots__ = ("_last_ms", "_latest", "_repeats", "pause_ms")  # by origin: file and line

    def __init__(self) -> None:
        self.pause_ms = 0
        self._last_ms: int | None = None
        # how often at each origin, without the failure that was logged
        self._repeats: dict[str, int] = {}
        self._latest: dict[str, str] = {}

    def add(self, error: Exception, now_ms: int) -> list[Note]:
        """Count a failed step of the broker's node; return its log line if its origin is new.

        A failure of the disk has no line here: its lines are those of `DiskFailures`.

        Sets `pause_ms`, by which the node puts off its deadlines when steps fail in a row. An
        origin is the file and line where the error was raised; a repeated one is only counted, and
        logged later by `take_counted`.
        """
        is_first = self._last_ms is None or now_ms - self._last_ms > IN_A_ROW_MS
        self.pause_ms = (
            # A single failure concerns one request, and the rest need not wait. What fails again
            # and again must not take all the time of the broker.
            0 if is_first else min(max(2 * self.pause_ms, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
        )
        self._last_ms = now_ms
        if isinstance(error, DiskError):
            return []
        origin, why = raised_at(error), f"{type(error).__name__}: {error}"
        # Otherwise a broker that fails in ever new ways would fill its memory.
        if origin not in self._repeats and len(self._repeats) >= MAX_ORIGINS:
            origin = "other places"
        if origin not in self._repeats:
            self._repeats[origin] = 0
            return [Note("error", f"a step failed at {origin}: {why}")]
        self._repeats[origin] += 1
        self._latest[origin] = why
        return []

    def take_counted(self) -> list[Note]:
        """Return a log line for each origin of failed steps that were only counted.

        The node calls it when the deadline FAILURES is due. Origins without such a step are
        forgotten.
        """
        repeated = {origin: count for origin, count in self._repeats.items() if count}
        notes = [
            Note(
                "error",
                f"{count:,} more steps failed at {origin}, the last one with "
                f"{self._latest[origin]}",
            )
            for origin, count in repeated.items()
        ]
        self._repeats = dict.fromkeys(repeated, 0)
        self._latest.clear()
        return notes

    def __bool__(self) -> bool:
        """Return whether there is anything to count."""
        return bool(self._repeats)
