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
    """The median time of a call, after one that does not count."""
    call()
    spent = []
    for _ in range(times):
        start = perf_counter()
        call()
        spent.append((perf_counter() - start) * 1e3)
    return median(spent)


def homogeneous() -> dict[str, float]:
    """The first assignment, one member that joins, one that leaves."""
    nobody = np.full(PARTITIONS, -1, np.int32)
    owner = uniform_homogeneous(nobody, MEMBERS)
    gone = MEMBERS // 2
    left = np.where(owner == gone, -1, owner - (owner > gone)).astype(np.int32)
    return {
        "uniform_first_ms": milliseconds(lambda: uniform_homogeneous(nobody, MEMBERS)),
        "uniform_join_ms": milliseconds(lambda: uniform_homogeneous(owner, MEMBERS + 1)),
        "uniform_leave_ms": milliseconds(lambda: uniform_homogeneous(left, MEMBERS - 1)),
    }


def heterogeneous() -> float:
    """One member joins 1,000 others; each wants 10 of 100 topics of 1,000 partitions."""
    random = np.random.default_rng(1)
    wants = [random.choice(100, 10, replace=False) for _ in range(1_001)]
    starts = np.arange(0, 100_001, 1_000, dtype=np.int32)
    owner = uniform_heterogeneous(
        np.full(100_000, -1, np.int32), starts, Subscriptions.of(wants[:-1])
    )
    joined = Subscriptions.of(wants)
    return milliseconds(lambda: uniform_heterogeneous(owner, starts, joined))


def run() -> list[dict[str, Any]]:
    """The rows of `make bench`."""
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
