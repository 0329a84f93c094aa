"""How long the assignors take, from owner vector to owner vector."""

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from apportion.assign.heterogeneous import uniform_heterogeneous
from apportion.assign.subscriptions import Subscriptions
from apportion.assign.uniform import uniform_homogeneous

MEMBERS, PARTITIONS = 10_000, 1_000_000
TARGET_MS = 10


def milliseconds(call: Callable[[], object], times: int = 15) -> float:
    """Return the median time of a call, after one that does not count."""
    call()
    times_ms = []
    for _ in range(times):
        start = perf_counter()
        call()
        times_ms.append((perf_counter() - start) * 1e3)
    return median(times_ms)


def homogeneous() -> dict[str, float]:
    """Return the times of the first assignment, of one join, and of one leave."""
    no_owner = np.full(PARTITIONS, -1, np.int32)
    owner = uniform_homogeneous(no_owner, MEMBERS)
    left_member = MEMBERS // 2
    after_leave = np.where(owner == left_member, -1, owner - (owner > left_member)).astype(np.int32)
    return {
        "uniform_first_ms": milliseconds(lambda: uniform_homogeneous(no_owner, MEMBERS)),
        "uniform_join_ms": milliseconds(lambda: uniform_homogeneous(owner, MEMBERS + 1)),
        "uniform_leave_ms": milliseconds(lambda: uniform_homogeneous(after_leave, MEMBERS - 1)),
    }


def heterogeneous() -> float:
    """Return the time of one join to 1,000 members with 10 of 100 topics of 1,000 partitions."""
    random = np.random.default_rng(1)
    subscribed_topics = [random.choice(100, 10, replace=False) for _ in range(1_001)]
    starts = np.arange(0, 100_001, 1_000, dtype=np.int32)
    owner = uniform_heterogeneous(
        np.full(100_000, -1, np.int32), starts, Subscriptions.of(subscribed_topics[:-1])
    )
    joined = Subscriptions.of(subscribed_topics)
    return milliseconds(lambda: uniform_heterogeneous(owner, starts, joined))


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    rows = [
        {"name": name, "value": value, "unit": "ms", "target": TARGET_MS, "better": "lower"}
        for name, value in homogeneous().items()
    ]
    return [
        *rows,
        {
            "name": "uniform_heterogeneous_ms",
            "value": heterogeneous(),
            "unit": "ms",
            "target": None,
            "better": "lower",
        },
    ]
