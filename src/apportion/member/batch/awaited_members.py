"""The members that a query waits for before it takes over a group, and whether they have gone.

They may be lost: the coordinator removes a lost member after a session timeout, counted anew when
it starts again. So what counts is for how long looks at the group have shown the same members.
"""

from typing import NamedTuple

from apportion.member.queries import MembershipSnapshot

CLAIM_GRACE_MS = 5_000
LONGEST_GAP_MS = 5_000
"""How much of the time between the ends of two looks at the group counts at most. No more than the
grace: a host that was frozen once has left a whole session to the members."""


class AwaitedMembers(NamedTuple):
    """The members of the group that a query waits for.

    members: None while it waits for none. seen_ms: when the last look at the group ended
    (monotonic). watched_ms: for how long all looks have shown the same. watched_before_ms: the same
    when the last look began. interruptions: as of the last look.
    """

    members: tuple[str, ...] | None = None
    seen_ms: int = 0
    watched_ms: int = 0
    watched_before_ms: int = 0
    interruptions: int = 0

    def observe(self, members: tuple[str, ...], snapshot: MembershipSnapshot) -> "AwaitedMembers":
        """Return the awaited members after a look at the group, which has shown these.

        snapshot: read at the end of the look.
        """
        now_ms, interruptions = snapshot.read_at_ms, snapshot.interruptions
        # A coordinator that has started again gives lost members a whole session.
        if members != self.members or interruptions != self.interruptions:
            return AwaitedMembers(members, now_ms, interruptions=interruptions)
        # In a long gap the host may have been frozen, and the other queries with it: they have not
        # had that time to name their sink. But a query with a long trigger interval has gaps alone.
        counted_ms = min(now_ms - self.seen_ms, LONGEST_GAP_MS)
        return self._replace(
            seen_ms=now_ms,
            watched_ms=self.watched_ms + counted_ms,
            watched_before_ms=self.watched_ms,
        )

    def have_stayed(self, session_timeout_ms: int) -> bool:
        """Return whether the group has kept them for longer than a session timeout.

        A lost member with the session timeout of this query is removed within that time, unless
        the coordinator starts again.
        """
        # When the last look began, and not when it ended: its answers may be as old as that.
        return self.watched_before_ms > session_timeout_ms + CLAIM_GRACE_MS
