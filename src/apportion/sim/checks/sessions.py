"""When the sessions of a consumer group's members may end, by the heartbeats that were accepted.

A session lasts for the timeout that its group had at the member's last accepted heartbeat. Which of
the heartbeats under way that is, an observer learns only from the answers; so for a while the
shortest of several timeouts counts. All times are of the broker's monotonic clock.
"""

from collections.abc import Iterable


class Sessions:
    """The sessions of the members of all consumer groups, by member id."""

    def __init__(self) -> None:
        self._last_heartbeat_ms: dict[str, int] = {}  # of those that were accepted
        # the session timeout by its last accepted heartbeat, and the least by any since
        self._timeout_ms: dict[str, int] = {}
        self._later_timeout_ms: dict[str, int] = {}

    def heartbeat_processed(self, member_id: str, timeout_ms: int) -> None:
        """Note a heartbeat that was processed while its group had that session timeout."""
        least_ms = self._later_timeout_ms.get(member_id, timeout_ms)
        self._later_timeout_ms[member_id] = min(least_ms, timeout_ms)

    def restarted(self, member_id: str, since_ms: int) -> None:
        """Note that the member's session began anew, at the latest when its request came."""
        last_ms = self._last_heartbeat_ms.get(member_id, 0)
        self._last_heartbeat_ms[member_id] = max(last_ms, since_ms)
        if member_id in self._later_timeout_ms:
            self._timeout_ms[member_id] = self._later_timeout_ms.pop(member_id)

    def recovered(self, member_ids: Iterable[str], now_ms: int, timeout_ms: int) -> None:
        """Note that a broker has loaded the group of these members, and begun their sessions."""
        for member_id in member_ids:
            self._last_heartbeat_ms[member_id] = now_ms
            self._timeout_ms[member_id] = timeout_ms
            self._later_timeout_ms.pop(member_id, None)

    def silent_ms(self, member_id: str, now_ms: int) -> int:
        """Return how long ago the member's last accepted heartbeat was."""
        return now_ms - self._last_heartbeat_ms.get(member_id, 0)

    def timeout_ms(self, member_id: str, own_ms: int, *, is_classic: bool) -> int:
        """Return the shortest session timeout by which the member may have been removed.

        own_ms: the timeout that a classic member has brought itself.
        """
        timeout_ms = own_ms if is_classic else self._timeout_ms.get(member_id, own_ms)
        return min(timeout_ms, self._later_timeout_ms.get(member_id, timeout_ms))
