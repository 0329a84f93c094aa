"""Rule for the log lines of closed connections: the first of a kind gets one, others are counted.

A peer that sends garbage all day must not fill the disk with log lines. For each host, the first
connection that is closed for a kind of reason is logged at once, up to MAX_LINES_PER_HOST kinds.
All others are counted, and `take_summary` gives one line for them; the server logs it once a
minute. A host cannot use up the lines of another one. When there are MAX_HOSTS hosts, all further
hosts are counted as one. No clock, socket or logger is used here.
"""

import re
from collections import Counter

MAX_HOSTS = 64
"""How many hosts are counted apart."""
MAX_LINES_PER_HOST = 3
"""How many kinds of reasons of one host are logged at once."""
MAX_COUNTED_KINDS = 64
"""How many kinds of reasons of one host are counted apart."""
SUMMARY_INTERVAL_S = 60
"""How often the server logs a summary."""
OVERFLOW_HOST = "several hosts"


class _HostCounts:
    """The closed connections of one host: the kinds of reasons already logged, and the counts.

    A kind is a reason with every number replaced by `#`: sizes and keys differ in each frame.
    """

    __slots__ = ("counts", "last_reasons", "logged_kinds")

    def __init__(self) -> None:
        self.logged_kinds: dict[str, None] = {}
        self.counts: Counter[str] = Counter()
        self.last_reasons: dict[str, str] = {}


class ClosedConnectionLog:
    """The connections that were closed recently, by host."""

    __slots__ = ("_hosts",)

    def __init__(self) -> None:
        self._hosts: dict[str, _HostCounts] = {}

    def __len__(self) -> int:
        """Return how many hosts are counted apart now."""
        return len(self._hosts)

    def line_or_none(self, host: str, peer: str, reason: str) -> str | None:
        """Return the server's log line about a closed connection; None if it is only counted.

        host: the client's address. peer: the same with its port.
        """
        if host not in self._hosts and len(self._hosts) >= MAX_HOSTS:
            host = OVERFLOW_HOST
        if host not in self._hosts:
            self._hosts[host] = _HostCounts()
        closed = self._hosts[host]
        kind = re.sub("[0-9]+", "#", reason)
        if kind not in closed.logged_kinds and len(closed.logged_kinds) < MAX_LINES_PER_HOST:
            closed.logged_kinds[kind] = None
            return f"closed the connection of {peer}: {reason}"
        if kind not in closed.counts and len(closed.counts) >= MAX_COUNTED_KINDS:
            kind = ""
        closed.counts[kind] += 1
        closed.last_reasons[kind] = f"{peer}: {reason}"
        return None

    def take_summary(self) -> list[str]:
        """Return a log line for each host with counted closed connections, and reset the counts.

        The server calls it once a minute while there are any. The line gives the commonest kind of
        reason. A host without any since the last call is forgotten, so that its next connection is
        logged at once.
        """
        lines = []
        for host, closed in list(self._hosts.items()):
            if not closed.counts:
                del self._hosts[host]
                continue
            [(kind, count)] = closed.counts.most_common(1)
            share = f", {count:,} of them like" if len(closed.counts) > 1 else ", the last one of"
            lines.append(
                f"closed {closed.counts.total():,} more connections of {host}{share} "
                f"{closed.last_reasons[kind]}"
            )
            closed.counts.clear()
            closed.last_reasons.clear()
        return lines
