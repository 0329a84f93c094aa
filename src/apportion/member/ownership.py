"""The partitions of a member's owner: targeted, in use, and claimed in the last request.

A heartbeat (KIP-848) or JoinGroup claims a partition while the owner uses it or may begin to at any
moment, so that it is assigned to no other member. In a classic group a claim for a partition that
has become free must be withdrawn by rejoining, or the leader would keep the partition from
everybody.

The owner's rules report to the member what they use (`report_adoption`).
"""

from collections.abc import Callable

from apportion.member.membership import (
    Lost,
    MemberAssignment,
    MembershipState,
    Offer,
    View,
    assignment,
    minus,
)
from apportion.member.queries import AdoptAssignment
from apportion.member.step import Step
from apportion.rules import Rule
from apportion.topics import IdPartition


def owned_or_offered(owned: MemberAssignment, target: MemberAssignment | None) -> MemberAssignment:
    """Return the partitions that a heartbeat or JoinGroup reports as owned.

    The coordinator must not assign them to others. They are all that the owner has adopted, even
    those that `target` revokes, and all that it was offered, which it may adopt while the request
    is in flight. Leaving a partition out acknowledges its revocation, so none may be left out
    before the owner has stopped using it. And an offer that is withdrawn before it was adopted must
    have been reported, or the coordinator would never see that it is not in use.
    """
    return owned if target is None or target == owned else assignment((*owned, *target))


def report_adoption(view: View, adopted: MemberAssignment) -> Rule[bool]:
    """Report to the member of this view that its owner uses exactly `adopted`.

    Return False if the member has not taken that over: the target was withdrawn meanwhile, or the
    member has not come to the report yet. Then nothing more may be started.
    """
    now: View = yield AdoptAssignment(view.incarnation, adopted)
    return (now.incarnation, now.owned) == (view.incarnation, adopted)


class OwnedPartitions:
    """The partitions of one incarnation of a member.

    incarnation: its number. target: what the owner is to use, None before the first assignment.
    owned: what it uses. claimed: the partitions in the last request that claims any.
    """

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.target: MemberAssignment | None = None
        self.owned: MemberAssignment = ()
        self.claimed: MemberAssignment = ()

    def claim(self) -> MemberAssignment:
        """Return the partitions that the next request claims, and remember them."""
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

    def set_target(self, step: Step, target: MemberAssignment) -> None:
        """Set the target, and offer it to the owner if it changes."""
        if target != self.target:
            revoke, add = minus(self.owned, target), minus(target, self.owned)
            step.emit(Offer(self.incarnation, target, revoke, add))
        self.target = target

    def restrict_target(self, step: Step, may_keep: Callable[[IdPartition], bool]) -> None:
        """Reduce the target to the partitions that may be kept, as `set_target` does."""
        self.set_target(step, tuple(filter(may_keep, self.target or ())))

    def adopt(self, incarnation: int, adopted: MemberAssignment) -> bool:
        """Record what the owner uses now; return whether that is accepted and a change.

        It is not accepted if it was reported too late, in an incarnation that is lost, or if a
        partition was not or is no longer offered: it may be another member's by now.
        """
        # Owned partitions may be kept, even if the target revokes them: revocation takes time.
        if (
            incarnation != self.incarnation
            or self.target is None
            or minus(minus(adopted, self.owned), self.target)
            or adopted == self.owned
        ):
            return False
        self.owned = adopted
        return True

    def lose(self) -> Lost:
        """Return the action that takes everything owned from the owner, and forget it."""
        lost = Lost(self.incarnation, self.owned)
        self.target, self.owned, self.claimed = None, (), ()
        return lost
