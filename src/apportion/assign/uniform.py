"""`uniform` where every member wants the same topics: equal shares, and not one move more than they need."""

import numpy as np
from numpy.typing import NDArray

from apportion.assign.sticky_quota import free_above_quota, partition_counts
from apportion.assign.subscriptions import Vector, check_owner


def uniform_homogeneous(owner: Vector, members: int) -> Vector:
    """Every partition has an owner, shares differ by at most 1, and no such assignment takes fewer partitions from an owner.

    A member keeps the first partitions it has; those that are free go round the members with room, so that each topic is spread.
    With no members nobody owns anything. Raises ValueError for an owner that is not a member.
    """
    check_owner(owner, members)
    if not members:
        return owner.copy()
    sizes = partition_counts(owner, members)
    shares = equal_shares(len(owner), sizes)
    newcomers = dealt_in_rounds(np.maximum(shares - sizes, 0))
    if len(newcomers) == len(owner):
        return newcomers  # nobody keeps anything
    result = owner.copy()
    result[free_above_quota(shares, owner, sizes)] = newcomers
    return result


def equal_shares(partitions: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each member's share of so many partitions: they differ by at most 1, and the larger ones go first to who has as much."""
    share, larger = divmod(partitions, len(sizes))
    shares = np.full(len(sizes), share)
    shares[np.argsort(sizes <= share, kind="stable")[:larger]] += 1
    return shares


def dealt_in_rounds(room: NDArray[np.int64]) -> Vector:
    """The members in the order in which they are dealt a partition: each once a round while it has room, `room[m]` times in all."""
    seats = np.flatnonzero(room).astype(np.int32)
    rounds = np.arange(room.max(initial=0))[:, None] < room[seats]
    return np.broadcast_to(seats, rounds.shape)[rounds]
