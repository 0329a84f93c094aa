"""The client-side assignors `sticky` and `cooperative-sticky` of classic groups, on the members'
claims.

Shares are those of `uniform`: equal, or min-max fair where subscriptions differ, with the fewest
moves.
"""

import numpy as np
from numpy.typing import NDArray

from apportion.assign.assignors import uniform
from apportion.assign.claims import OwnershipClaims, ResolvedOwners, resolve_claims
from apportion.assign.subscriptions import Subscriptions, Vector


def sticky(claims: OwnershipClaims, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return fair owners that take as few partitions as possible from their rightful owners.

    A partition that must move goes back to its former owner if that one gets part of the topic
    anyway. Raises ValueError as `uniform` does.
    """
    return _assign_fairly(resolve_claims(claims, int(starts[-1])), starts, subscriptions)


def cooperative_sticky(
    claims: OwnershipClaims, starts: Vector, subscriptions: Subscriptions
) -> Vector:
    """Return the owners of `sticky`, with -1 for each partition that another member still claims
    (KIP-429).

    Once its claimants have revoked it, the assignment of the next rebalance gives it away.
    """
    held = resolve_claims(claims, int(starts[-1]))
    owner = _assign_fairly(held, starts, subscriptions)
    return np.where(held.is_claimed & (owner != held.owner), np.int32(-1), owner)


def _assign_fairly(held: ResolvedOwners, starts: Vector, subscriptions: Subscriptions) -> Vector:
    owner = uniform(held.owner, starts, subscriptions)
    moved = np.flatnonzero((owner != held.owner) & (owner >= 0))
    if (held.former_owner[moved] >= 0).any():
        topics = np.searchsorted(starts, moved, side="right") - 1
        owner[moved] = _prefer_former_owners(topics, owner[moved], held.former_owner[moved])
    return owner


def _prefer_former_owners(
    topics: NDArray[np.int64], owner: Vector, former: Vector
) -> NDArray[np.int64]:
    """Permute the new owners within each topic so that as many partitions as possible go to former
    owners.

    topics: of each partition, ascending. former: -1 where there is none. Swapping owners within a
    topic changes no load, so fairness stays.
    """
    members = int(max(owner.max(), former.max())) + 1
    slots = np.sort(topics * members + owner)
    has_former = np.flatnonzero(former >= 0)
    has_former = has_former[np.argsort((topics * members + former)[has_former], kind="stable")]
    wanted = (topics * members + former)[has_former]
    slot = np.searchsorted(slots, wanted) + np.arange(len(wanted)) - np.searchsorted(wanted, wanted)
    granted = slot < np.searchsorted(slots, wanted, side="right")
    is_free, is_left = np.ones(len(owner), np.bool_), np.ones(len(owner), np.bool_)
    is_free[has_former[granted]] = False
    is_left[slot[granted]] = False
    result = former.astype(np.int64)
    result[is_free] = slots[is_left] % members
    return result
