"""The time of the rebalance that an assignor asks for later (`FollowUp`)."""

from apportion.machine import Instant
from apportion.member.assignors.interface import FollowUp


class FollowUpDeadline:
    """The time by which a member has to ask for the rebalance that one of its assignors needs.

    at_ms: monotonic; None without one.
    """

    def __init__(self) -> None:
        self.at_ms: int | None = None
        self._planned: tuple[str, FollowUp] | None = None

    def plan(self, assignor: str, follow_up: FollowUp, now: Instant) -> None:
        """Set the deadline when the member is assigned; `assignor`, by name, has asked for it."""
        # Once: `after_ms` counts from the assignment, and not from whatever the member learns next.
        self.at_ms, self._planned = follow_up.due_ms(now), (assignor, follow_up)

    def take(self) -> tuple[str, FollowUp] | None:
        """Return who asked and for what, and have no deadline then; None without one."""
        planned = self._planned
        self.cancel()
        return planned

    def cancel(self) -> None:
        """Have no deadline until the next `plan`."""
        self.at_ms = self._planned = None
