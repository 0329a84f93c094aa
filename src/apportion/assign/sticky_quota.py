"""What stickiness lets go: everything above a quota, and nothing else."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apportion.assign.subscriptions import Vector

SLICE_LENGTH = 1 << 16
"""NumPy copies 32-bit indices to 64 bits. In pieces the copies stay in the cache; fresh pages would cost more than the counting."""


def partition_counts(place: Vector, places: int) -> NDArray[np.int64]:
    """How many partitions are at each of 0..places-1; those at -1 are nowhere and not counted."""
    sizes = np.zeros(places + 1, np.int64)
    if len(place) and place.max() >= 0:
        for piece in cache_sized_slices(len(place), places):
            sizes += np.bincount(place[piece] + np.int32(1), minlength=places + 1)
    return sizes[1:]


def free_above_quota(quota: NDArray[np.int64], place: Vector, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for each partition that is at no place, or comes after the first `quota[p]` partitions of its place p."""
    free = place < 0
    over = sizes > quota
    if not over.any():
        return free
    is_over = np.append(over, False)  # the last row answers for place -1
    found = [np.flatnonzero(is_over.take(place[piece], mode="wrap")) + piece.start for piece in cache_sized_slices(len(place), 0)]
    at_over = np.concatenate(found)
    group = place[at_over]
    if len(over) <= 1 << 16:
        group = group.astype(np.uint16)  # NumPy sorts 16-bit numbers by radix: eight times faster
    order = np.argsort(group, kind="stable")
    sorted_place = place[at_over[order]]
    counts = np.where(over, sizes, 0)
    rank = np.arange(len(order)) - (np.cumsum(counts) - counts)[sorted_place]
    free[at_over[order[rank >= quota[sorted_place]]]] = True
    return free


def cache_sized_slices(length: int, at_least: int) -> Iterator[slice]:
    """Slices that cover 0..length-1 one after the other."""
    step = max(SLICE_LENGTH, at_least)
    return (slice(first, first + step) for first in range(0, length, step))
