"""A classic member's contact with its coordinator: when it may have been removed unnoticed."""

from apportion.member.classic.requests import ClassicSettings


class CoordinatorContact:
    """The times of the last accepted requests of one classic member, on the monotonic clock.

    accepted_ms: when the last response came; None before the first.
    """

    def __init__(self, settings: ClassicSettings) -> None:
        self.accepted_ms: int | None = None
        self._settings = settings
        # when the last request was sent that showed the coordinator that the member is alive
        self._confirmed_ms = 0
        # when the last request was sent whose response asked for no rebalance
        self._settled_ms = 0

    def record(self, now_ms: int, sent_ms: int, *, is_settled: bool) -> None:
        """Note an accepted request. is_settled: its response asked for no rebalance."""
        self.accepted_ms, self._confirmed_ms = now_ms, sent_ms
        if is_settled:
            self._settled_ms = sent_ms

    def may_have_been_removed(self, now_ms: int) -> bool:
        """Return whether the coordinator may have removed the member since the last contact.

        It may after a session timeout without contact, and after a rebalance timeout without a
        response that asked for no rebalance: REBALANCE_IN_PROGRESS prolongs the session, but not
        the deadline for the JoinGroup.
        """
        return (
            now_ms - self._confirmed_ms > self._settings.session_timeout_ms
            or now_ms - self._settled_ms > self._settings.rebalance_timeout_ms
        )
