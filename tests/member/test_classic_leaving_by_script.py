"""The classic member, event by event: LeaveGroup, and owners that do not poll."""

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Leave,
    Left,
    Lost,
    MembershipState,
    Polled,
    SendToCoordinator,
    Subscribe,
    View,
)
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tests.member.classic_messages import (
    P0,
    PARKED_MS,
    at,
    eager,
    hears_of_a_rebalance,
    in_group,
    joins,
)


def test_a_dynamic_member_says_goodbye_even_while_its_join_is_parked() -> None:
    member = in_group(eager(), 0)
    hears_of_a_rebalance(member)
    member.step(Adopted(1, ()), at(3_000))
    leaves = LeaveGroupRequest(
        group_id="g", members=(MemberIdentity(member_id="m", reason="the consumer leaves"),)
    )
    assert member.step(Leave(), at(3_010)) == [SendToCoordinator(8, leaves, 5_000)]
    assert (
        member.step(Answered(7, JoinGroupResponse(error_code=Code.UNKNOWN_MEMBER_ID)), at(3_011))
        == []
    )
    left = LeaveGroupResponse(members=(MemberResponse(member_id="m"),))
    assert member.step(Answered(8, left), at(3_012)) == [Left(is_confirmed=True)]
    assert member.view() == View(
        "", -1, MembershipState.UNSUBSCRIBED, 1, None, (), 3_000, None, 3_000
    )


def test_a_static_member_keeps_its_place_open() -> None:
    member = in_group(eager(instance_id="i"), 0)
    assert member.step(Leave(), at(10)) == [Left(is_confirmed=True)]


def test_a_static_member_whose_join_is_held_back_leaves_by_its_instance_id() -> None:
    member = eager(instance_id="i")
    member.step(Subscribe(("t",)), at(0))
    assert member.step(CoordinatorFound(1), at(0)) == [
        SendToCoordinator(2, joins("", instance_id="i"), PARKED_MS)
    ]
    who = MemberIdentity(member_id="", group_instance_id="i", reason="the consumer leaves")
    leaves = LeaveGroupRequest(group_id="g", members=(who,))
    assert member.step(Leave(for_good=True), at(1)) == [SendToCoordinator(3, leaves, 5_000)]
    left = LeaveGroupResponse(members=(MemberResponse(group_instance_id="i"),))
    assert member.step(Answered(3, left), at(2)) == [Left(is_confirmed=True)]


def test_a_coordinator_that_has_not_seen_the_join_yet_cannot_confirm_a_leave() -> None:
    member = eager(instance_id="i")
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Leave(for_good=True), at(1))
    unknown = MemberResponse(group_instance_id="i", error_code=Code.UNKNOWN_MEMBER_ID)
    answer = Answered(3, LeaveGroupResponse(members=(unknown,)))
    assert member.step(answer, at(2)) == [Left(is_confirmed=False)]


def test_a_dynamic_member_without_an_id_cannot_leave_a_join_that_is_held_back() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Leave(), at(1)) == [Left(is_confirmed=False)]


def test_a_member_that_was_removed_before_it_left_is_out_of_the_group() -> None:
    member = in_group(eager(), 0)
    member.step(Leave(), at(10))
    unknown = MemberResponse(member_id="m", error_code=Code.UNKNOWN_MEMBER_ID)
    answer = Answered(6, LeaveGroupResponse(members=(unknown,)))
    assert member.step(answer, at(11)) == [Left(is_confirmed=True)]


def test_a_member_whose_owner_is_silent_leaves_and_joins_again_when_it_is_back() -> None:
    member = in_group(eager(poll_limit_ms=1_000), 0)
    note, lost, send = member.step(Tick(), at(1_000))
    assert isinstance(note, Note)
    assert note.text == "member m leaves: its owner did not come back within 1000 ms"
    assert isinstance(send, SendToCoordinator)
    assert (lost, type(send.request)) == (Lost(1, (P0,)), LeaveGroupRequest)
    assert member.step(Answered(6, LeaveGroupResponse()), at(1_010)) == []
    assert (member.view().state, member.wake_at()) == (MembershipState.STALE, None)
    assert member.step(Polled(), at(5_000)) == [SendToCoordinator(7, joins(""), PARKED_MS)]


def test_a_static_member_that_is_not_polled_stays_until_its_session_ends() -> None:
    member = in_group(eager(instance_id="i", poll_limit_ms=1_000), 0)
    note, lost = member.step(Tick(), at(1_000))
    assert (type(note), lost, member.view().state, member.wake_at()) == (
        Note,
        Lost(1, (P0,)),
        MembershipState.STALE,
        None,
    )
    assert member.step(Leave(for_good=True), at(1_001)) == [Left(is_confirmed=False)]


def test_an_owner_that_comes_back_in_time_is_given_its_time_anew() -> None:
    member = in_group(eager(poll_limit_ms=1_000), 0)
    assert member.wake_at() == 1_000
    assert member.step(Polled(), at(700)) == []
    assert member.wake_at() == 1_700
    assert member.step(Tick(), at(1_699)) == []
    assert member.step(Subscribe(("t",)), at(1_699)) == []
    assert member.wake_at() == 2_699
