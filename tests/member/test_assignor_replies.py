"""What an assignor replies to its member's assignment, and its user data: what cannot be used."""

from typing import Any, cast

import pytest

from apportion.errors import Code, Refused
from apportion.member.assignors.interface import FollowUp, MemberFailure
from apportion.member.assignors.runs import LATEST_MS, checked_reply, checked_user_data
from apportion.member.membership import Failed
from tests.member.script_assignors import CountingAssignor
from tests.member.script_player import ScriptPlayer
from tests.raising_lines import line_of_raise

FOLLOWS = "to its assignment: at_ms and after_ms must be numbers, of ms, and why a sentence"
FAILS = "to its assignment: code must be an error of apportion.errors.Code, and why a sentence"


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


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (
            Unprintable(),
            "the assignor 'counting' failed: Unprintable: Unprintable "
            f"({line_of_raise(CountingAssignor.on_assignment)})",
        ),
        (
            FollowUp(0, "now", cast("Any", Unprintable())),
            "the assignor 'counting' gives the reason Unprintable: it must be from 1 to 127",
        ),
    ],
)
def test_an_exception_or_a_reason_that_has_no_text_ends_the_member(reply: Any, why: str) -> None:
    player = ScriptPlayer()
    player.play("new consumer counting")
    player.scripted.reply = reply
    for step in ("joining", "answer 3 member_epoch=1 assignment=", "tick"):
        player.play(step)
    player.play("answer 4 member_epoch=-1")
    assert player.member.view().error == Failed(Code.INVALID_REQUEST, why)


def test_user_data_that_are_no_bytes_are_cut() -> None:
    with pytest.raises(Refused) as refusal:
        checked_user_data(CountingAssignor(), cast("Any", lambda: "x" * 1_000_000))
    assert len(refusal.value.why) < 200


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
