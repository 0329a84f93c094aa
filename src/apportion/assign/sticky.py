"""The client-side assignors `sticky` and `cooperative-sticky` of classic groups, for the leader.

Shares are those of `uniform`: equal, or min-max fair where subscriptions differ, with the fewest
moves.
"""

import numpy as np
from numpy.typing import NDArray

from apportion.assign.assignors import uniform
from apportion.assign.claims import OwnershipClaims, ResolvedOwners, resolve_claims
from apportion.assign.subscriptions import Subscriptions, Vector


def sticky(claims: OwnershipClaims, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return the owners by Kafka's eager assignor `sticky`: fair, with as few moves as possible.

    A move takes a partition from its owner by the newest claim (`resolve_claims`). A partition that
    must move goes back to its former owner, if that one gets a part of the topic anyway. Raises
    ValueError as `uniform` does.
    """
    return _assign_fairly(resolve_claims(claims, int(starts[-1])), starts, subscriptions)


def cooperative_sticky(
    claims: OwnershipClaims, starts: Vector, subscriptions: Subscriptions
) -> Vector:
    """Return the owners of `sticky`, with -1 for partitions that must be revoked first (KIP-429).

    Partitions that another member still claims must be revoked. Once that member has done so, it
    rejoins, and the next rebalance assigns them.
    """
    resolved = resolve_claims(claims, int(starts[-1]))
    owner = _assign_fairly(resolved, starts, subscriptions)
    # Any claim counts, even one of an old generation: that member reads the partition until it has
    # rejoined.
    return np.where(resolved.is_claimed & (owner != resolved.owner), np.int32(-1), owner)


def _assign_fairly(
    resolved: ResolvedOwners, starts: Vector, subscriptions: Subscriptions
) -> Vector:
    """Return the owners of `uniform`, with former owners preferred for what must move."""
    owner = uniform(resolved.owner, starts, subscriptions)
    moved = np.flatnonzero((owner != resolved.owner) & (owner >= 0))
    # As in Kafka's sticky assignor: a partition that must move goes back to its previous owner if
    # it can.
    if (resolved.former_owner[moved] >= 0).any():
        topics = np.searchsorted(starts, moved, side="right") - 1
        owner[moved] = _prefer_former_owners(topics, owner[moved], resolved.former_owner[moved])
    return owner


def _prefer_former_owners(
    topics: NDArray[np.int64], owner: Vector, former: Vector
) -> NDArray[np.int64]:
    """Permute a sticky assignor's new owners within each topic, so that former ones get most.

    topics: of each partition, ascending. former: -1 where there is none. Swapping owners within a
    topic changes no load, so fairness stays.
    """
    # Number each pair (topic, member). `slots` has the pair of every partition to hand out, sorted.
    # Of the partitions with the same former owner in a topic, the i-th takes the i-th slot of that
    # pair, if there is one; all others take the slots that are left. Both are in order of topics,
    # and each topic has as many of the one as of the other.
    members = int(max(owner.max(), former.max())) + 1
    slots = np.sort(topics * members + owner)
    has_former = np.flatnonzero(former >= 0)
    has_former = has_former[np.argsort((topics * members + former)[has_former], kind="stable")]
    former_slots = (topics * members + former)[has_former]
    slot = (
        np.searchsorted(slots, former_slots)
        + np.arange(len(former_slots))
        - np.searchsorted(former_slots, former_slots)
    )
    is_granted = slot < np.searchsorted(slots, former_slots, side="right")
    is_free, is_unused = np.ones(len(owner), np.bool_), np.ones(len(owner), np.bool_)
    is_free[has_former[is_granted]] = False
    is_unused[slot[is_granted]] = False
    result = former.astype(np.int64)
    result[is_free] = slots[is_unused] % members
    return result
