"""The clocks of this process, read in one place for every driver."""

import time

from apportion.machine import Instant


def now() -> Instant:
    """Read both clocks."""
    return Instant(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)
