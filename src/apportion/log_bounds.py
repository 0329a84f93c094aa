"""The bounds of a partition's log, and offsets that lie outside of it.

Kafka calls such an offset out of range (OFFSET_OUT_OF_RANGE): retention has deleted the records at
it, or the log was truncated below it. Its reader does not go on there: `auto.offset.reset` decides
where it does. So an offset out of range has no lag, as a partition without a committed offset has
none, and a report shows the side beside the lag: 0 would look like health.
"""

from enum import StrEnum
from typing import NamedTuple


class OutOfRange(StrEnum):
    """The side of a log on which an offset out of range lies, as reports and metrics name it."""

    BEFORE_START = "before-start"
    AFTER_END = "after-end"


class LogBounds(NamedTuple):
    """The offsets of a partition that can be read now: `[start, end)`.

    start: the log start offset. end: the last stable offset. high_watermark: how far a reader of
    uncommitted records has come at most, where it was asked for; else `end` counts as that.
    """

    start: int
    end: int
    high_watermark: int | None = None

    def out_of_range(self, offset: int | None) -> OutOfRange | None:
        """Return on which side of the log the offset lies; None if a reader can go on there."""
        if offset is None:
            return None
        if offset < self.start:
            return OutOfRange.BEFORE_START
        return OutOfRange.AFTER_END if offset > max(self.end, self.high_watermark or 0) else None

    def nearest(self, offset: int) -> int:
        """Return the nearest offset at which a reader can go on."""
        return min(max(offset, self.start), self.end)

    def lag(self, offset: int | None) -> int | None:
        """Return the number of offsets ahead of `offset`; None without one, and out of range.

        As in Kafka's kafka-consumer-groups.sh, which shows "-" without one.
        """
        if offset is None or self.out_of_range(offset) is not None:
            return None
        return max(0, self.end - offset)

    def unread(self, committed: int | None) -> int | None:
        """Return the lag as a part of a sum: without a committed offset an empty log adds 0."""
        return 0 if committed is None and self.start == self.end else self.lag(committed)
