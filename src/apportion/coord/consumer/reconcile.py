"""Reconciliation: how one member gets from its current assignment to its target assignment.

The problem: the group has a target assignment for a new epoch, but members learn of it one by one,
with their heartbeats, and no partition may be in use by two members at any time. Nobody may have to
wait for members that are not concerned, as in the classic protocol.

The method is KIP-848's state machine of one member ("Member state machine"); Kafka's
`CurrentAssignmentBuilder` is its counterpart. Revocation comes before assignment: a member gets the
new epoch only when it has given up all that the target takes from it, and a unit is assigned only
when its previous owner has confirmed that it stopped using it.

    STABLE              has all of its target, at the target's epoch
    UNREVOKED           must first give up `pending_revocation`; stays at its old epoch until then
    UNRELEASED          is at the new epoch, and waits for units that other members still have

Reconciliation ends: units only leave `assigned` while they are not in the target, so a member
revokes once for each target; it confirms, or its rebalance timeout removes it. After that each of
its units is free for the new owner, whose next heartbeat assigns it. No member waits for one that
waits for it, since nobody holds a unit back until it receives another. One call costs one pass over
the member's own units; no other member is looked at but through `is_blocked`, a look-up in the
table of owners.

Example: a has 0 and 1 at epoch 5; b joins, and the target of epoch 6 is a: 0, b: 1.

    b heartbeats        is_blocked(1): epoch 6, UNRELEASED, assigned {}
    a heartbeats        epoch 5, UNREVOKED, assigned {0}, pending_revocation {1}
    a owns only 0       epoch 6, STABLE, assigned {0}; unit 1 is free
    b heartbeats        epoch 6, STABLE, assigned {1}

The module is pure. A unit is whatever a group assigns as a whole and a member uses alone: a
partition in a consumer group, a task in a Streams group. The rules need no more of it than that it
can be compared.
"""

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Generic, TypeVar

U = TypeVar("U")


class MemberState(IntEnum):
    """The reconciliation state of a member.

    The numbers are those in ConsumerGroupCurrentMemberAssignmentValue.
    """

    STABLE = 0
    UNREVOKED = 1  # has to give up units first, and stays at its old epoch
    UNRELEASED = 2  # waits for units that another member still has
    UNKNOWN = 127  # written by a newer coordinator

    @classmethod
    def of(cls, number: int) -> "MemberState":
        """Return the state of that number; UNKNOWN for a number of a newer coordinator."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class CurrentAssignment(Generic[U]):
    """A member's current assignment: the units it may use, and those it must give up.

    Both map a unit to the epoch at which it was assigned (KIP-1251).
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Mapping[U, int]
    pending_revocation: Mapping[U, int]

    def advance(
        self, epoch: int, state: MemberState, assigned: Mapping[U, int], revoking: Mapping[U, int]
    ) -> "CurrentAssignment[U]":
        """Return the member's next assignment; this one's epoch becomes the previous epoch."""
        return CurrentAssignment(epoch, self.epoch, state, assigned, revoking)


def is_at_target(current: CurrentAssignment[U], target_epoch: int) -> bool:
    """Return whether `reconcile` has nothing left to do."""
    return current.state is MemberState.STABLE and current.epoch == target_epoch


def reconcile(
    current: CurrentAssignment[U],
    *,
    target_epoch: int,
    target: Collection[U],
    owned: Set[U] | None,
    is_blocked: Callable[[U], bool],
    is_unsubscribed: Callable[[U], bool] = lambda _unit: False,
) -> CurrentAssignment[U]:
    """Advance a member's current assignment as far toward its target as is safe now.

    Never assigns a unit for which `is_blocked` holds. Returns `current` itself at the target.

    target: the units of the target assignment, in the order in which they are assigned.
    owned: the units that the member says it still uses; None where the heartbeat left them out,
        which proves nothing.
    is_blocked: True while another member has the unit. Units that this member itself gives up are
        not blocked.
    is_unsubscribed: True for units of topics from which the member has just unsubscribed: they are
        revoked at once, even while other revocations are pending (KAFKA-19431).
    Source: KIP-848, "Member state machine"; KAFKA-19431; KIP-1251 for the epochs of single units.
    """
    # KAFKA-19431: also a member that waits here, for its own confirmation, loses what it has
    # unsubscribed from.
    if is_at_target(current, target_epoch) or (
        current.state is MemberState.UNREVOKED and is_still_using(owned, current.pending_revocation)
    ):
        return _without_unsubscribed(current, owned, is_unsubscribed)
    return _advance(
        current,
        target_epoch=target_epoch,
        target=dict.fromkeys(target),
        owned=owned,
        is_blocked=is_blocked,
    )


def is_still_using(owned: Set[U] | None, units: Mapping[U, int]) -> bool:
    """Return whether the member may still use one of `units`, by the units it says it owns."""
    return bool(units) and (owned is None or any(unit in owned for unit in units))


def _advance(
    current: CurrentAssignment[U],
    *,
    target_epoch: int,
    target: Mapping[U, None],
    owned: Set[U] | None,
    is_blocked: Callable[[U], bool],
) -> CurrentAssignment[U]:
    """Revoke units that the target lacks; once that is confirmed, assign those that are free."""
    # UNKNOWN owns nothing (`fencing.is_state_known`), so nothing holds it at its old epoch. Any
    # other member that must revoke again stays where it is; Kafka 4.0 increased its epoch by one.
    epoch = target_epoch if current.state is MemberState.UNKNOWN else current.epoch
    kept = {unit: since for unit, since in current.assigned.items() if unit in target}
    revoked = {unit: since for unit, since in current.assigned.items() if unit not in target}
    # Revocation comes first: until the member has confirmed it, it stays at its old epoch, and its
    # new units stay unassigned.
    # Eager classic members own nothing when they join, so for them the revocation ends in this
    # step.
    if is_still_using(owned, revoked):
        return current.advance(epoch, MemberState.UNREVOKED, kept, revoked)
    missing = [unit for unit in target if unit not in kept]
    # Units that the member itself was giving up are free for it (newest Kafka). Kafka 4.0 made the
    # member wait for itself.
    free = [unit for unit in missing if not is_blocked(unit)]
    # Either state is at the new epoch: a member with nothing to give up need not wait for others.
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
    # Kept units keep the epoch of their assignment: KIP-1251 accepts commits back to it.
    return current.advance(target_epoch, state, kept | dict.fromkeys(free, target_epoch), {})


def _without_unsubscribed(
    current: CurrentAssignment[U], owned: Set[U] | None, is_unsubscribed: Callable[[U], bool]
) -> CurrentAssignment[U]:
    """Revoke the partitions of topics from which the member unsubscribed; keep its epoch."""
    kept = {unit: since for unit, since in current.assigned.items() if not is_unsubscribed(unit)}
    if len(kept) == len(current.assigned):
        return current
    revoking = {
        **current.pending_revocation,
        **{unit: since for unit, since in current.assigned.items() if unit not in kept},
    }
    if is_still_using(owned, revoking):
        return current.advance(current.epoch, MemberState.UNREVOKED, kept, revoking)
    # The member has shown that it stopped already: nothing to confirm, so the state stays.
    return replace(current, previous_epoch=current.epoch, assigned=kept)
