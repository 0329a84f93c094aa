"""The member machine, event by event, with whole actions compared."""

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MembershipState,
    Offer,
    Polled,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    View,
    from_id_parts,
    to_id_parts,
)
from apportion.topics import IdPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.member.consumer_messages import (
    P0,
    P1,
    P2,
    accepted,
    at,
    beat,
    full,
    joined,
    new_member,
    refused,
)


def test_a_member_is_patient_by_default() -> None:
    assert ConsumerSettings("g", "m") == ConsumerSettings(
        group_id="g",
        member_id="m",
        instance_id=None,
        rack_id=None,
        server_assignor=None,
        rebalance_timeout_ms=300_000,
        poll_limit_ms=None,
        response_timeout_ms=5_000,
        backoff_ms=100,
        backoff_limit_ms=1_000,
        wait_limit_ms=120_000,
    )


def test_a_member_finds_its_coordinator_then_joins_with_everything_it_has_to_say() -> None:
    member = new_member(rack_id="r", server_assignor="uniform")
    assert member.step(Tick(), at(0)) == []
    assert member.step(Subscribe(("t", "s", "t")), at(5)) == [FindCoordinator(1, "g")]
    assert member.wake_at() is None
    assert member.step(CoordinatorFound(1), at(9)) == [
        SendToCoordinator(
            2, full(0, topics=("s", "t"), rack_id="r", server_assignor="uniform"), timeout_ms=5_000
        )
    ]
    assert member.wake_at() is None


def test_an_offer_is_said_to_be_held_and_again_when_it_is_adopted() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Answered(2, accepted(1, P0, P1)), at(10)) == [
        Offer(1, (P0, P1), (), (P0, P1))
    ]
    assert member.wake_at() == 1_000
    assert member.step(Tick(), at(1_000)) == [
        SendToCoordinator(3, beat(1, topic_partitions=to_id_parts((P0, P1))), timeout_ms=5_000)
    ]
    assert member.step(Answered(3, accepted(1, unchanged=True)), at(1_010)) == []
    assert member.step(Adopted(1, (P0, P1)), at(1_200)) == [
        SendToCoordinator(4, beat(1), timeout_ms=5_000)
    ]
    assert member.step(Answered(4, accepted(1, unchanged=True)), at(1_210)) == []
    assert member.wake_at() == 2_200
    assert member.view() == View(
        "m", 1, MembershipState.STABLE, 1, (P0, P1), (P0, P1), 1_210, None, 1_000
    )


def test_a_revocation_is_acknowledged_with_the_rest_and_new_partitions_come_later() -> None:
    member = joined(P0, P1)
    assert member.step(Tick(), at(1_000)) == [SendToCoordinator(4, beat(1), 5_000)]
    assert member.step(Answered(4, accepted(1, P0)), at(1_001)) == [Offer(1, (P0,), (P1,), ())]
    assert (member.view().state, member.view().owned) == (MembershipState.RECONCILING, (P0, P1))
    assert member.step(Adopted(1, (P0,)), at(1_300)) == [
        SendToCoordinator(5, beat(1, topic_partitions=to_id_parts((P0,))), 5_000)
    ]
    assert member.step(Answered(5, accepted(2, P0, P2)), at(1_301)) == [
        Offer(1, (P0, P2), (), (P2,))
    ]
    assert member.view().state is MembershipState.RECONCILING


def test_a_member_that_is_told_again_what_it_holds_stays_as_it_is() -> None:
    member = joined(P0, P1)
    assert member.step(Tick(), at(1_000)) == [SendToCoordinator(4, beat(1), 5_000)]
    assert member.step(Answered(4, accepted(1, P1, P0)), at(1_001)) == []
    assert member.view() == View(
        "m", 1, MembershipState.STABLE, 1, (P0, P1), (P0, P1), 1_001, None, 1_000
    )


def test_a_newer_target_waits_until_the_adopted_one_is_acknowledged() -> None:
    member = joined(P0, P1)
    member.step(Tick(), at(1_000))
    member.step(Answered(4, accepted(2, P0)), at(1_001))
    assert member.step(Tick(), at(2_000)) == [SendToCoordinator(5, beat(2), 5_000)]
    assert member.step(Adopted(1, (P0,)), at(2_001)) == []
    assert member.step(Answered(5, accepted(3, P2)), at(2_002)) == [
        Offer(1, (P2,), (P0,), (P2,)),
        SendToCoordinator(6, beat(3, topic_partitions=to_id_parts((P0, P2))), 5_000),
    ]
    assert member.view().state is MembershipState.RECONCILING


def test_a_partition_not_adopted_yet_stays_in_the_target() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, accepted(1, P0, P1)), at(0))
    assert member.step(Adopted(1, (P1,)), at(1)) == [
        SendToCoordinator(3, beat(1, topic_partitions=to_id_parts((P0, P1))), 5_000)
    ]
    assert member.view() == View(
        "m", 1, MembershipState.RECONCILING, 1, (P0, P1), (P1,), 0, None, 1_000
    )


def test_an_offer_that_was_taken_back_cannot_be_adopted_any_more() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, accepted(1, P0, P1)), at(0))
    member.step(Tick(), at(1_000))
    member.step(Unanswered(3, "no answer"), at(1_001))
    member.step(Tick(), at(1_101))
    # they may be adopted while this heartbeat is under way: the coordinator must not give them away
    held = (P0, P1)
    assert member.step(CoordinatorFound(4), at(1_102)) == [
        SendToCoordinator(5, full(1, *held), 5_000)
    ]
    assert member.step(Answered(5, accepted(2, P1)), at(1_103)) == [Offer(1, (P1,), (), (P1,))]
    assert member.step(Adopted(1, (P0, P1)), at(1_104)) == []
    assert member.view().owned == ()
    assert member.step(Adopted(1, (P1,)), at(1_105)) == [
        SendToCoordinator(6, beat(2, topic_partitions=to_id_parts((P1,))), 5_000)
    ]


def test_an_offer_that_was_taken_back_before_it_was_adopted_is_acknowledged() -> None:
    member = joined(P0)
    assert member.step(Tick(), at(1_000)) == [SendToCoordinator(4, beat(1), 5_000)]
    assert member.step(Answered(4, accepted(2, P0, P1)), at(1_001)) == [
        Offer(1, (P0, P1), (), (P1,))
    ]
    assert member.step(Tick(), at(2_000)) == [
        SendToCoordinator(5, beat(2, topic_partitions=to_id_parts((P0, P1))), 5_000)
    ]
    assert member.step(Answered(5, accepted(2, P0)), at(2_001)) == [Offer(1, (P0,), (), ())]
    assert member.step(Tick(), at(3_000)) == [
        SendToCoordinator(6, beat(2, topic_partitions=to_id_parts((P0,))), 5_000)
    ]


def test_heartbeats_keep_the_interval_of_the_last_answer_counted_from_sending() -> None:
    member = joined(P0)
    assert member.wake_at() == 1_000
    assert member.step(Tick(), at(999)) == []
    assert member.step(Tick(), at(1_000)) == [SendToCoordinator(4, beat(1), 5_000)]
    member.step(Answered(4, accepted(1, unchanged=True, interval_ms=300)), at(1_100))
    assert member.wake_at() == 1_300
    assert member.step(Tick(), at(1_300)) == [SendToCoordinator(5, beat(1), 5_000)]
    assert member.step(Answered(5, accepted(1, unchanged=True, interval_ms=300)), at(1_900)) == [
        SendToCoordinator(6, beat(1), 5_000)
    ]


def test_another_subscription_travels_with_the_next_heartbeat() -> None:
    member = joined(P0)
    assert member.step(Subscribe(("t", "u")), at(10)) == []
    assert member.step(Tick(), at(1_000)) == [
        SendToCoordinator(4, beat(1, subscribed_topic_names=("t", "u")), 5_000)
    ]


def test_an_expression_travels_when_it_changes_and_with_every_full_heartbeat() -> None:
    member = joined(P0)
    member.step(Subscribe(("t",), "u.*"), at(10))
    (sent,) = member.step(Tick(), at(1_000))
    assert sent == SendToCoordinator(4, beat(1, subscribed_topic_regex="u.*"), 5_000)
    member.step(Answered(4, accepted(1, unchanged=True)), at(1_100))
    assert member.step(Tick(), at(2_100)) == [SendToCoordinator(5, beat(1), 5_000)]
    member.step(Answered(5, refused(Code.COORDINATOR_LOAD_IN_PROGRESS)), at(2_200))
    assert member.wake_at() is not None
    assert member.step(Tick(), at(2_400)) == [
        SendToCoordinator(6, full(1, P0, subscribed_topic_regex="u.*"), 5_000)
    ]


def test_a_dropped_expression_is_said_to_be_dropped_in_full_heartbeats_too() -> None:
    member = joined(P0)
    member.step(Subscribe(("t",), "u.*"), at(10))
    member.step(Tick(), at(1_000))
    member.step(Answered(4, accepted(1, unchanged=True)), at(1_100))
    member.step(Subscribe(("t",)), at(1_200))
    assert member.step(Tick(), at(2_100)) == [
        SendToCoordinator(5, beat(1, subscribed_topic_regex=""), 5_000)
    ]
    member.step(Answered(5, refused(Code.COORDINATOR_LOAD_IN_PROGRESS)), at(2_200))
    assert member.step(Tick(), at(2_400)) == [
        SendToCoordinator(6, full(1, P0, subscribed_topic_regex=""), 5_000)
    ]


def test_a_dynamic_member_leaves_for_good_and_a_static_one_leaves_its_place_open() -> None:
    for instance_id, goodbye in ((None, -1), ("i", -2)):
        member = joined(P0, instance_id=instance_id)
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=goodbye, instance_id=instance_id
        )
        assert member.step(Leave(), at(10)) == [SendToCoordinator(4, request, 5_000)]
        assert member.step(
            Answered(4, ConsumerGroupHeartbeatResponse(member_epoch=goodbye)), at(20)
        ) == [Left(True)]
        assert member.view() == View(
            "m", 0, MembershipState.UNSUBSCRIBED, 1, None, (), 0, None, 1_000
        )
        assert member.wake_at() is None


def test_a_static_member_that_leaves_for_good_gives_up_its_place() -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=-1, instance_id="i"
    )
    assert joined(P0, instance_id="i").step(Leave(for_good=True), at(10)) == [
        SendToCoordinator(4, request, 5_000)
    ]


def test_leaving_does_not_wait_for_the_heartbeat_in_flight_and_is_not_repeated() -> None:
    member = joined(P0)
    member.step(Tick(), at(1_000))
    assert member.step(Leave(), at(1_001)) == [SendToCoordinator(5, beat(-1), 5_000)]
    assert member.step(Answered(4, accepted(2, P1)), at(1_002)) == []
    assert member.step(Leave(), at(1_003)) == []
    assert member.step(Unanswered(5, "gone"), at(1_004)) == [Left(False)]
    assert member.wake_at() is None


def test_a_member_whose_join_is_in_doubt_still_says_goodbye() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Leave(), at(1)) == [SendToCoordinator(3, beat(-1), 5_000)]


def test_a_member_that_never_reached_the_coordinator_leaves_without_a_word() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    assert member.step(Leave(), at(1)) == [Left(True)]
    assert member.step(CoordinatorFound(1), at(2)) == []


def test_a_member_that_leaves_while_its_coordinator_is_lost_was_not_heard() -> None:
    member = joined(P0)
    member.step(Tick(), at(1_000))
    member.step(Unanswered(4, "no answer"), at(1_001))
    assert member.step(Leave(), at(1_002)) == [Left(False)]


def test_a_member_whose_join_got_no_answer_leaves_a_group_that_may_have_it() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Unanswered(2, "gone"), at(10))
    assert member.step(Tick(), at(110)) == [FindCoordinator(3, "g")]
    assert member.step(CoordinatorFound(3), at(111)) == [SendToCoordinator(4, full(0), 5_000)]
    member.step(Answered(4, refused(Code.COORDINATOR_LOAD_IN_PROGRESS)), at(112))
    assert member.step(Leave(), at(113)) == [SendToCoordinator(5, beat(-1), 5_000)]
    assert member.step(Answered(5, refused(Code.UNKNOWN_MEMBER_ID)), at(114)) == [Left(True)]


def test_a_member_whose_join_got_no_answer_may_be_in_the_group_still() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Unanswered(2, "gone"), at(10))
    assert member.step(Leave(), at(11)) == [Left(False)]


def test_a_join_that_was_never_sent_leaves_nothing_behind() -> None:
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Unanswered(2, "too old", Code.UNSUPPORTED_VERSION), at(10))
    assert member.step(Leave(), at(11)) == [Left(True)]


def test_a_coordinator_without_the_member_confirms_a_leave_that_overtook_no_join() -> None:
    member = joined(P0)
    assert member.step(Leave(), at(10)) == [SendToCoordinator(4, beat(-1), 5_000)]
    assert member.step(Answered(4, refused(Code.UNKNOWN_MEMBER_ID)), at(11)) == [Left(True)]
    member = new_member()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Leave(), at(1)) == [SendToCoordinator(3, beat(-1), 5_000)]
    assert member.step(Answered(3, refused(Code.UNKNOWN_MEMBER_ID)), at(2)) == [Left(False)]


def test_a_stale_member_has_left_only_if_that_leave_was_answered() -> None:
    for answer, is_confirmed in (
        (Answered(4, ConsumerGroupHeartbeatResponse(member_epoch=-1)), True),
        (Unanswered(4, "gone"), False),
    ):
        member = joined(P0, poll_limit_ms=900)
        assert member.step(Tick(), at(900))[-1] == SendToCoordinator(4, beat(-1), 5_000)
        member.step(answer, at(901))
        assert member.view().state is MembershipState.STALE
        assert member.step(Leave(), at(902)) == [Left(is_confirmed)]


def test_a_member_that_failed_in_its_group_may_be_in_it_still() -> None:
    for code, is_confirmed in (
        (Code.GROUP_AUTHORIZATION_FAILED, False),
        (Code.UNRELEASED_INSTANCE_ID, True),
    ):
        member = joined(P0, wait_limit_ms=0)
        member.step(Tick(), at(1_000))
        member.step(Answered(4, refused(code)), at(1_001))
        assert member.view().state is MembershipState.FATAL
        assert member.step(Leave(), at(1_002)) == [Left(is_confirmed)]


def test_an_owner_that_exceeds_the_poll_interval_leaves_and_rejoins_when_it_polls() -> None:
    member = joined(P0, poll_limit_ms=5_000)
    member.step(Tick(), at(1_000))
    member.step(Answered(4, accepted(1, unchanged=True, interval_ms=60_000)), at(1_001))
    assert member.wake_at() == 5_000
    member.step(Polled(), at(4_000))
    assert member.wake_at() == 9_000
    assert member.step(Tick(), at(9_000)) == [
        Note("warning", "member m leaves: its owner did not come back within 5000 ms"),
        Lost(1, (P0,)),
        SendToCoordinator(5, beat(-1), 5_000),
    ]
    assert (
        member.step(Answered(5, ConsumerGroupHeartbeatResponse(member_epoch=-1)), at(9_001)) == []
    )
    assert member.view() == View("m", 0, MembershipState.STALE, 1, None, (), 1_001, None, 60_000)
    assert member.wake_at() is None
    assert member.step(Polled(), at(20_000)) == [SendToCoordinator(6, full(0), 5_000)]
    assert member.view().incarnation == 2


def test_an_owner_that_is_silent_while_its_join_is_refused_has_nothing_to_leave() -> None:
    member = new_member(poll_limit_ms=50)
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, refused(Code.COORDINATOR_LOAD_IN_PROGRESS)), at(10))
    assert member.step(Tick(), at(50)) == [
        Note("warning", "member m leaves: its owner did not come back within 50 ms"),
        Lost(1, ()),
    ]
    assert (member.view().state, member.wake_at()) == (MembershipState.STALE, None)


def test_a_static_member_that_was_removed_once_leaves_for_now_when_it_is_stale() -> None:
    member = joined(instance_id="i", poll_limit_ms=5_000)
    for_good = beat(-1, instance_id="i")
    assert member.step(Leave(for_good=True), at(10)) == [SendToCoordinator(3, for_good, 5_000)]
    member.step(Answered(3, ConsumerGroupHeartbeatResponse(member_epoch=-1)), at(11))
    member.step(Subscribe(("t",)), at(20))
    member.step(Answered(4, accepted(2, interval_ms=60_000)), at(21))
    sent = member.step(Tick(), at(5_020))[-1]
    assert sent == SendToCoordinator(5, beat(-2, instance_id="i"), 5_000)


def test_assignments_go_over_the_wire_and_back_in_order() -> None:
    other = IdPartition(b"S" * 16, 4)
    assert from_id_parts(to_id_parts((other, P0, P2))) == (other, P0, P2)
