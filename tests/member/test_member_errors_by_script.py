"""The KIP-848 member, event by event: error codes, fencing, and requests without a response."""

import pytest

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Failed,
    FindCoordinator,
    Lost,
    MembershipState,
    Offer,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    View,
)
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.member.consumer_messages import (
    P0,
    P1,
    accepted,
    at,
    beat,
    full,
    joined,
    new_member,
    refused,
)


def test_a_fenced_member_loses_its_partitions_and_joins_again_with_the_same_id() -> None:
    for code in (Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND):
        member = joined(P0, epoch=7)
        member.step(Tick(), at(1_000))
        assert member.step(Answered(4, refused(code)), at(1_001)) == [
            Note("warning", f"member m lost its place at epoch 7: {code.name}"),
            Lost(1, (P0,)),
            SendToCoordinator(5, full(0), 5_000),
        ]
        assert member.view() == View("m", 0, MembershipState.JOINING, 2, None, (), 0, None, 1_000)
        assert member.step(Adopted(1, (P0,)), at(1_002)) == []
        assert member.step(Answered(5, accepted(9, P1)), at(1_003)) == [Offer(2, (P1,), (), (P1,))]
        assert member.step(Adopted(1, (P0,)), at(1_004)) == []


@pytest.mark.parametrize("code", [Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID])
def test_a_member_that_is_fenced_while_joining_pauses_before_the_next_try(code: Code) -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    actions = member.step(Answered(2, refused(code)), at(10))
    assert actions == [
        Note("warning", f"member m was refused: {code.name}"),
        Lost(1, ()),
    ]
    assert member.wake_at() == 110
    assert member.step(Tick(), at(110)) == [SendToCoordinator(3, full(0), 5_000)]


def test_after_a_lost_connection_the_coordinator_is_sought_and_the_heartbeat_is_full() -> None:
    member = joined(P0)
    member.step(Tick(), at(1_000))
    assert member.step(Unanswered(4, "gone"), at(1_500)) == [
        Note("warning", "no answer for member m: gone")
    ]
    assert member.wake_at() == 1_600
    assert member.step(Tick(), at(1_600)) == [FindCoordinator(5, "g")]
    assert member.step(Unanswered(5, "still gone"), at(1_700)) == [
        Note("warning", "no answer for member m: still gone")
    ]
    assert member.wake_at() == 1_900
    assert member.step(Tick(), at(1_900)) == [FindCoordinator(6, "g")]
    assert member.step(CoordinatorFound(6), at(1_950)) == [SendToCoordinator(7, full(1, P0), 5_000)]
    assert member.step(Answered(7, accepted(1, P0)), at(1_960)) == []
    assert member.step(Tick(), at(2_950)) == [SendToCoordinator(8, beat(1), 5_000)]


def test_a_moved_coordinator_is_sought_at_once_and_a_loading_one_is_waited_for() -> None:
    member = joined(P0)
    member.step(Tick(), at(1_000))
    assert member.step(Answered(4, refused(Code.NOT_COORDINATOR)), at(1_001)) == [
        FindCoordinator(5, "g")
    ]
    assert member.step(CoordinatorFound(5), at(1_002)) == [SendToCoordinator(6, full(1, P0), 5_000)]
    note = Note(
        "warning",
        "heartbeat of m: COORDINATOR_LOAD_IN_PROGRESS: "
        f"{Code.COORDINATOR_LOAD_IN_PROGRESS.sentence}",
    )
    assert member.step(Answered(6, refused(Code.COORDINATOR_LOAD_IN_PROGRESS)), at(1_003)) == [note]
    assert member.wake_at() == 1_203
    assert member.step(Tick(), at(1_203)) == [SendToCoordinator(7, full(1, P0), 5_000)]


def test_a_coordinator_that_keeps_moving_is_not_chased_in_a_hot_loop() -> None:
    member = joined(P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(4, refused(Code.NOT_COORDINATOR)), at(1_000))
    member.step(CoordinatorFound(5), at(1_000))
    assert member.step(Answered(6, refused(Code.NOT_COORDINATOR)), at(1_000)) == []
    assert member.wake_at() == 1_100


def test_an_error_that_nothing_can_mend_ends_the_membership_with_its_reason() -> None:
    member = joined(P0)
    member.step(Tick(), at(1_000))
    code = Code.GROUP_MAX_SIZE_REACHED
    assert member.step(Answered(4, refused(code)), at(1_001)) == [
        Lost(1, (P0,)),
        Failed(code, code.sentence),
    ]
    assert member.view() == View(
        "m", 0, MembershipState.FATAL, 1, None, (), 0, Failed(code, code.sentence), 1_000
    )
    assert member.step(Tick(), at(9_000)) == []
    assert member.wake_at() is None


def test_a_group_that_may_not_be_read_ends_the_search_for_its_coordinator() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    code = Code.GROUP_AUTHORIZATION_FAILED
    assert member.step(Unanswered(1, "no", code), at(1)) == [Lost(1, ()), Failed(code, "no")]


REMEDIES = {
    Code.UNRELEASED_INSTANCE_ID: (
        " It was not released within 1 s; `apportion groups remove-members g --instance i` removes "
        "a member that has died."
    )
}
"""What the member adds to an error with which it ends."""


@pytest.mark.parametrize(
    "code", [Code.UNRELEASED_INSTANCE_ID, Code.UNKNOWN_SERVER_ERROR, Code.GROUP_ID_NOT_FOUND]
)
def test_an_error_that_time_may_mend_is_retried_up_to_a_limit(code: Code) -> None:
    member = new_member(instance_id="i", wait_limit_ms=1_000)
    member.step(Subscribe(("t",)), at(50_000))
    member.step(CoordinatorFound(1), at(50_000))
    note = Note(
        "warning",
        f"heartbeat of m: {code.name}: {code.sentence}",
        " The member tries again for up to 1 s.",
    )
    assert member.step(Answered(2, refused(code)), at(50_010)) == [note]
    assert member.step(Tick(), at(50_110)) == [
        SendToCoordinator(3, full(0, instance_id="i"), 5_000)
    ]
    assert member.step(Answered(3, refused(code)), at(51_009)) == [note]
    assert member.step(Tick(), at(51_209)) == [
        SendToCoordinator(4, full(0, instance_id="i"), 5_000)
    ]
    assert member.step(Answered(4, refused(code)), at(51_210)) == [
        Lost(1, ()),
        Failed(code, code.sentence + REMEDIES.get(code, "")),
    ]


@pytest.mark.parametrize("code", [Code.UNRELEASED_INSTANCE_ID, Code.UNKNOWN_SERVER_ERROR])
def test_the_wait_is_over_the_moment_its_limit_is_reached(code: Code) -> None:
    member = new_member(instance_id="i", wait_limit_ms=1_000)
    member.step(Subscribe(("t",)), at(50_000))
    member.step(CoordinatorFound(1), at(50_000))
    member.step(Answered(2, refused(code)), at(50_010))
    member.step(Tick(), at(50_110))
    assert member.step(Answered(3, refused(code)), at(51_010)) == [
        Lost(1, ()),
        Failed(code, code.sentence + REMEDIES.get(code, "")),
    ]


def test_an_answer_to_a_request_that_nobody_waits_for_changes_nothing() -> None:
    member = joined(P0)
    before = member.view()
    assert member.step(Answered(3, accepted(5, P1)), at(10)) == []
    assert member.step(Unanswered(77, "late"), at(10)) == []
    assert member.view() == before


def test_a_member_whose_topics_are_refused_stays_and_its_view_says_so() -> None:
    member = new_member()
    member.step(Subscribe(("u", "t")), at(0))
    member.step(CoordinatorFound(1), at(0))
    code = Code.TOPIC_AUTHORIZATION_FAILED
    why = (
        "this client's principal has no permission for DESCRIBE on the topics 't', 'u'; "
        "whoever may alter the cluster gives "
        "READ, which includes it, by `apportion acls add --allow-principal "
        "User:NAME --operation Read --topic t --topic u`"
    )
    assert member.step(Answered(2, refused(code)), at(10)) == [
        Note("warning", f"heartbeat of m: {code.name}: {why}")
    ]
    assert (member.view().refusal, member.view().state) == (
        Failed(code, why),
        MembershipState.JOINING,
    )
    assert member.step(Tick(), at(110)) == [SendToCoordinator(3, full(0, topics=("t", "u")), 5_000)]
    assert member.view().refusal == Failed(code, why)
    member.step(Answered(3, accepted(1, P0)), at(111))
    assert member.view().refusal is None


def test_the_refusal_of_topics_ends_with_the_subscription_to_them() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, refused(Code.TOPIC_AUTHORIZATION_FAILED)), at(10))
    member.step(Subscribe(("u",)), at(11))
    assert member.view().refusal is None


def test_a_coordinator_that_names_the_principal_is_quoted() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    code, said = Code.GROUP_AUTHORIZATION_FAILED, "User:bob has no permission for READ on group g."
    response = ConsumerGroupHeartbeatResponse(error_code=code, error_message=said)
    assert member.step(Answered(2, response), at(10)) == [
        Lost(1, ()),
        Failed(
            code,
            "User:bob has no permission for READ on group g; "
            "whoever may alter the cluster gives it by `apportion "
            "acls add --allow-principal User:NAME --operation Read --group g`",
        ),
    ]
