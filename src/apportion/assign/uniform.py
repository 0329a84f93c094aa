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
    counts = partition_counts(owner, members)
    shares = equal_shares(len(owner), counts)
    new_owners = members_in_rounds(np.maximum(shares - counts, 0))
    if len(new_owners) == len(owner):
        return new_owners  # no partition stays with its owner
    result = owner.copy()
    result[free_above_quota(shares, owner, counts)] = new_owners
    return result


def equal_shares(partitions: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the `uniform` assignor's shares; larger ones go first to members that have as much."""
    share, larger = divmod(partitions, len(counts))
    shares = np.full(len(counts), share)
    # A stable sort, False first: members above the rounded-down share, then the others in order.
    shares[np.argsort(counts <= share, kind="stable")[:larger]] += 1
    return shares


def members_in_rounds(missing: NDArray[np.int64]) -> Vector:
    """Return the members in the order in which each gets one more partition, round by round.

    missing: how many partitions each member still gets; member m appears `missing[m]` times. Going
    in rounds spreads the partitions of each topic over the members.
    """
    receivers = missing.nonzero()[0].astype(np.int32)
    is_dealt = np.arange(missing.max(initial=0))[:, None] < missing[receivers]
    return np.broadcast_to(receivers, is_dealt.shape)[is_dealt]
