"""Owners of partitions by members' claims that may contradict each other (KIP-341, KIP-792).

For the sticky assignors of classic groups, members report the partitions they own and the
generation in which they got them. Every claim counts, of whatever generation: a member that missed
some generations still uses what it claims, so no other member may get it before that one has
released it. Of two claims to the same partition the one of the higher generation is right; of two
in the same generation none is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.assign.subscriptions import Vector, check_starts


class OwnershipClaims(NamedTuple):
    """The partitions that each member says it owns, with the generation since when.

    Member m claims `partitions[member_starts[m]:member_starts[m + 1]]`, since `generations[m]`;
    generation -1: the member reported none.
    """

    member_starts: Vector
    partitions: Vector
    generations: Vector

    @property
    def members(self) -> Vector:
        """The index of the member that makes each claim, as long as `partitions`.

        A claim is one partition in a member's reported owned partitions.
        """
        return np.repeat(
            np.arange(len(self.generations), dtype=np.int32), np.diff(self.member_starts)
        )


class ResolvedOwners(NamedTuple):
    """The outcome of the claims, for each partition.

    owner: the member with the claim of the highest generation; -1 without a claim or with a tie.
    former_owner: the member with the next lower claim, where there is an owner; -1 elsewhere.
    is_claimed: True if any member claims the partition.
    """

    owner: Vector
    former_owner: Vector
    is_claimed: NDArray[np.bool_]


def resolve_claims(claims: OwnershipClaims, partitions: int) -> ResolvedOwners:
    """Resolve members' claims to own partitions 0..partitions-1, for the sticky assignors.

    A member may repeat a claim.
    Raises ValueError for a claim to any other partition.
    """
    check_starts(claims.member_starts, len(claims.partitions), "member_starts", "claims")
    claimed = claims.partitions
    if len(claimed) and not 0 <= claimed.min() <= claimed.max() < partitions:
        unknown = int(claimed[(claimed < 0) | (claimed >= partitions)][0])
        raise ValueError(
            f"a member claims partition {unknown}, but there are {partitions}, counted from 0"
        )
    members = claims.members
    # Right where one member claims a partition; the disputed ones are set again below.
    owner = np.full(partitions, -1, np.int32)
    owner[claimed] = members
    former_owner = np.full(partitions, -1, np.int32)
    is_claimed = owner >= 0
    is_disputed = np.bincount(claimed, minlength=partitions) > 1
    if is_disputed.any():
        disputed = np.flatnonzero(is_disputed[claimed])
        partition, member = claimed[disputed], members[disputed]
        generation = claims.generations[member]
        # The cast first: an int32 generation of -2**31 has no negative.
        order = np.lexsort((member, -generation.astype(np.int64), partition))
        _resolve_disputed(owner, former_owner, np.stack((partition, generation, member))[:, order])
    return ResolvedOwners(owner, former_owner, is_claimed)


def _resolve_disputed(owner: Vector, former_owner: Vector, disputed: NDArray[np.int32]) -> None:
    """Set the owners of partitions that several members claim, for the sticky assignors.

    disputed: rows of partition, generation, member, sorted by partition and descending generation.
    """
    # A member may claim a partition twice: that is no dispute.
    is_repeated = (np.diff(disputed[[0, 2]], prepend=-1) == 0).all(axis=0)
    partition, generation, member = disputed[:, ~is_repeated]
    first = np.flatnonzero(np.diff(partition, prepend=-1))
    second = np.minimum(first + 1, len(partition) - 1)
    # Two members that own it since one generation: neither can be believed (KIP-341).
    has_rival = (second > first) & (partition[second] == partition[first])
    is_tied = has_rival & (generation[second] == generation[first])
    owner[partition[first]] = np.where(is_tied, -1, member[first])
    former_owner[partition[first]] = np.where(has_rival & ~is_tied, member[second], -1)
