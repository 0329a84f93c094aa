"""A KIP-848 member that its own assignor ends, event by event: it leaves its group first."""

from typing import Any, cast

import pytest

from apportion.errors import Code, Refused
from apportion.machine import Tick
from apportion.member.assignors.interface import FollowUp, MemberFailure
from apportion.member.assignors.runs import LATEST_MS, checked_reply, checked_user_data
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Failed,
    Leave,
    Left,
    Lost,
    MembershipState,
    Offer,
    SendToCoordinator,
    Subscribe,
    Unanswered,
)
from tests.member.computing_messages import (
    CountingAssignor,
    chosen,
    learn_names,
    offering,
    refused_computation,
    stable,
)
from tests.member.consumer_messages import P0, P1, accepted, at, beat, full, new_member, refused
from tests.raising_lines import line_of_raise

FOLLOWS = "to its assignment: at_ms and after_ms must be numbers, of ms, and why a sentence"
FAILS = "to its assignment: code must be an error of apportion.errors.Code, and why a sentence"


@pytest.mark.parametrize("reason", [0, 128, -1])
def test_a_reason_that_a_heartbeat_cannot_carry_ends_the_member(reason: int) -> None:
    member = offering(CountingAssignor(reply=FollowUp(0, "now", reason)))
    member.step(Answered(3, accepted(1, P0)), at(0))
    why = f"the assignor 'counting' gives the reason {reason}: it must be from 1 to 127"
    assert learn_names(member, 4) == [Offer(1, (), (), ())]
    assert member.step(Tick(), at(0)) == [SendToCoordinator(5, beat(-1), 5_000)]
    assert member.step(Answered(5, accepted(-1, unchanged=True)), at(1)) == [
        Lost(1, ()),
        Failed(Code.INVALID_REQUEST, why),
    ]


@pytest.mark.parametrize(
    ("reply", "shown_as", "must"),
    [
        (FollowUp(cast("Any", "now"), "x"), "at_ms='now', why='x'", FOLLOWS),
        (FollowUp(float("nan"), "x"), "at_ms=nan, why='x'", FOLLOWS),  # type: ignore[arg-type]
        (FollowUp(True, "x"), "at_ms=True, why='x'", FOLLOWS),
        (FollowUp(0, cast("Any", None)), "at_ms=0, why=None", FOLLOWS),
        (MemberFailure(cast("Any", 99_999), "x"), "code=99999, why='x'", FAILS),
        (MemberFailure(cast("Any", "bad"), "x"), "code='bad', why='x'", FAILS),
        (MemberFailure(cast("Any", [1]), "x"), "code=[1], why='x'", FAILS),
        (MemberFailure(Code.NONE, "x"), "code=<Code.NONE: 0>, why='x'", FAILS),
        (MemberFailure(Code.POLICY_VIOLATION, cast("Any", b"x")), "code=<Code.POLICY", FAILS),
    ],
)
def test_a_reply_that_a_member_cannot_follow_is_the_assignors_failure(
    reply: Any, shown_as: str, must: str
) -> None:
    with pytest.raises(Refused) as refusal:
        checked_reply(CountingAssignor(), lambda: reply)
    start = f"the assignor 'counting' replies {type(reply).__name__}({shown_as}"
    assert refusal.value.code is Code.INVALID_REQUEST
    assert (refusal.value.why.startswith(start), refusal.value.why.endswith(must)) == (True, True)


@pytest.mark.parametrize("reply", ["rubbish", FollowUp, True, (0, "now", 1, 0)])
def test_a_reply_of_another_type_is_the_assignors_failure(reply: Any) -> None:
    with pytest.raises(Refused) as refusal:
        checked_reply(CountingAssignor(), lambda: reply)
    assert refusal.value.args == (
        Code.INVALID_REQUEST,
        f"the assignor 'counting' replies {reply!r} to its assignment: it must be None, a "
        "FollowUp or a MemberFailure",
    )


def test_an_assignor_may_reply_nothing() -> None:
    assert checked_reply(CountingAssignor(), lambda: None) is None


@pytest.mark.parametrize("at_ms", [10**30, float("inf")])
def test_a_follow_up_that_never_comes_is_one_for_which_a_thread_can_wait(at_ms: Any) -> None:
    reply = checked_reply(CountingAssignor(), lambda: FollowUp(at_ms, "never"))
    assert reply == FollowUp(LATEST_MS, "never")


@pytest.mark.parametrize("at_ms", [-(10**400), float("-inf"), -1])
def test_a_follow_up_whose_time_was_long_ago_is_due_at_once(at_ms: Any) -> None:
    reply = checked_reply(CountingAssignor(), lambda: FollowUp(at_ms, "past", after_ms=at_ms))
    assert reply == FollowUp(0, "past", after_ms=0)


class Unprintable(Exception):
    """Fails when its text is asked for, as one whose attributes are not set yet."""

    def __str__(self) -> str:
        raise AttributeError("text")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("reply", "shown_as"),
    [
        (FollowUp(cast("Any", Unprintable()), "x"), f"FollowUp {FOLLOWS}"),
        (MemberFailure(cast("Any", Unprintable()), "x"), f"MemberFailure {FAILS}"),
    ],
)
def test_a_reply_that_has_no_text_is_shown_by_its_type(reply: Any, shown_as: str) -> None:
    with pytest.raises(Refused) as refusal:
        checked_reply(CountingAssignor(), lambda: reply)
    assert refusal.value.why == f"the assignor 'counting' replies {shown_as}"


def test_user_data_that_have_no_text_are_shown_by_their_type() -> None:
    why = "the assignor 'counting' gives Unprintable as user data, which are no bytes"
    with pytest.raises(Refused, match=why):
        checked_user_data(CountingAssignor(), cast("Any", Unprintable))


def test_an_exception_that_has_no_text_is_shown_by_its_type() -> None:
    member = offering(CountingAssignor(reply=Unprintable()))
    member.step(Answered(3, accepted(1)), at(0))
    assert member.step(Tick(), at(0)) == [SendToCoordinator(4, beat(-1), 5_000)]
    member.step(Answered(4, accepted(-1, unchanged=True)), at(1))
    line = line_of_raise(CountingAssignor.on_assignment)
    why = f"the assignor 'counting' failed: Unprintable: Unprintable ({line})"
    assert member.view().error == Failed(Code.INVALID_REQUEST, why)


def test_a_reason_that_has_no_text_ends_the_member() -> None:
    member = offering(CountingAssignor(reply=FollowUp(0, "now", cast("Any", Unprintable()))))
    member.step(Answered(3, accepted(1)), at(0))
    assert member.step(Tick(), at(0)) == [SendToCoordinator(4, beat(-1), 5_000)]
    member.step(Answered(4, accepted(-1, unchanged=True)), at(1))
    why = "the assignor 'counting' gives the reason Unprintable: it must be from 1 to 127"
    assert member.view().error == Failed(Code.INVALID_REQUEST, why)


class UncomparableTime(float):
    """A number that fails when it is compared."""

    def __lt__(self, other: float) -> bool:
        raise ZeroDivisionError("no order")

    __ge__ = __gt__ = __le__ = __lt__


def test_a_reply_that_fails_while_it_is_checked_is_the_assignors_failure() -> None:
    why = "the assignor 'counting' failed: ZeroDivisionError: no order"
    with pytest.raises(Refused, match=why):
        checked_reply(CountingAssignor(), lambda: FollowUp(cast("Any", UncomparableTime()), "x"))


def test_a_failure_with_the_number_of_an_error_is_one_with_that_error() -> None:
    reply = checked_reply(CountingAssignor(), lambda: MemberFailure(cast("Any", 44), "no"))
    assert repr(reply) == repr(MemberFailure(Code.POLICY_VIOLATION, "no"))


@pytest.mark.parametrize("code", [Code.UNSUPPORTED_VERSION, Code.UNRELEASED_INSTANCE_ID])
def test_a_member_ends_with_its_assignors_own_words_whatever_the_error(code: Code) -> None:
    failure = MemberFailure(code, "The data of 'n' are too new.")
    member = offering(CountingAssignor(reply=failure))
    assert member.step(Answered(3, accepted(1)), at(0))[-1] == SendToCoordinator(4, beat(-1), 5_000)
    assert member.step(Answered(4, accepted(-1, unchanged=True)), at(1)) == [
        Lost(1, ()),
        Failed(*failure),
    ]


def test_a_member_ended_by_its_assignor_ignores_the_response_to_come() -> None:
    member = offering(CountingAssignor(reply=OSError("no")))
    member.step(Answered(3, accepted(1, P0)), at(0))
    member.step(Adopted(1, (P0,)), at(0))
    line = line_of_raise(CountingAssignor.on_assignment)
    why = f"the assignor 'counting' failed: OSError: no ({line})"
    assert learn_names(member, 4) == [Offer(1, (), (P0,), ())]
    assert member.step(Answered(5, chosen(2, P0, P1)), at(1)) == []
    assert member.step(Adopted(1, ()), at(2)) == [SendToCoordinator(6, beat(-1), 5_000)]
    assert member.step(Answered(6, accepted(-1, unchanged=True)), at(3)) == [
        Lost(1, ()),
        Failed(Code.INVALID_REQUEST, why),
    ]
    assert member.view().state is MembershipState.FATAL


class FailingAssignor(CountingAssignor):
    """Fails to encode its user data once it is told to."""

    fails = False

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        if self.fails:
            raise KeyError("nothing")
        return b"something"


ENCODED_NOTHING = Failed(
    Code.INVALID_REQUEST,
    "the assignor 'counting' failed: KeyError: 'nothing' "
    f"({line_of_raise(FailingAssignor.user_data)})",
)


def test_a_member_whose_user_data_fail_leaves_once_its_owner_uses_nothing() -> None:
    assignor = FailingAssignor()
    member = stable(assignor, P0)
    assignor.fails = True
    member.step(Tick(), at(1_000))
    member.step(Answered(6, accepted(2, P0, P1)), at(1_000))
    assert member.step(Adopted(1, (P0, P1)), at(1_001)) == [Offer(1, (), (P0, P1), ())]
    # Its heartbeats go on without its assignors; this one repeats what the failed one was to say.
    assert member.step(Tick(), at(2_000)) == [SendToCoordinator(7, full(2, P0, P1), 5_000)]
    assert member.step(Answered(7, accepted(2, P0, P1)), at(2_001)) == []
    assert member.step(Adopted(1, ()), at(2_002)) == [SendToCoordinator(8, beat(-1), 5_000)]
    assert member.step(Answered(8, accepted(-1, unchanged=True)), at(2_003)) == [
        Lost(1, ()),
        ENCODED_NOTHING,
    ]


def test_an_owner_that_leaves_after_its_assignor_has_failed_leaves_the_group() -> None:
    assignor = FailingAssignor()
    member = stable(assignor, P0)
    assignor.fails = True
    member.step(Tick(), at(1_000))
    member.step(Answered(6, accepted(2, P0, P1)), at(1_000))
    member.step(Adopted(1, (P0, P1)), at(1_001))
    assert member.step(Leave(), at(1_002)) == [SendToCoordinator(7, beat(-1), 5_000)]
    assert member.step(Answered(7, accepted(-1, unchanged=True)), at(1_003)) == [Left(True)]


def test_a_member_that_may_have_joined_leaves_when_its_assignor_fails() -> None:
    assignor = FailingAssignor()
    member = offering(assignor)
    member.step(Unanswered(3, "closed"), at(0))
    member.step(Tick(), at(100))
    member.step(CoordinatorFound(4), at(100))
    assignor.fails = True
    unknown = refused_computation(Code.UNKNOWN_MEMBER_ID)
    assert member.step(Answered(5, unknown), at(100)) == []
    assert member.step(Tick(), at(100)) == [SendToCoordinator(6, beat(-1), 5_000)]
    assert member.step(Answered(6, accepted(-1, unchanged=True)), at(101)) == [
        Lost(1, ()),
        ENCODED_NOTHING,
    ]


def failed(failure: MemberFailure, **settings: Any) -> tuple[ConsumerMember, list[Any]]:
    """A member that its assignor has failed, and the actions after its owner uses nothing."""
    assignor = CountingAssignor()
    member = stable(assignor, P0, **settings)
    assignor.reply = failure
    member.step(Tick(), at(1_000))
    assert member.step(Answered(6, accepted(2, P0, P1)), at(1_000)) == [
        Offer(1, (P0, P1), (), (P1,)),
        Offer(1, (), (P0,), ()),
    ]
    return member, member.step(Adopted(1, ()), at(1_001))


THAT_WAS_ALL = MemberFailure(Code.POLICY_VIOLATION, "that was all")


def test_a_member_failed_by_its_assignor_leaves_once_its_owner_uses_nothing() -> None:
    member, actions = failed(THAT_WAS_ALL)
    assert actions == [SendToCoordinator(7, beat(-1), 5_000)]
    assert member.step(Answered(7, accepted(-1, unchanged=True)), at(1_002)) == [
        Lost(1, ()),
        Failed(Code.POLICY_VIOLATION, "that was all"),
    ]
    assert member.view().state is MembershipState.FATAL


def test_a_failed_static_member_leaves_for_good() -> None:
    _, actions = failed(THAT_WAS_ALL, instance_id="i")
    assert actions == [SendToCoordinator(7, beat(-1, instance_id="i"), 5_000)]


def test_a_failed_member_whose_leave_gets_no_response_ends_as_well() -> None:
    member, _ = failed(THAT_WAS_ALL)
    assert member.step(Unanswered(7, "closed"), at(1_002)) == [
        Lost(1, ()),
        Failed(Code.POLICY_VIOLATION, "that was all"),
    ]


def test_a_failed_member_that_loses_its_membership_ends_at_once() -> None:
    assignor = CountingAssignor()
    member = stable(assignor, P0)
    assignor.reply = THAT_WAS_ALL
    member.step(Tick(), at(1_000))
    member.step(Answered(6, accepted(2, P0, P1)), at(1_000))
    member.step(Tick(), at(2_000))
    assert member.step(Answered(7, refused(Code.FENCED_MEMBER_EPOCH)), at(2_001)) == [
        Lost(1, (P0,)),
        Failed(Code.POLICY_VIOLATION, "that was all"),
    ]
    assert member.step(Adopted(1, ()), at(2_002)) == []
    assert member.view().state is MembershipState.FATAL


def test_an_owner_that_leaves_meanwhile_is_only_told_that_it_has_left() -> None:
    member, _ = failed(THAT_WAS_ALL)
    assert member.step(Leave(), at(1_002)) == []
    assert member.step(Answered(7, accepted(-1, unchanged=True)), at(1_002)) == [Left(True)]
    assert member.view().state is MembershipState.UNSUBSCRIBED


def test_an_assignor_that_fails_to_encode_its_metadata_ends_its_member() -> None:
    assignor = FailingAssignor()
    assignor.fails = True
    member = new_member(assignors=(assignor,))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Answered(2, refused_computation(Code.GROUP_ID_NOT_FOUND)), at(0)) == [
        Lost(1, ()),
        ENCODED_NOTHING,
    ]
