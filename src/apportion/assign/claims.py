"""Who may keep what: claims of members that may be out of date, contradict each other, or both (KIP-341, KIP-792).

Every claim counts, of whatever generation: a member that missed some generations still uses what it claims, so nobody else may
have it before it was heard to let go. Of two that claim the same, the one who got it in the higher generation is right.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.assign.subscriptions import Vector, check_starts


class OwnershipClaims(NamedTuple):
    """Member m says to have `partitions[member_starts[m]:member_starts[m + 1]]` since `generations[m]`; -1 where it knows none."""

    member_starts: Vector
    partitions: Vector
    generations: Vector

    @property
    def members(self) -> Vector:
        """The member of each claim."""
        return np.repeat(np.arange(len(self.generations), dtype=np.int32), np.diff(self.member_starts))


class ResolvedOwners(NamedTuple):
    """What the claims come to, for each partition.

    owner: who claims it in the highest generation; -1 where nobody does or several do. former: who claims it in the next one, where
    there is an owner; -1 elsewhere. is_claimed: somebody claims it at all.
    """

    owner: Vector
    former_owner: Vector
    is_claimed: NDArray[np.bool_]


def resolve_claims(claims: OwnershipClaims, partitions: int) -> ResolvedOwners:
    """The claims to partitions 0..partitions-1, settled. A member may say the same twice.

    Raises ValueError for a claim to any other partition.
    """
    check_starts(claims.member_starts, len(claims.partitions), "member_starts", "claims")
    claimed = claims.partitions
    if len(claimed) and not 0 <= claimed.min() <= claimed.max() < partitions:
        stranger = int(claimed[(claimed < 0) | (claimed >= partitions)][0])
        raise ValueError(f"a member claims partition {stranger}, but there are {partitions}, counted from 0")
    members = claims.members
    owner = np.full(partitions, -1, np.int32)
    owner[claimed] = members
    former = np.full(partitions, -1, np.int32)
    is_claimed = owner >= 0
    several = np.bincount(claimed, minlength=partitions) > 1
    if several.any():
        disputed = np.flatnonzero(several[claimed])
        partition, member = claimed[disputed], members[disputed]
        generation = claims.generations[member]
        order = np.lexsort((member, -generation.astype(np.int64), partition))
        _resolve_disputed(owner, former, np.stack((partition, generation, member))[:, order])
    return ResolvedOwners(owner, former, is_claimed)


def _resolve_disputed(owner: Vector, former: Vector, disputed: NDArray[np.int32]) -> None:
    """Owner and former of disputed partitions. disputed: rows of partition, generation, member; highest generation first."""
    again = (np.diff(disputed[[0, 2]], prepend=-1) == 0).all(axis=0)
    partition, generation, member = disputed[:, ~again]
    first = np.flatnonzero(np.diff(partition, prepend=-1))
    second = np.minimum(first + 1, len(partition) - 1)
    has_rival = (second > first) & (partition[second] == partition[first])
    is_tied = has_rival & (generation[second] == generation[first])
    owner[partition[first]] = np.where(is_tied, -1, member[first])
    former[partition[first]] = np.where(has_rival & ~is_tied, member[second], -1)
