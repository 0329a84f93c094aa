"""Sessions beyond a rollback: a member that is silent does not get another one for it.

A flush that fails takes back what was written since the last good one; also that a member is gone
whose session had ended. The shard is then read again from its log, where the member still is. After
a start of the broker it would have a whole session again, for nobody knows when it was heard last.
Here the shard before knows: what it counted goes on, and what had ended ends a moment later, as
Kafka tries again what a timer could not write.
"""

from collections.abc import Mapping
from itertools import islice

from apportion.coord.classic import state as classic
from apportion.coord.consumer import timers as consumer
from apportion.deadlines import Deadlines, Key
from apportion.machine import Instant

SESSIONS = (classic.SESSION, consumer.SESSION)
RETRY_MS = 500
"""As in Kafka. Not at once: the disk may refuse the next write, too."""
KEPT_MS = 60_000
"""An end is kept for this long. After a longer flush that fails, the member has a whole session."""


class EndedSessions:
    """The sessions of a shard that ended lately, and may have ended in vain."""

    __slots__ = ("_ended_ms",)

    def __init__(self) -> None:
        """Begin with none."""
        self._ended_ms: dict[Key, int] = {}  # oldest first

    def add(self, key: Key, now_ms: int) -> None:
        """Note that the session with this deadline ends now (monotonic)."""
        self._ended_ms.pop(key, None)
        self._ended_ms[key] = now_ms
        # Two at most for each that comes, so that many that end together are no long step.
        for oldest in tuple(islice(self._ended_ms, 2)):
            if self._ended_ms[oldest] < now_ms - KEPT_MS:
                del self._ended_ms[oldest]

    def go_on(self, before: Mapping[Key, int], after: Deadlines, now: Instant) -> None:
        """Let the sessions of this shard go on in the one that takes its place.

        before: what was armed in this one. after: the deadlines of the other. A session that is
        known to neither of the two is whole: a classic member has none while its request waits.
        """
        ends = dict.fromkeys(self._ended_ms, now.mono_ms + RETRY_MS)
        ends |= {key: at_ms for key, at_ms in before.items() if key[0] in SESSIONS}
        for key, at_ms in ends.items():
            if at_ms < after.armed.get(key, at_ms):
                after.arm(key, at_ms)
