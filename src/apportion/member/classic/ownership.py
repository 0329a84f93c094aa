"""What a classic member's owner holds, what it is to hold, and what the group was told of that.

Partitions are claimed in JoinGroup while they are used or may be taken into use at any moment, so that no leader gives them away;
what was claimed and is not held any more must be said, or it would be kept from the others for nobody.
"""

from collections.abc import Callable

from apportion.member.membership import Assignment, MembershipState, Offer, acknowledged, minus
from apportion.topics import IdPartition


class OwnedPartitions:
    """target: what it is to hold, None before the first share. owned: what it uses. claimed: what the last JoinGroup said."""

    def __init__(self) -> None:
        self.target: Assignment | None = None
        self.owned: Assignment = ()
        self.claimed: Assignment = ()

    def claim(self) -> Assignment:
        """All that is used or may be at any moment; it is claimed from now on."""
        self.claimed = acknowledged(self.owned, self.target)
        return self.claimed

    @property
    def has_freed_partitions(self) -> bool:
        """Whether others wait for something that is free."""
        return bool(minus(self.claimed, acknowledged(self.owned, self.target)))

    @property
    def state(self) -> MembershipState:
        """STABLE if the owner has adopted what it is to hold."""
        return MembershipState.STABLE if self.owned == self.target else MembershipState.RECONCILING

    def set_target(self, incarnation: int, target: Assignment) -> list[Offer]:
        """The owner is to hold `target`; the offer that tells it, if that is news."""
        before, self.target = self.target, target
        return [] if target == before else [Offer(incarnation, target, minus(self.owned, target), minus(target, self.owned))]

    def restrict_target(self, incarnation: int, may_keep: Callable[[IdPartition], bool]) -> list[Offer]:
        """The owner is to hold no more than it may keep; the offer that tells it, if that is news."""
        return self.set_target(incarnation, tuple(partition for partition in self.target or () if may_keep(partition)))

    def adopt(self, adopted: Assignment) -> bool:
        """The owner uses this. False, and nothing changes, if it was not offered, or taken back since: another may have got it."""
        if self.target is None or minus(minus(adopted, self.owned), self.target):
            return False
        self.owned = adopted
        return True
