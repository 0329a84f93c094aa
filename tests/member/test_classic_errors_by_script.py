"""The classic member, event by event: error codes, lost memberships, unanswered requests."""

from collections.abc import Callable

import pytest

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.classic.machine import ClassicMember
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Failed,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MembershipState,
    MetadataFetched,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    View,
)
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
)
from apportion.wire.messages.sync_group import SyncGroupResponse
from tests.member.classic_messages import (
    P0,
    PARKED_MS,
    SEEN,
    at,
    beaten,
    beats,
    cooperative,
    cooperative_join,
    eager,
    hears_of_a_rebalance,
    in_group,
    joined,
    joins,
    synced,
)


@pytest.mark.parametrize("way", [eager, cooperative])
def test_kafka_13419_an_illegal_generation_in_sync_resets_it_and_keeps_the_id(
    way: Callable[..., ClassicMember],
) -> None:
    name = "range" if way is eager else "cooperative-sticky"
    member = in_group(way(), 0, name=name)
    hears_of_a_rebalance(member)
    member.step(Adopted(1, ()), at(3_005)) if way is eager else None
    member.step(Answered(7, joined(2, name=name)), at(3_010))
    held = () if way is eager else (P0,)
    actions = member.step(
        Answered(8, SyncGroupResponse(error_code=Code.ILLEGAL_GENERATION)), at(3_020)
    )
    assert actions[:2] == [
        Note("warning", "member m lost its place in generation 2: ILLEGAL_GENERATION"),
        Lost(1, held),
    ]
    (send,) = actions[2:]
    assert isinstance(send, SendToCoordinator)
    assert send.request.member_id == "m"
    protocols = (
        cooperative_join((), -1, None).protocols if way is cooperative else joins().protocols
    )
    if way is eager:
        assert isinstance(send, SendToCoordinator)
        assert isinstance(send.request, JoinGroupRequest)
        assert send.request.protocols == protocols
    assert member.view() == View("m", -1, MembershipState.JOINING, 2, None, (), 3_010, None, 3_000)


def test_a_sync_in_a_rebalance_rejoins_with_owned_partitions_and_their_generation() -> None:
    member = in_group(cooperative(), 0, name="cooperative-sticky")
    hears_of_a_rebalance(member)
    member.step(Answered(7, joined(2, name="cooperative-sticky")), at(3_010))
    (send,) = member.step(
        Answered(8, SyncGroupResponse(error_code=Code.REBALANCE_IN_PROGRESS)), at(3_020)
    )
    assert send == SendToCoordinator(9, cooperative_join((0,), 1, None), PARKED_MS)
    assert member.view().incarnation == 1


def test_a_member_that_the_group_does_not_know_loses_everything_and_its_id() -> None:
    member = in_group(eager(), 0)
    member.step(Tick(), at(3_000))
    assert member.step(Answered(6, beaten(Code.UNKNOWN_MEMBER_ID)), at(3_010)) == [
        Note("warning", "member m lost its place in generation 1: UNKNOWN_MEMBER_ID"),
        Lost(1, (P0,)),
        SendToCoordinator(7, joins(""), PARKED_MS),
    ]
    assert member.view() == View("", -1, MembershipState.JOINING, 2, None, (), 0, None, 3_000)
    assert member.step(Adopted(1, (P0,)), at(3_020)) == []


def test_the_word_of_an_earlier_life_changes_nothing() -> None:
    member = in_group(eager(), 0)
    member.step(Tick(), at(3_000))
    member.step(Answered(6, beaten(Code.UNKNOWN_MEMBER_ID)), at(3_010))
    member.step(Answered(7, joined(2)), at(3_020))
    member.step(Answered(8, synced(0)), at(3_020))
    member.step(MetadataFetched(9, (SEEN,)), at(3_020))
    before = member.view()
    assert member.step(Adopted(1, (P0,)), at(3_030)) == []
    assert (
        member.view()
        == before
        == View("m", 2, MembershipState.RECONCILING, 2, (P0,), (), 3_020, None, 3_000)
    )


def test_a_join_that_was_forgotten_begins_again_after_a_pause() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(
        Answered(2, JoinGroupResponse(error_code=Code.MEMBER_ID_REQUIRED, member_id="m")), at(0)
    )
    actions = member.step(Answered(3, JoinGroupResponse(error_code=Code.UNKNOWN_MEMBER_ID)), at(10))
    assert actions == [
        Note("warning", "member m was refused: UNKNOWN_MEMBER_ID"),
        Lost(1, ()),
    ]
    assert member.wake_at() == 110
    assert member.step(Tick(), at(110)) == [SendToCoordinator(4, joins(""), PARKED_MS)]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (Code.FENCED_INSTANCE_ID, ""),
        (Code.GROUP_MAX_SIZE_REACHED, ""),
        (Code.INCONSISTENT_GROUP_PROTOCOL, " It offers range."),
        (
            Code.INVALID_SESSION_TIMEOUT,
            " It was 45000 ms; the range is the broker's group.min.session.timeout.ms and "
            "group.max.session.timeout.ms.",
        ),
    ],
)
def test_an_error_that_no_retry_mends_ends_the_membership(code: Code, advice: str) -> None:
    member = in_group(eager(), 0)
    hears_of_a_rebalance(member)
    member.step(Adopted(1, ()), at(3_000))
    assert member.step(Answered(7, JoinGroupResponse(error_code=code)), at(3_010)) == [
        Lost(1, ()),
        Failed(code, code.sentence + advice),
    ]
    assert member.view() == View(
        "",
        -1,
        MembershipState.FATAL,
        1,
        None,
        (),
        3_000,
        Failed(code, f"{code.sentence}{advice}"),
        3_000,
    )
    # Only a fenced member has lost its place to another one for sure.
    is_confirmed = code is Code.FENCED_INSTANCE_ID
    assert member.step(Leave(), at(3_020)) == [Left(is_confirmed)]


def test_a_fenced_static_member_is_at_its_end_with_a_heartbeat_too() -> None:
    member = in_group(eager(instance_id="i"), 0)
    assert member.step(Tick(), at(3_000)) == [SendToCoordinator(6, beats(1, "i"), 5_000)]
    why = Code.FENCED_INSTANCE_ID.sentence
    assert member.step(Answered(6, beaten(Code.FENCED_INSTANCE_ID)), at(3_001)) == [
        Lost(1, (P0,)),
        Failed(Code.FENCED_INSTANCE_ID, why),
    ]


def test_a_heartbeat_that_the_coordinator_fails_is_repeated_for_a_time() -> None:
    member = in_group(eager(wait_limit_ms=50), 0)
    member.step(Tick(), at(3_000))
    (note,) = member.step(Answered(6, beaten(Code.UNKNOWN_SERVER_ERROR)), at(3_001))
    assert isinstance(note, Note)
    assert note.text.startswith("Heartbeat of member m: UNKNOWN_SERVER_ERROR: ")
    assert member.step(Tick(), at(3_101)) == [SendToCoordinator(7, beats(1), 5_000)]
    assert member.step(Answered(7, beaten(Code.UNKNOWN_SERVER_ERROR)), at(3_102)) == [
        Lost(1, (P0,)),
        Failed(Code.UNKNOWN_SERVER_ERROR, Code.UNKNOWN_SERVER_ERROR.sentence),
    ]


def test_a_coordinator_that_has_moved_is_sought_and_nothing_is_lost() -> None:
    member = in_group(eager(), 0)
    member.step(Tick(), at(3_000))
    assert member.step(Answered(6, beaten(Code.NOT_COORDINATOR)), at(3_001)) == [
        FindCoordinator(7, "g")
    ]
    assert member.step(CoordinatorFound(7), at(3_002)) == [SendToCoordinator(8, beats(1), 5_000)]
    assert member.view().owned == (P0,)


def test_a_lost_answer_to_a_join_or_sync_makes_the_member_join_again() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Unanswered(2, "cut"), at(10)) == [
        Note("warning", "no answer for member without an id: cut")
    ]
    assert member.step(Tick(), at(110)) == [FindCoordinator(3, "g")]
    assert member.step(CoordinatorFound(3), at(110)) == [SendToCoordinator(4, joins(""), PARKED_MS)]
    member.step(Answered(4, joined(1)), at(120))
    assert member.step(Unanswered(5, "cut"), at(130)) == [
        Note("warning", "no answer for member m: cut")
    ]
    assert member.step(Tick(), at(330)) == [FindCoordinator(6, "g")]
    assert member.step(CoordinatorFound(6), at(330)) == [
        SendToCoordinator(7, joins("m"), PARKED_MS)
    ]


def test_the_answer_to_a_request_that_nobody_waits_for_changes_nothing() -> None:
    member = in_group(eager(), 0)
    before = member.view()
    assert (
        member.step(Answered(3, JoinGroupResponse(error_code=Code.UNKNOWN_MEMBER_ID)), at(5)) == []
    )
    assert member.step(Answered(99, beaten(Code.ILLEGAL_GENERATION)), at(5)) == []
    assert member.step(MetadataFetched(5, ()), at(5)) == []
    assert member.view() == before


def test_the_answer_to_an_earlier_search_is_not_the_answer_to_this_one() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(Unanswered(1, "no broker"), at(0))
    assert member.step(Tick(), at(100)) == [FindCoordinator(2, "g")]
    for other in (1, 3):
        assert member.step(CoordinatorFound(other), at(101)) == []
        assert member.step(Unanswered(other, "another"), at(101)) == []
    assert member.step(CoordinatorFound(2), at(102)) == [SendToCoordinator(3, joins(""), PARKED_MS)]


def test_a_coordinator_that_fails_is_asked_again_for_a_bounded_time() -> None:
    member = eager(wait_limit_ms=500)
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    broken = JoinGroupResponse(error_code=Code.UNKNOWN_SERVER_ERROR)
    (note,) = member.step(Answered(2, broken), at(1_000))
    assert isinstance(note, Note)
    assert note.text.startswith("JoinGroup of member without an id: UNKNOWN_SERVER_ERROR: ")
    assert member.step(Tick(), at(1_100)) == [SendToCoordinator(3, joins(""), PARKED_MS)]
    assert len(member.step(Answered(3, broken), at(1_499))) == 1
    assert member.step(Tick(), at(1_699)) == [SendToCoordinator(4, joins(""), PARKED_MS)]
    why = Code.UNKNOWN_SERVER_ERROR.sentence
    assert member.step(Answered(4, broken), at(1_700)) == [
        Lost(1, ()),
        Failed(Code.UNKNOWN_SERVER_ERROR, why),
    ]


def test_pauses_grow_up_to_their_limit_and_end_when_it_goes_well() -> None:
    member = in_group(eager(), 0)
    waits: list[int] = []
    request, now_ms = 6, 3_000
    member.step(Tick(), at(now_ms))
    for _ in range(6):
        member.step(Answered(request, beaten(Code.COORDINATOR_LOAD_IN_PROGRESS)), at(now_ms))
        wake_ms = member.wake_at()
        assert wake_ms is not None
        waits.append(wake_ms - now_ms)
        now_ms, request = wake_ms, request + 1
        member.step(Tick(), at(now_ms))
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    member.step(Answered(request, beaten()), at(now_ms))
    member.step(Tick(), at(now_ms + 3_000))
    member.step(
        Answered(request + 1, beaten(Code.COORDINATOR_LOAD_IN_PROGRESS)), at(now_ms + 3_000)
    )
    assert member.wake_at() == now_ms + 3_100
