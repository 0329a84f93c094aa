"""Rule of sticky assignors: an owner with a quota keeps its first partitions.

An owner is a member for `uniform.py`, and a pair (member, topic) for `heterogeneous.py`; -1 means
none.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apportion.assign.subscriptions import Vector

SLICE_LENGTH = 1 << 16
"""NumPy copies 32-bit indices to 64 bits. In pieces the copies stay in the cache; fresh pages would
cost more than the counting.
"""


def partition_counts(owner: Vector, owners: int) -> NDArray[np.int64]:
    """Return how many partitions each of the owners 0..owners-1 has, for sticky assignors."""
    sizes = np.zeros(owners + 1, np.int64)
    if len(owner) and owner.max() >= 0:
        for part in cache_sized_slices(len(owner), owners):
            sizes += np.bincount(owner[part] + np.int32(1), minlength=owners + 1)
    return sizes[1:]


def free_above_quota(
    quota: NDArray[np.int64], owner: Vector, counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return True for each partition without an owner or above its owner's quota, for `sticky`.

    A sticky assignor may give such a partition to another owner. An owner keeps its first `quota`
    partitions.
    counts: how many each owner has.
    """
    free = owner < 0
    over = counts > quota
    if not over.any():
        return free
    is_over = np.zeros(len(over) + 1, np.bool_)  # the last element answers for owner -1
    is_over[:-1] = over
    above_quota_parts = [
        is_over.take(owner[part], mode="wrap").nonzero()[0] + part.start
        for part in cache_sized_slices(len(owner), 0)
    ]
    candidates = np.concatenate(above_quota_parts)
    candidate_owners = owner[candidates]
    if len(over) <= 1 << 16:
        candidate_owners = candidate_owners.astype(
            np.uint16
        )  # NumPy sorts 16-bit numbers by radix: eight times faster
    order = candidate_owners.argsort(kind="stable")
    sorted_owner = owner[candidates[order]]
    over_counts = counts * over
    rank = np.arange(len(order)) - (over_counts.cumsum() - over_counts)[sorted_owner]
    free[candidates[order[rank >= quota[sorted_owner]]]] = True
    return free


def cache_sized_slices(length: int, at_least: int) -> Iterator[slice]:
    """Return consecutive slices that cover 0..length-1, each small enough for the cache."""
    step = max(SLICE_LENGTH, at_least)
    return (slice(first, first + step) for first in range(0, length, step))
