"""Exponential backoff of one member's requests."""

from apportion.machine import Instant


class Backoff:
    """The delay before the next request, doubled with each failure in a row up to a limit.

    not_before_ms: when the next request may be sent (monotonic).
    """

    def __init__(self, first_ms: int, longest_ms: int, limit_ms: int) -> None:
        """Begin without a failure.

        first_ms, longest_ms: the shortest and the longest delay. limit_ms: of `may_keep_waiting`.
        """
        self.not_before_ms = 0
        self._first_ms, self._longest_ms, self._limit_ms = first_ms, longest_ms, limit_ms
        self._failures = 0
        self._waiting_since_ms: int | None = None

    def reset_delay(self, now: Instant) -> None:
        """Let the next request be sent at once; failures in a row still count."""
        self.not_before_ms = now.mono_ms

    def record_success(self) -> None:
        """Forget all failures."""
        self._failures, self._waiting_since_ms = 0, None

    def record_failure(self, now: Instant, free: int = 0) -> None:
        """Delay a member's next request; the first `free` failures in a row cost nothing."""
        doublings = self._failures - free
        self._failures += 1
        # 20 doublings are more than any limit; the shift must not grow without end
        wait_ms = (
            0 if doublings < 0 else min(self._first_ms << min(doublings, 20), self._longest_ms)
        )
        self.not_before_ms = now.mono_ms + wait_ms

    def may_keep_waiting(self, now: Instant) -> bool:
        """Return whether to retry once more an error that only time can resolve.

        True until the limit has passed since the first such error in a row.
        """
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now.mono_ms
        return now.mono_ms - self._waiting_since_ms < self._limit_ms
