"""A KIP-848 member with client-side assignors, event by event: what it offers and what it hears."""

from apportion.assign.by_name import Given, by_topic
from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.assignors.interface import FollowUp
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Lost,
    MetadataFetched,
    Offer,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    to_id_parts,
)
from apportion.wire.messages.consumer_group_heartbeat import Assignment, AssignorVersion
from tests.member.computing_messages import (
    CHECK,
    AgingAssignor,
    CountingAssignor,
    heard,
    learn_names,
    offer,
    offering,
    refused_computation,
    stable,
)
from tests.member.consumer_messages import P0, P1, accepted, at, beat, full, new_member, refused


def test_a_member_asks_for_the_api_then_joins_with_its_assignors() -> None:
    member = new_member(assignors=(CountingAssignor(),))
    member.step(Subscribe(("t",)), at(0))
    assert member.step(CoordinatorFound(1), at(0)) == [SendToCoordinator(2, CHECK, 5_000)]
    response = refused_computation(Code.UNKNOWN_MEMBER_ID)
    assert member.step(Answered(2, response), at(0)) == [
        SendToCoordinator(3, full(0, client_assignors=offer(b"t 1")), 5_000)
    ]


def test_a_member_of_a_broker_without_the_api_ends_before_it_joins() -> None:
    member = new_member(assignors=(CountingAssignor(),))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Unanswered(2, "no such API", Code.UNSUPPORTED_VERSION), at(0)) == [
        Lost(1, ()),
        Failed(
            Code.UNSUPPORTED_VERSION,
            "this broker has no client-side assignors, as no Apache Kafka has: use "
            "group.remote.assignor, or partition.assignment.strategy with group.protocol=classic",
        ),
    ]


def test_a_check_that_meets_the_wrong_broker_is_made_again_at_the_right_one() -> None:
    member = new_member(assignors=(CountingAssignor(),))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    response = refused_computation(Code.NOT_COORDINATOR)
    assert member.step(Answered(2, response), at(0)) == [FindCoordinator(3, "g")]
    assert member.step(CoordinatorFound(3), at(0)) == [SendToCoordinator(4, CHECK, 5_000)]


def test_a_member_that_joins_again_at_another_broker_asks_for_its_api_first() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    assert member.step(Answered(6, refused(Code.NOT_COORDINATOR)), at(1_000)) == [
        FindCoordinator(7, "g")
    ]
    member.step(CoordinatorFound(7), at(1_000))
    assert member.step(Answered(8, refused(Code.UNKNOWN_MEMBER_ID)), at(1_001))[-1:] == [
        SendToCoordinator(9, CHECK, 5_000)
    ]


def test_a_member_that_joins_again_at_the_same_broker_asks_for_nothing() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    assert member.step(Answered(6, refused(Code.UNKNOWN_MEMBER_ID)), at(1_001))[-1:] == [
        SendToCoordinator(7, full(0, client_assignors=offer(b"t 3")), 5_000)
    ]


def test_a_check_without_a_response_is_made_again() -> None:
    member = new_member(assignors=(CountingAssignor(),))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Unanswered(2, "closed"), at(0)) == [
        Note("warning", "no answer for member m: closed")
    ]
    assert member.step(Tick(), at(100)) == [FindCoordinator(3, "g")]
    assert member.step(CoordinatorFound(3), at(100)) == [SendToCoordinator(4, CHECK, 5_000)]


def test_a_steady_heartbeat_does_not_offer_again() -> None:
    assignor = CountingAssignor()
    member = stable(assignor, P0)
    encoded = assignor.encoded
    assert member.step(Tick(), at(1_000)) == [SendToCoordinator(6, beat(1), 5_000)]
    assert assignor.encoded == encoded


def test_newer_metadata_go_beside_what_was_adopted() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, accepted(1, P0, P1)), at(1_000))
    assert member.step(Adopted(1, (P0, P1)), at(1_000)) == [
        SendToCoordinator(
            7,
            beat(1, topic_partitions=to_id_parts((P0, P1)), client_assignors=offer(b"t 3")),
            5_000,
        )
    ]


def test_metadata_that_stay_the_same_are_not_sent_again() -> None:
    member = stable(AgingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, accepted(1, P0, P1)), at(1_000))
    assert member.step(Adopted(1, (P0, P1)), at(1_000)) == [
        SendToCoordinator(7, beat(1, topic_partitions=to_id_parts((P0, P1))), 5_000)
    ]


def test_a_refused_heartbeat_is_followed_by_one_with_the_assignors() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, refused(Code.NOT_COORDINATOR)), at(1_000))
    assert member.step(CoordinatorFound(7), at(1_000)) == [
        SendToCoordinator(8, full(1, P0, client_assignors=offer(b"t 3")), 5_000)
    ]


def test_metadata_are_sent_again_in_the_version_that_the_group_uses() -> None:
    member = stable(AgingAssignor(), P0)
    member.step(Tick(), at(1_000))
    response = heard(1, requested_version=AssignorVersion(name="aging", version=3))
    assert member.step(Answered(6, response), at(1_000)) == [
        SendToCoordinator(
            7, beat(1, client_assignors=offer(b"in 3", name="aging", versions=(2, 5, 3))), 5_000
        )
    ]
    assert member.step(Answered(7, response), at(1_000)) == []


def test_a_version_that_an_assignor_does_not_have_changes_nothing() -> None:
    member = stable(AgingAssignor(), P0)
    member.step(Tick(), at(1_000))
    response = heard(1, requested_version=AssignorVersion(name="aging", version=6))
    assert member.step(Answered(6, response), at(1_000)) == [
        Note(
            "warning",
            "member m has no metadata of version 6 for the assignor 'aging', which the group uses",
        )
    ]


def test_an_assignor_is_told_of_the_assignment_once_its_topics_have_names() -> None:
    assignor = CountingAssignor()
    member = offering(assignor)
    assigned = Assignment(
        topic_partitions=to_id_parts((P0, P1)), error=4, metadata_version=2, metadata=b"hello"
    )
    assert member.step(Answered(3, heard(7, assigned)), at(0)) == [
        Offer(1, (P0, P1), (), (P0, P1)),
        Note("warning", "member m is told of error 4 by the group's assignor"),
        FetchMetadata(4, (), (b"T" * 16,)),
    ]
    assert assignor.told == []
    assert learn_names(member, 4) == []
    assert assignor.told == [(Given(by_topic([("t", 0), ("t", 1)]), b"hello", 4, 2), 7)]


def test_an_assignor_is_told_without_the_partitions_of_a_topic_that_is_gone() -> None:
    assignor = CountingAssignor()
    member = offering(assignor)
    member.step(Answered(3, accepted(1, P0)), at(0))
    member.step(MetadataFetched(4, ()), at(0))
    assert assignor.told == [(Given(), 1)]


def test_names_that_cannot_be_looked_up_are_asked_for_again() -> None:
    assignor = CountingAssignor()
    member = offering(assignor)
    member.step(Answered(3, accepted(1, P0)), at(0))
    assert member.step(Unanswered(4, "no broker"), at(0)) == [
        Note("warning", "member m cannot look up what its assignor needs: no broker")
    ]
    assert member.wake_at() == 1_000
    member.step(Tick(), at(1_000))
    assert assignor.told == []


def test_a_reason_is_sent_once_at_the_time_that_the_assignor_named() -> None:
    assignor = AgingAssignor(reply=FollowUp(at(700).wall_ms, "it is time", 9))
    member = stable(assignor, P0)
    assert member.wake_at() == 700
    offered = offer(b"in 5", name="aging", reason=9, versions=(2, 5, 5))
    assert member.step(Tick(), at(700)) == [
        SendToCoordinator(6, beat(1, client_assignors=offered), 5_000)
    ]
    assert member.step(Answered(6, accepted(1, unchanged=True)), at(700)) == []
    assert member.step(Tick(), at(1_700)) == [SendToCoordinator(7, beat(1), 5_000)]


def test_a_reason_whose_heartbeat_was_lost_is_sent_again() -> None:
    member = stable(AgingAssignor(reply=FollowUp(at(700).wall_ms, "it is time", 9)), P0)
    member.step(Tick(), at(700))
    member.step(Unanswered(6, "closed"), at(700))
    member.step(Tick(), at(800))
    offered = offer(b"in 5", name="aging", reason=9, versions=(2, 5, 5))
    assert member.step(CoordinatorFound(7), at(800)) == [
        SendToCoordinator(8, full(1, P0, client_assignors=offered), 5_000)
    ]


def test_a_full_heartbeat_does_not_put_off_what_an_assignor_has_asked_for() -> None:
    assignor = CountingAssignor(reply=FollowUp(0, "again", after_ms=3_000, reason=9))
    member = stable(assignor, P0)
    member.step(Tick(), at(1_000))
    member.step(Unanswered(6, "closed"), at(1_000))
    member.step(Tick(), at(1_100))
    assert member.step(CoordinatorFound(7), at(1_100)) == [
        SendToCoordinator(8, full(1, P0, client_assignors=offer(b"t 3")), 5_000)
    ]
    member.step(Answered(8, accepted(1, P0)), at(1_101))
    assert len(assignor.told) == 1
    member.step(Tick(), at(2_100))
    member.step(Answered(9, accepted(1, unchanged=True)), at(2_101))
    assert member.step(Tick(), at(3_000)) == [
        SendToCoordinator(10, beat(1, client_assignors=offer(b"t 4", reason=9)), 5_000)
    ]


def test_the_same_assignment_at_a_newer_epoch_is_told() -> None:
    assignor = CountingAssignor()
    member = stable(assignor, P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, accepted(2, P0)), at(1_000))
    assert assignor.told == [(Given(by_topic([("t", 0)])), epoch) for epoch in (1, 2)]
