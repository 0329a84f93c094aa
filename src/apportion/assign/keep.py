"""What stickiness lets go: everything above a quota, and nothing else."""

import numpy as np
from numpy.typing import NDArray

from apportion.assign.subscriptions import Vector


def sizes_of(place: Vector, places: int) -> NDArray[np.int64]:
    """How many partitions are at each of 0..places-1; those at -1 are nowhere and not counted."""
    if not len(place) or place.max() < 0:
        return np.zeros(places, np.int64)
    return np.bincount(place + np.int32(1), minlength=places + 1)[1:]


def free_above(quota: NDArray[np.int64], place: Vector, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for each partition that is at no place, or comes after the first `quota[p]` partitions of its place p."""
    free = place < 0
    over = sizes > quota
    if not over.any():
        return free
    # The last row of the table answers for place -1.
    at_over = np.flatnonzero(np.append(over, False).take(place, mode="wrap"))
    group = place[at_over]
    if len(over) <= 1 << 16:
        group = group.astype(np.uint16)  # NumPy sorts 16-bit numbers by radix: eight times faster
    order = np.argsort(group, kind="stable")
    sorted_place = place[at_over[order]]
    counts = np.where(over, sizes, 0)
    rank = np.arange(len(order)) - (np.cumsum(counts) - counts)[sorted_place]
    free[at_over[order[rank >= quota[sorted_place]]]] = True
    return free
