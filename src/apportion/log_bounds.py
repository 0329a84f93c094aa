"""The bounds of a partition's log, and offsets that lie outside of it.

Kafka calls such an offset out of range (OFFSET_OUT_OF_RANGE): retention has deleted the records at
it, or the log was truncated below it. Its reader does not go on there: `auto.offset.reset` decides
where it does. So an offset out of range has no lag, as a partition without a committed offset has
none, and whoever shows a lag shows that, too: 0 would look like health.
"""

from enum import StrEnum
from typing import NamedTuple


class OutOfRange(StrEnum):
    """The side of a log on which an offset out of range lies, as reports and metrics name it."""

    BEFORE_START = "before-start"
    AFTER_END = "after-end"


class LogBounds(NamedTuple):
    """The offsets of a partition that can be read now: `[start, end)`.

    start: the log start offset. end: the last stable offset.
    """

    start: int
    end: int

    def out_of_range(self, offset: int) -> OutOfRange | None:
        """Return on which side of the log the offset lies; None if a reader can go on there."""
        if offset < self.start:
            return OutOfRange.BEFORE_START
        return OutOfRange.AFTER_END if offset > self.end else None

    def nearest(self, offset: int) -> int:
        """Return the nearest offset at which a reader can go on."""
        return min(max(offset, self.start), self.end)

    def lag(self, offset: int | None) -> int | None:
        """Return the number of offsets ahead of `offset`; None without one, and out of range."""
        if offset is None or self.out_of_range(offset) is not None:
            return None
        return self.end - offset
