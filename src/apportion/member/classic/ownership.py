"""The partitions of a classic member's owner: targeted, in use, and claimed in the last JoinGroup.

JoinGroup claims a partition while the owner uses it or may begin to at any moment, so that no
leader assigns it to another member. A claim for a partition that has become free must be withdrawn
by rejoining, or the leader would keep the partition from everybody.
"""

from collections.abc import Callable

from apportion.member.membership import (
    MemberAssignment,
    MembershipState,
    Offer,
    minus,
    owned_or_offered,
)
from apportion.topics import IdPartition


class OwnedPartitions:
    """The partitions of one incarnation of a classic member.

    target: what the owner is to use, None before the first assignment. owned: what it uses.
    claimed: the owned partitions in the last JoinGroup.
    """

    def __init__(self) -> None:
        self.target: MemberAssignment | None = None
        self.owned: MemberAssignment = ()
        self.claimed: MemberAssignment = ()

    def claim(self) -> MemberAssignment:
        """Return the partitions that the next JoinGroup claims, and remember them.

        The claim is all that the owner uses or may begin to use at any moment.
        """
        self.claimed = owned_or_offered(self.owned, self.target)
        return self.claimed

    @property
    def has_freed_partitions(self) -> bool:
        """Return whether the last JoinGroup claimed partitions that are free by now.

        Other members may wait for them.
        """
        # Compared with what the leader was told, not with the assignment: the leader acts on the
        # claim.
        return bool(minus(self.claimed, owned_or_offered(self.owned, self.target)))

    @property
    def state(self) -> MembershipState:
        """STABLE if the owner has adopted the target, else RECONCILING."""
        return MembershipState.STABLE if self.owned == self.target else MembershipState.RECONCILING

    def set_target(self, incarnation: int, target: MemberAssignment) -> list[Offer]:
        """Set a classic member's target; return the offer to the owner, [] if it is unchanged."""
        last_target, self.target = self.target, target
        if target == last_target:
            return []
        return [Offer(incarnation, target, minus(self.owned, target), minus(target, self.owned))]

    def restrict_target(
        self, incarnation: int, may_keep: Callable[[IdPartition], bool]
    ) -> list[Offer]:
        """Reduce the target to the partitions that may be kept; return as `set_target` does."""
        return self.set_target(
            incarnation, tuple(partition for partition in self.target or () if may_keep(partition))
        )

    def adopt(self, adopted: MemberAssignment) -> bool:
        """Record what a classic member's owner uses now; return whether it was accepted.

        False if a partition was not or is no longer offered: it may be another member's by now.
        """
        # Owned partitions may be kept, even if the target revokes them: revocation takes time.
        if self.target is None or minus(minus(adopted, self.owned), self.target):
            return False
        self.owned = adopted
        return True
