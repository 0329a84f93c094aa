"""One step of a member: the instant of its event, and the actions that follow."""

from apportion.machine import Instant, Note
from apportion.member.membership import Action


class Step:
    """The step that an event causes; the methods that take part in it add their actions.

    actions: in the order in which they are to be performed.
    """

    def __init__(self, now: Instant) -> None:
        self.now = now
        self.actions: list[Action] = []

    def emit(self, *actions: Action) -> None:
        """Add actions, in this order."""
        self.actions += actions

    def warn(self, text: str) -> None:
        """Add a warning for the log."""
        self.emit(Note("warning", text))

    def is_due(self, at_ms: int | None) -> bool:
        """Return whether this time has come (monotonic); None never does."""
        return at_ms is not None and self.now.mono_ms >= at_ms
