"""Log lines of an outage: one at its beginning, then one a minute, and one at its end."""

import logging
import time

from apportion.readable import readable

LOG_INTERVAL_S = 60.0


class Outage:
    """State of one outage of the brokers: when it began, and when its error is logged again."""

    def __init__(self, log: logging.Logger, group_id: str) -> None:
        """Begin without an outage. log: the logger of the group's consumer, or of its session."""
        self._log, self._group = log, readable(group_id)
        self._began_s: float | None = None
        self._log_again_s = 0.0

    def begin(self) -> None:
        """Remember since when the outage lasts, without a log line."""
        if self._began_s is None:
            self._began_s = self._log_again_s = time.monotonic()

    def record_failure(self, text: str) -> None:
        """Log that something has failed, at most once a minute."""
        self.begin()
        now_s = time.monotonic()
        if now_s >= self._log_again_s:
            self._log_again_s = now_s + LOG_INTERVAL_S
            self._log.warning("group %s: %s", self._group, text)

    def record_success(self, text: str) -> None:
        """Log that the outage is over and how long it lasted; nothing if there was none."""
        if self._began_s is not None:
            lasted_s = time.monotonic() - self._began_s
            self._log.warning("group %s: %s after %.0f s", self._group, text, lasted_s)
            self._began_s = None
