"""Failed steps: the pause before a retry, and what the log says of them.

The first failure at a line of code is logged; others at the same line are counted, and logged once
a minute. It knows no clock.
"""

from apportion.machine import Note

IN_A_ROW_MS = 10_000
"""Failures no further apart are in a row, whatever went well between them."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 10, 1_000
COUNTED_EACH_MS = 60_000
MAX_PLACES = 16
"""How many places are counted separately."""


class StepFailures:
    """The recent failures. pause_ms: how long to wait before a retry; 0 after the first of a
    row.
    """

    __slots__ = ("_last_ms", "_latest", "_repeats", "pause_ms")

    def __init__(self) -> None:
        self.pause_ms = 0
        self._last_ms: int | None = None
        # how often at each place, without the failure that had a line
        self._repeats: dict[str, int] = {}
        self._latest: dict[str, str] = {}

    def add(self, error: Exception, now_ms: int) -> list[Note]:
        """Return the log line about a failure; nothing if it is only counted."""
        is_first = self._last_ms is None or now_ms - self._last_ms > IN_A_ROW_MS
        self.pause_ms = (
            0 if is_first else min(max(2 * self.pause_ms, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
        )
        self._last_ms = now_ms
        place, why = _raised_at(error), f"{type(error).__name__}: {error}"
        if place not in self._repeats and len(self._repeats) >= MAX_PLACES:
            place = "other places"
        if place not in self._repeats:
            self._repeats[place] = 0
            return [Note("error", f"a step failed at {place}: {why}")]
        self._repeats[place] += 1
        self._latest[place] = why
        return []

    def take_counted(self) -> list[Note]:
        """Return a log line for each place with counted failures, and forget the other places."""
        again = {place: times for place, times in self._repeats.items() if times}
        notes = [
            Note(
                "error",
                f"{times:,} more steps failed at {place}, the last one with {self._latest[place]}",
            )
            for place, times in again.items()
        ]
        self._repeats = dict.fromkeys(again, 0)
        self._latest.clear()
        return notes

    def __bool__(self) -> bool:
        """Whether there is anything to count."""
        return bool(self._repeats)


def _raised_at(error: Exception) -> str:
    """Return the file and line where the error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "?"
        if trace is None
        else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
    )
