"""The log lines of denied requests, few for each principal and host (`counted_lines.py`)."""

from apportion.node.authorization.denials import RequestDenied
from apportion.server.counted_lines import LineCounter

OVERFLOW_CALLER = "several callers"


class DeniedRequestLog:
    """The requests that were denied recently, by principal and host."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        """Begin without denied requests."""
        self._lines = LineCounter(OVERFLOW_CALLER)

    def __len__(self) -> int:
        """Return how many callers are counted apart now."""
        return len(self._lines)

    def line_or_none(self, denied: RequestDenied) -> str | None:
        """Return the server's log line about a denied request; None if it is only counted."""
        caller = f"{denied.principal} from {denied.host}"
        what = f"{denied.api}: no permission for {denied.what}"
        line = f"denied a request of {caller}, {what}"
        more = f" and {denied.further:,} more" if denied.further else ""
        return line + more if self._lines.is_first(caller, what, what + more) else None

    def take_summary(self) -> list[str]:
        """Return log lines for the denied requests that were only counted."""
        return [
            f"denied {each.times:,} more requests of {each.source}"
            + (f", the last one {each.latest}" if each.latest else ", of other kinds")
            for each in self._lines.take_counts()
        ]
