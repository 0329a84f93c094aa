"""`sticky` and `cooperative-sticky`: Kafka's rules for clients, on what members claim to have.

Shares are those of `uniform`: equal, or min-max fair where members want different topics, with the fewest moves.
"""

import numpy as np
from numpy.typing import NDArray

from apportion.assign.assignors import uniform
from apportion.assign.claims import OwnershipClaims, ResolvedOwners, resolve_claims
from apportion.assign.subscriptions import Subscriptions, Vector


def sticky(claims: OwnershipClaims, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Shares are fair, and no fair answer takes fewer partitions from a rightful owner that wants them.

    What changes hands goes back to a former owner where that one gets something of the topic. Raises ValueError as `uniform` does.
    """
    return _assign_fairly(resolve_claims(claims, int(starts[-1])), starts, subscriptions)


def cooperative_sticky(claims: OwnershipClaims, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """The same without what is not free yet: -1 for each partition that anybody claims and that is not its rightful owner's.

    Once its claimants have let go of it, the next assignment gives it away.
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


def _prefer_former_owners(topics: NDArray[np.int64], owner: Vector, former: Vector) -> NDArray[np.int64]:
    """Each topic's owners in another order, so that as many partitions as possible are their former owner's.

    topics: of each partition, ascending. former: -1 where there is none.
    """
    members = int(max(owner.max(), former.max())) + 1
    seats = np.sort(topics * members + owner)
    wishing = np.flatnonzero(former >= 0)
    wishing = wishing[np.argsort((topics * members + former)[wishing], kind="stable")]
    wishes = (topics * members + former)[wishing]
    place = np.searchsorted(seats, wishes) + np.arange(len(wishes)) - np.searchsorted(wishes, wishes)
    granted = place < np.searchsorted(seats, wishes, side="right")
    is_free, is_left = np.ones(len(owner), np.bool_), np.ones(len(owner), np.bool_)
    is_free[wishing[granted]] = False
    is_left[place[granted]] = False
    result = former.astype(np.int64)
    result[is_free] = seats[is_left] % members
    return result
