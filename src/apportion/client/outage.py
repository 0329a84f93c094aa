"""Log lines while a consumer's fetches fail: one at the beginning, one a minute, one at the end."""

import logging
import time

from apportion.readable import readable

log = logging.getLogger("apportion.consumer")

LOG_INTERVAL_S = 60.0


class Outage:
    """State of a consumer's outage: since when its fetches fail, and when that is logged again."""

    def __init__(self, group_id: str) -> None:
        self._group = readable(group_id)
        self._began_s: float | None = None
        self._log_again_s = 0.0

    def record_failure(self, error: Exception) -> None:
        """Log that a consumer's fetch has failed, at most once a minute."""
        now_s = time.monotonic()
        if self._began_s is None:
            self._began_s, self._log_again_s = now_s, now_s
        if now_s >= self._log_again_s:
            self._log_again_s = now_s + LOG_INTERVAL_S
            log.warning(
                "group %s: cannot fetch now, and tries again until it can: %s", self._group, error
            )

    def record_success(self) -> None:
        """Log that fetches are answered again, if they were not."""
        if self._began_s is not None:
            log.warning(
                "group %s: fetches again after %.0f s",
                self._group,
                time.monotonic() - self._began_s,
            )
            self._began_s = None
