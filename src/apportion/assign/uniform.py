"""The `uniform` assignor for members with equal subscriptions: equal shares with the fewest moves.

Method: each member's share is partitions / members, rounded down or up, the larger shares to
members that have as much already. A member keeps the first partitions it has, up to its share; the
free ones are dealt in rounds to the members with room. No assignment with equal shares moves fewer,
because a member gives up only what exceeds its share. Cost: O(P).

Example. Partitions 0..4 belong to a (0, 1, 2, 3) and b (4); c joins. Shares are 2, 2, 1: a has as
much already, then comes b in order. a keeps 0 and 1, b keeps 4, and 2 and 3 are dealt to b and c.
"""

import numpy as np
from numpy.typing import NDArray

from apportion.assign.sticky_quota import free_above_quota, partition_counts
from apportion.assign.subscriptions import Vector, check_owner


def uniform_homogeneous(owner: Vector, members: int) -> Vector:
    """Return owners with shares that differ by 1 at most and the fewest partitions moved.

    Without members nothing is owned. Raises ValueError for an owner that is not a member.
    """
    check_owner(owner, members)
    if not members:
        return owner.copy()
    sizes = partition_counts(owner, members)
    shares = equal_shares(len(owner), sizes)
    new_owners = dealt_in_rounds(np.maximum(shares - sizes, 0))
    if len(new_owners) == len(owner):
        return new_owners  # nobody keeps anything
    result = owner.copy()
    result[free_above_quota(shares, owner, sizes)] = new_owners
    return result


def equal_shares(partitions: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each member's share; larger shares go first to members that already have as much."""
    share, larger = divmod(partitions, len(sizes))
    shares = np.full(len(sizes), share)
    shares[np.argsort(sizes <= share, kind="stable")[:larger]] += 1
    return shares


def dealt_in_rounds(spare: NDArray[np.int64]) -> Vector:
    """Return the members in the order in which they are dealt a partition: once a round while they
    have room.

    Member m appears `spare[m]` times. Dealing in rounds spreads each topic over the members.
    """
    with_room = np.flatnonzero(spare).astype(np.int32)
    rounds = np.arange(spare.max(initial=0))[:, None] < spare[with_room]
    return np.broadcast_to(with_room, rounds.shape)[rounds]
