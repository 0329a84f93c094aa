"""Rule for log lines that peers cause: the first of a kind gets one, others are counted.

A peer that sends garbage all day must not fill the disk with log lines. Each line has a source,
such as a host. The first line of a kind is logged at once, up to MAX_LINES kinds of one source. All
others are counted, and `take_counts` gives the commonest kinds of each source; the server logs them
once a minute. A source cannot use up the lines of another one, nor hide its own rare kinds behind a
common one. When there are MAX_SOURCES sources, all further ones are counted as one. No clock,
socket or logger is used here.
"""

import re
from collections import Counter
from typing import NamedTuple

MAX_SOURCES = 64
"""How many sources are counted apart."""
MAX_LINES = 3
"""How many kinds of lines of one source are logged at once."""
MAX_SUMMARY_LINES = 5
"""How many kinds of one source are counted in lines of their own; all others are in one more."""
MAX_COUNTED_KINDS = 64
"""How many kinds of lines of one source are counted apart."""
SUMMARY_INTERVAL_S = 60
"""How often the server logs the counts."""


class CountedLines(NamedTuple):
    """The lines of a kind that were only counted. latest: the last of them; "" for all others."""

    source: str
    times: int
    latest: str


class _SourceCounts:
    """The lines of one source: the kinds already logged, and the counts.

    A kind is a line with every number replaced by `#`: sizes and keys differ in each frame.
    """

    __slots__ = ("counts", "latest", "logged_kinds")

    def __init__(self) -> None:
        self.logged_kinds: dict[str, None] = {}
        self.counts: Counter[str] = Counter()
        self.latest: dict[str, str] = {}


class LineCounter:
    """The lines of late, by source."""

    __slots__ = ("_overflow", "_sources")

    def __init__(self, overflow: str) -> None:
        """Begin without lines. overflow: what the sources are called that are counted as one."""
        self._overflow = overflow
        self._sources: dict[str, _SourceCounts] = {}

    def __len__(self) -> int:
        """Return how many sources are counted apart now."""
        return len(self._sources)

    def is_first(self, source: str, line: str, latest: str) -> bool:
        """Return whether the line is to be logged now; it is counted otherwise.

        latest: the line as `take_counts` returns it, with what differs within a kind.
        """
        if source not in self._sources and len(self._sources) >= MAX_SOURCES:
            source = self._overflow
        if source not in self._sources:
            self._sources[source] = _SourceCounts()
        lines = self._sources[source]
        kind = re.sub("[0-9]+", "#", line)
        if kind not in lines.logged_kinds and len(lines.logged_kinds) < MAX_LINES:
            lines.logged_kinds[kind] = None
            return True
        if kind not in lines.counts and len(lines.counts) >= MAX_COUNTED_KINDS:
            kind = ""
        lines.counts[kind] += 1
        lines.latest[kind] = latest
        return False

    def take_counts(self) -> list[CountedLines]:
        """Return the counts of each source, and reset them; its commonest kinds come first.

        The server calls it once a minute while there are any. A source without any since the last
        call is forgotten, so that its next line is logged at once.
        """
        taken = []
        for source, lines in list(self._sources.items()):
            if not lines.counts:
                del self._sources[source]
                continue
            common = lines.counts.most_common(MAX_SUMMARY_LINES)
            taken += [CountedLines(source, count, lines.latest[kind]) for kind, count in common]
            others = lines.counts.total() - sum(count for _, count in common)
            if others:
                taken.append(CountedLines(source, others, ""))
            lines.counts.clear()
            lines.latest.clear()
        return taken
