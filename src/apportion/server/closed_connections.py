"""The log lines of closed connections, few for each host (`counted_lines.py`)."""

from apportion.server.counted_lines import LineCounter

OVERFLOW_HOST = "several hosts"


class ClosedConnectionLog:
    """The connections that were closed recently, by host."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        """Begin without closed connections."""
        self._lines = LineCounter(OVERFLOW_HOST)

    def __len__(self) -> int:
        """Return how many hosts are counted apart now."""
        return len(self._lines)

    def line_or_none(self, host: str, peer: str, reason: str) -> str | None:
        """Return the server's log line about a closed connection; None if it is only counted.

        host: the client's address. peer: the same with its port.
        """
        is_first = self._lines.is_first(host, reason, f"{peer}: {reason}")
        return f"closed the connection of {peer}: {reason}" if is_first else None

    def take_summary(self) -> list[str]:
        """Return log lines for the closed connections that were only counted."""
        return [
            f"closed {each.times:,} more connections of {each.source}"
            + (f", the last one of {each.latest}" if each.latest else ", for other reasons")
            for each in self._lines.take_counts()
        ]
