"""Which closed connections have a line in the log, and which are only counted.

A peer that sends nonsense all day must not fill a disk.

The first connections of a host that are closed have a line each, one for a reason; what else is
closed of that host is counted until `counted` is asked, once a minute, and then has one line. A
host never takes the lines of another. Of more than MAX_HOSTS hosts, those that come last are
counted together. It refuses to know clocks, sockets and loggers.
"""

import re
from collections import Counter

MAX_HOSTS = 64
"""How many hosts are told apart."""
MAX_REASON_LINES = 3
"""How many reasons of one host have a line of their own."""
MAX_COUNTED_REASONS = 64
"""How many reasons of one host are counted apart."""
SUMMARY_INTERVAL_S = 60
"""How often the counts are to be asked for."""
OTHERS = "several hosts"


class _Host:
    """What was closed of one host since `counted`, and which of its reasons had a line of late."""

    __slots__ = ("latest", "times", "told")

    def __init__(self) -> None:
        self.told: dict[str, None] = {}
        self.times: Counter[str] = Counter()
        self.latest: dict[str, str] = {}


class ClosedConnectionLog:
    """The connections that were closed recently, by host."""

    __slots__ = ("_hosts",)

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    def __len__(self) -> int:
        """How many hosts are told apart."""
        return len(self._hosts)

    def line_or_none(self, host: str, peer: str, why: str) -> str | None:
        """Return the line about this connection; None if it is only counted. host: without the port
        that `peer` ends with.
        """
        if host not in self._hosts and len(self._hosts) >= MAX_HOSTS:
            host = OTHERS
        if host not in self._hosts:
            self._hosts[host] = _Host()
        seen = self._hosts[host]
        reason = re.sub("[0-9]+", "#", why)  # the numbers are others in each frame
        if reason not in seen.told and len(seen.told) < MAX_REASON_LINES:
            seen.told[reason] = None
            return f"closed the connection of {peer}: {why}"
        if reason not in seen.times and len(seen.times) >= MAX_COUNTED_REASONS:
            reason = ""
        seen.times[reason] += 1
        seen.latest[reason] = f"{peer}: {why}"
        return None

    def counted(self) -> list[str]:
        """Return a line for each host that came again since the last call, with its commonest
        reason; forget the other hosts.
        """
        lines = []
        for host, seen in list(self._hosts.items()):
            if not seen.times:
                del self._hosts[host]
                continue
            [(reason, times)] = seen.times.most_common(1)
            often = f", {times:,} of them like" if len(seen.times) > 1 else ", the last one of"
            lines.append(
                f"closed {seen.times.total():,} more connections of {host}{often} "
                f"{seen.latest[reason]}"
            )
            seen.times.clear()
            seen.latest.clear()
        return lines
