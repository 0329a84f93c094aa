"""Reconciliation alone: what it never does, and that it ends."""

from collections.abc import Set
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.coord.consumer.reconcile import (
    CurrentAssignment,
    MemberState,
    is_at_target,
    reconcile,
)

UNITS = st.sets(st.integers(0, 9))
NO_UNIT: frozenset[Any] = frozenset()


def granted(units: set[int], epoch: int) -> dict[int, int]:
    return dict.fromkeys(sorted(units), epoch)


@st.composite
def holds(draw: st.DrawFn) -> CurrentAssignment[Any]:
    assigned = draw(UNITS)
    state = draw(st.sampled_from(list(MemberState)))
    revoking = draw(UNITS) - assigned if state is MemberState.UNREVOKED else set()
    epoch = draw(st.integers(1, 5))
    return CurrentAssignment(
        epoch, draw(st.integers(0, epoch)), state, granted(assigned, 1), granted(revoking, 1)
    )


def step(
    hold: CurrentAssignment[Any],
    target_epoch: int,
    target: set[int],
    owned: set[int] | None,
    blocked: Set[int] = NO_UNIT,
    dropped: Set[int] = NO_UNIT,
) -> CurrentAssignment[Any]:
    return reconcile(
        hold,
        target_epoch=target_epoch,
        target=sorted(target),
        owned=owned,
        is_blocked=lambda unit: unit in blocked,
        is_unsubscribed=lambda unit: unit in dropped,
    )


@settings(max_examples=300)
@given(holds(), st.integers(1, 9), UNITS, st.none() | UNITS, UNITS, UNITS)
def test_a_blocked_unit_is_never_given(
    hold: CurrentAssignment[Any],
    target_epoch: int,
    target: set[int],
    owned: set[int] | None,
    blocked: set[int],
    dropped: set[int],
) -> None:
    after = step(hold, target_epoch, target, owned, blocked, dropped)
    new = after.assigned.keys() - hold.assigned.keys()
    assert not new & blocked
    assert new <= target
    assert after.assigned == {
        unit: hold.assigned.get(unit, target_epoch) for unit in after.assigned
    }


@settings(max_examples=300)
@given(holds(), st.integers(1, 9), UNITS, st.none() | UNITS, UNITS, UNITS)
def test_a_unit_that_the_member_may_still_use_is_held_until_it_says_otherwise(
    hold: CurrentAssignment[Any],
    target_epoch: int,
    target: set[int],
    owned: set[int] | None,
    blocked: set[int],
    dropped: set[int],
) -> None:
    after = step(hold, target_epoch, target, owned, blocked, dropped)
    may_be_used = hold.assigned.keys() | hold.pending_revocation.keys()
    released = may_be_used - after.assigned.keys() - after.pending_revocation.keys()
    assert not released if owned is None else not released & owned


@settings(max_examples=300)
@given(holds(), st.integers(6, 9), UNITS)
def test_an_obedient_member_comes_to_its_target_in_three_steps(
    hold: CurrentAssignment[Any], target_epoch: int, target: set[int]
) -> None:
    owned = set(hold.assigned) | set(hold.pending_revocation)
    for _ in range(3):
        hold = step(hold, target_epoch, target, owned)
        owned = set(hold.assigned)
    assert is_at_target(hold, target_epoch)
    assert (set(hold.assigned), dict(hold.pending_revocation)) == (target, {})
    assert step(hold, target_epoch, target, owned) is hold


def test_a_member_that_must_revoke_stays_at_its_epoch_and_gets_nothing() -> None:
    hold = CurrentAssignment(5, 4, MemberState.STABLE, granted({1, 2}, 3), {})
    waiting = CurrentAssignment(5, 5, MemberState.UNREVOKED, {1: 3}, {2: 3})
    assert step(hold, 6, {1, 7}, None) == waiting
    assert step(waiting, 6, {1, 7}, {1, 2}) is waiting
    assert step(waiting, 6, {1, 7}, {1}) == CurrentAssignment(
        6, 5, MemberState.STABLE, {1: 3, 7: 6}, {}
    )


def test_a_member_that_already_let_go_moves_at_once() -> None:
    hold = CurrentAssignment(5, 4, MemberState.STABLE, granted({1, 2}, 3), {})
    assert step(hold, 6, {1, 7}, {1}) == CurrentAssignment(
        6, 5, MemberState.STABLE, {1: 3, 7: 6}, {}
    )


def test_a_member_that_only_waits_moves_to_the_new_epoch() -> None:
    hold = CurrentAssignment(5, 4, MemberState.STABLE, {1: 3}, {})
    waiting = CurrentAssignment(6, 5, MemberState.UNRELEASED, {1: 3}, {})
    assert step(hold, 6, {1, 7}, None, blocked={7}) == waiting
    assert step(waiting, 6, {1, 7}, None, blocked={7}) == replace(waiting, previous_epoch=6)
    assert step(waiting, 6, {1, 7}, None) == CurrentAssignment(
        6, 6, MemberState.STABLE, {1: 3, 7: 6}, {}
    )


def test_a_second_revocation_after_an_acknowledged_one_keeps_the_old_epoch() -> None:
    hold = CurrentAssignment(5, 5, MemberState.UNREVOKED, granted({1, 2}, 3), {3: 3})
    assert step(hold, 7, {1}, {1, 2}) == CurrentAssignment(
        5, 5, MemberState.UNREVOKED, {1: 3}, {2: 3}
    )


def test_a_unit_that_the_member_was_giving_up_can_come_back_in_one_step() -> None:
    hold = CurrentAssignment(5, 5, MemberState.UNREVOKED, {1: 3}, {2: 3})
    assert step(hold, 7, {1, 2}, {1}) == CurrentAssignment(
        7, 5, MemberState.STABLE, {1: 3, 2: 7}, {}
    )


def test_an_unsubscribed_topic_is_given_up_while_an_older_revocation_is_still_owed() -> None:
    hold = CurrentAssignment(5, 4, MemberState.UNREVOKED, granted({1, 2}, 3), {3: 3})
    assert step(hold, 6, {1, 2}, {1, 2, 3}, dropped={2}) == CurrentAssignment(
        5, 5, MemberState.UNREVOKED, {1: 3}, {3: 3, 2: 3}
    )


def test_an_unknown_state_starts_from_the_target_epoch() -> None:
    hold = CurrentAssignment(5, 4, MemberState.UNKNOWN, granted({1, 2}, 3), {})
    assert step(hold, 6, {1}, set()) == CurrentAssignment(6, 5, MemberState.STABLE, {1: 3}, {})
    assert MemberState.of(9) is MemberState.UNKNOWN
