"""Counts of one group, and the time that it spent in each state: live state, which is not saved.

A restart of the broker begins at zero, as does a reload of the group's shard after a step or a
flush that failed. `metrics.py` reads them.
"""

from enum import Enum

from apportion.wire.group_states import GroupState


class Removal(Enum):
    """The reason for which a member was removed from its group."""

    LEFT = "left"
    SESSION_TIMEOUT = "session_timeout"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    FENCED = "fenced"  # another process took its group instance id over
    GROUP_FULL = "group_full"


class GroupCounts:
    """Counts of one group, and its times, since it appeared here.

    Each heartbeat changes one number here and looks at nothing else.
    """

    __slots__ = (
        "_since_ms",
        "_state_ms",
        "heartbeats",
        "rebalances",
        "removed",
        "state",
        "targets",
    )

    def __init__(self) -> None:
        """Begin with nothing, and in no state until `enter`."""
        self.heartbeats = 0
        self.rebalances = 0  # new group epochs, or generations
        self.targets = 0  # target assignments that were saved
        self.removed: dict[Removal, int] = {}
        self.state: GroupState | None = None  # as it was last noted
        self._since_ms = 0
        self._state_ms: dict[GroupState, int] = {}

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Note that the group is in `state` from now on (monotonic ms), if it was not already."""
        if state is self.state:
            return
        self._state_ms = self.state_ms(now_ms)
        self.state, self._since_ms = state, now_ms

    def state_ms(self, now_ms: int) -> dict[GroupState, int]:
        """Return the time in each state that the group was in, up to now (monotonic ms)."""
        times = dict(self._state_ms)
        if self.state is not None:
            times[self.state] = times.get(self.state, 0) + now_ms - self._since_ms
        return times

    def count_rebalance(self) -> None:
        """Count a new group epoch, or a new generation."""
        self.rebalances += 1

    def count_target(self) -> None:
        """Count a target assignment that was saved."""
        self.targets += 1

    def count_removed(self, reason: Removal, members: int = 1) -> None:
        """Count members that were removed from the group."""
        self.removed[reason] = self.removed.get(reason, 0) + members
