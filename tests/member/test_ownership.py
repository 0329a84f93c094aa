"""The partitions of a member's owner."""

from apportion.machine import Instant
from apportion.member.membership import (
    Lost,
    MembershipState,
    Offer,
    from_id_parts,
    to_id_parts,
)
from apportion.member.ownership import OwnedPartitions, owned_or_offered
from apportion.member.step import Step
from apportion.topics import IdPartition

P0, P1, P2 = (IdPartition(b"t" * 16, number) for number in range(3))


def test_a_changed_target_is_offered_and_an_unchanged_one_is_not() -> None:
    holding, step = OwnedPartitions(3), Step(Instant(0, 0))
    holding.set_target(step, ())
    assert step.actions == [Offer(3, (), (), ())]
    holding.set_target(step, (P0, P1))
    holding.adopt(3, (P0, P1))
    holding.restrict_target(step, lambda partition: partition == P1)
    holding.set_target(step, (P1,))
    assert step.actions[1:] == [Offer(3, (P0, P1), (), (P0, P1)), Offer(3, (P1,), (P0,), ())]


def test_an_owner_adopts_what_is_offered_in_the_same_incarnation() -> None:
    holding, step = OwnedPartitions(3), Step(Instant(0, 0))
    assert not holding.adopt(3, ())  # nothing was offered yet
    holding.set_target(step, (P0, P1))
    assert not holding.adopt(2, (P0,))
    assert not holding.adopt(3, (P0, P2))
    assert (holding.adopt(3, (P0,)), holding.owned) == (True, (P0,))
    assert not holding.adopt(3, (P0,))  # no change
    before, is_adopted, after = holding.state, holding.adopt(3, (P0, P1)), holding.state
    assert (before, is_adopted) == (MembershipState.RECONCILING, True)
    assert after is MembershipState.STABLE


def test_a_claim_has_what_is_owned_and_what_is_offered() -> None:
    assert owned_or_offered((P0,), None) == (P0,)
    assert owned_or_offered((P1,), (P0, P1)) == (P0, P1)
    holding, step = OwnedPartitions(1), Step(Instant(0, 0))
    holding.set_target(step, (P0, P1))
    assert (holding.claim(), holding.has_freed_partitions) == ((P0, P1), False)
    holding.set_target(step, (P0,))
    assert holding.has_freed_partitions


def test_lost_partitions_are_reported_once() -> None:
    holding, step = OwnedPartitions(1), Step(Instant(0, 0))
    holding.set_target(step, (P0,))
    holding.adopt(1, (P0,))
    assert (holding.lose(), holding.target, holding.claimed) == (Lost(1, (P0,)), None, ())
    assert holding.lose() == Lost(1, ())


def test_assignments_go_over_the_wire_and_back_in_order() -> None:
    other = IdPartition(b"S" * 16, 4)
    assert from_id_parts(to_id_parts((other, P0, P2))) == (other, P0, P2)
