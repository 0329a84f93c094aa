"""How one member comes from what it has to what it shall have. Pure, and blind to what a unit is: a partition, a task."""

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Generic, TypeVar

U = TypeVar("U")


class MemberState(IntEnum):
    """How far a member has come, numbered as in its record."""

    STABLE = 0
    UNREVOKED = 1  # it still has to give something up, and stays at its old epoch
    UNRELEASED = 2  # it waits for something that another member still has
    UNKNOWN = 127  # written by a newer coordinator

    @classmethod
    def of(cls, number: int) -> "MemberState":
        """The state of that number; UNKNOWN for one that has no name here."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class CurrentAssignment(Generic[U]):
    """What one member has: the units it may use and those it must give up, each with the epoch at which it was given."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Mapping[U, int]
    pending_revocation: Mapping[U, int]

    def advance(
        self, epoch: int, state: MemberState, assigned: Mapping[U, int], revoking: Mapping[U, int]
    ) -> "CurrentAssignment[U]":
        """This hold one step on; it remembers the epoch that it leaves, even if it is the same."""
        return CurrentAssignment(epoch, self.epoch, state, assigned, revoking)


def is_at_target(hold: CurrentAssignment[U], target_epoch: int) -> bool:
    """True where `reconcile` has nothing left to do."""
    return hold.state is MemberState.STABLE and hold.epoch == target_epoch


def reconcile(
    hold: CurrentAssignment[U],
    target_epoch: int,
    target: Collection[U],
    owned: Set[U] | None,
    blocked: Callable[[U], bool],
    dropped: Callable[[U], bool] = lambda unit: False,
) -> CurrentAssignment[U]:
    """One step of `hold` toward `target`. Never gives a unit for which `blocked` holds; identity at the target.

    target: in the order in which units are given.
    owned: what the member says it still uses; None when the heartbeat left it out, which proves nothing.
    blocked: True while another member has the unit. Units that the member itself is giving up are not blocked.
    dropped: True for units of topics that the member has just ceased to subscribe to: they go at once, even while it still
    owes others.
    Source: KIP-848, "reconciliation"; KAFKA-19431; KIP-1251 for the epochs of single units.
    """
    if is_at_target(hold, target_epoch) or (hold.state is MemberState.UNREVOKED and is_still_using(owned, hold.pending_revocation)):
        return _without_unsubscribed(hold, owned, dropped)
    return _advance(hold, target_epoch, dict.fromkeys(target), owned, blocked)


def is_still_using(owned: Set[U] | None, revoking: Mapping[U, int]) -> bool:
    """True unless the member's own list shows that it has let go of all of `revoking`."""
    return bool(revoking) and (owned is None or any(unit in owned for unit in revoking))


def _advance(
    hold: CurrentAssignment[U], target_epoch: int, wishes: Mapping[U, None], owned: Set[U] | None, blocked: Callable[[U], bool]
) -> CurrentAssignment[U]:
    """The hold after everything has been given that can be, or taken that must be first."""
    epoch = target_epoch if hold.state is MemberState.UNKNOWN else hold.epoch
    kept = {unit: given for unit, given in hold.assigned.items() if unit in wishes}
    revoked = {unit: given for unit, given in hold.assigned.items() if unit not in wishes}
    if is_still_using(owned, revoked):
        return hold.advance(epoch, MemberState.UNREVOKED, kept, revoked)
    missing = [unit for unit in wishes if unit not in kept]
    free = [unit for unit in missing if not blocked(unit)]
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
    return hold.advance(target_epoch, state, kept | dict.fromkeys(free, target_epoch), {})


def _without_unsubscribed(hold: CurrentAssignment[U], owned: Set[U] | None, dropped: Callable[[U], bool]) -> CurrentAssignment[U]:
    """The hold less the units of topics that the member gave up; it stays where it is until it has let go of them."""
    kept = {unit: given for unit, given in hold.assigned.items() if not dropped(unit)}
    if len(kept) == len(hold.assigned):
        return hold
    revoking = {**hold.pending_revocation, **{unit: given for unit, given in hold.assigned.items() if unit not in kept}}
    if is_still_using(owned, revoking):
        return hold.advance(hold.epoch, MemberState.UNREVOKED, kept, revoking)
    return replace(hold, previous_epoch=hold.epoch, assigned=kept)
