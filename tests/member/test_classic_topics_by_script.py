"""The classic member, event by event: changed topics, and groups that moved to KIP-848."""

from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription
from apportion.errors import Code
from apportion.machine import Tick
from apportion.member.assignors.builtin import CooperativeSticky
from apportion.member.classic.machine import ClassicMember
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    FetchMetadata,
    Lost,
    MembershipState,
    MetadataFetched,
    Offer,
    SendToCoordinator,
    Subscribe,
    Unanswered,
)
from apportion.topics import IdPartition
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.sync_group import SyncGroupResponse
from tests.member.classic_messages import (
    P0,
    P1,
    P2,
    P3,
    PARKED_MS,
    SEEN,
    U,
    at,
    beaten,
    cooperative,
    cooperative_join,
    eager,
    hears_of_a_rebalance,
    in_group,
    joined,
    joins,
    of_t,
    synced,
    syncs,
)

# topics that change


def test_a_leader_whose_topic_grows_wants_a_new_generation() -> None:
    member = cooperative(metadata_interval_ms=1_000)
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(
        Answered(2, joined(1, ("m", Subscription(("t",))), leader="m", name="cooperative-sticky")),
        at(0),
    )
    member.step(MetadataFetched(3, (SEEN,)), at(0))
    member.step(Answered(4, synced(0, 1, 2, 3)), at(0))
    member.step(MetadataFetched(5, (SEEN,)), at(0))
    member.step(Adopted(1, (P0, P1, P2, P3)), at(0))
    assert member.step(Tick(), at(1_000)) == [FetchMetadata(6, ("t",))]
    assert member.step(MetadataFetched(6, (SEEN,)), at(1_001)) == []
    assert member.step(Tick(), at(2_001)) == [FetchMetadata(7, ("t",))]
    (send,) = member.step(MetadataFetched(7, (SEEN._replace(partitions=6),)), at(2_002))
    assert send == SendToCoordinator(
        8, cooperative_join((0, 1, 2, 3), 1, "topics have changed"), PARKED_MS
    )


def test_a_leader_whose_first_topic_appears_wants_a_new_generation() -> None:
    member = cooperative(metadata_interval_ms=1_000)
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(
        Answered(2, joined(1, ("m", Subscription(("t",))), leader="m", name="cooperative-sticky")),
        at(0),
    )
    member.step(MetadataFetched(3, ()), at(0))
    member.step(Answered(4, synced()), at(0))
    member.step(Tick(), at(1_000))
    (send,) = member.step(MetadataFetched(5, (SEEN,)), at(1_001))
    assert isinstance(send, SendToCoordinator)
    assert isinstance(send.request, JoinGroupRequest)
    assert send.request.reason == "topics have changed"


def test_a_topic_that_was_made_again_is_given_up_until_the_next_generation_gives_it() -> None:
    member = in_group(cooperative(metadata_interval_ms=1_000), 0, name="cooperative-sticky")
    member.step(Tick(), at(1_000))
    assert member.step(MetadataFetched(6, (TopicDescription("t", U, 4),)), at(1_001)) == [
        Offer(1, (), (P0,), ())
    ]
    assert member.step(Adopted(1, ()), at(1_002)) == [
        SendToCoordinator(7, cooperative_join((), 1, "topic t was recreated"), PARKED_MS)
    ]
    member.step(Answered(7, joined(2, name="cooperative-sticky")), at(1_003))
    member.step(Answered(8, synced(0)), at(1_004))
    again = IdPartition(U, 0)
    assert member.step(MetadataFetched(9, (TopicDescription("t", U, 4),)), at(1_005)) == [
        Offer(1, (again,), (), (again,))
    ]


@pytest.mark.parametrize("younger", [U, b"A" * 16])
def test_a_topic_recreated_since_the_join_is_not_taken_for_the_assigned_one(younger: bytes) -> None:
    member = in_group(cooperative(), 0, name="cooperative-sticky")
    hears_of_a_rebalance(member)
    member.step(Answered(7, joined(2, name="cooperative-sticky")), at(3_000))
    member.step(Answered(8, synced(0)), at(3_000))
    assert member.step(MetadataFetched(9, (TopicDescription("t", younger, 4),)), at(3_000)) == [
        Offer(1, (), (P0,), ())
    ]
    (send,) = member.step(Adopted(1, ()), at(3_001))
    assert isinstance(send, SendToCoordinator)
    assert isinstance(send.request, JoinGroupRequest)
    assert send.request.reason == "topic t was recreated"


def test_metadata_that_comes_while_joining_offers_nothing_back() -> None:
    member = in_group(eager(metadata_interval_ms=3_000), 0)
    assert FetchMetadata(6, ("t",)) in member.step(Tick(), at(3_000))
    assert member.step(Answered(7, beaten(Code.REBALANCE_IN_PROGRESS)), at(3_001)) == [
        Offer(1, (), (P0,), ())
    ]
    member.step(Adopted(1, ()), at(3_002))
    assert member.step(MetadataFetched(6, (SEEN,)), at(3_003)) == []
    assert member.view().target == ()


def leads_a_generation_that_withholds() -> ClassicMember:
    """A cooperative leader of 1 that gave others less than there is, as "a" still owned all of it;
    request 5 was the last.
    """
    member = cooperative()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    others = (("a", Subscription(("t",), None, of_t(0, 1, 2, 3), 7)), ("m", Subscription(("t",))))
    member.step(Answered(2, joined(1, *others, leader="m", name="cooperative-sticky")), at(0))
    member.step(MetadataFetched(3, (SEEN,)), at(0))
    member.step(Answered(4, synced()), at(0))
    return member


def test_a_leader_asks_again_when_nobody_joins_to_give_on_what_was_taken() -> None:
    member = leads_a_generation_that_withholds()
    look = next(each for each in member.step(Tick(), at(60_000)) if isinstance(each, FetchMetadata))
    answered = member.step(MetadataFetched(look.request_id, (SEEN,)), at(60_001))
    # its heartbeat is still under way
    assert (answered, member.state) == ([], MembershipState.JOINING)


def test_a_follower_owns_no_partition_its_topic_lacks_and_refreshes_metadata() -> None:
    member = in_group(eager())
    member.step(Tick(), at(3_000))
    member.step(Answered(5, beaten(Code.REBALANCE_IN_PROGRESS)), at(3_000))
    member.step(Answered(6, joined(2)), at(3_000))
    look = next(
        each
        for each in member.step(Answered(7, synced(0, 9, -1)), at(3_000))
        if isinstance(each, FetchMetadata)
    )
    assert member.step(MetadataFetched(look.request_id, (SEEN,)), at(3_000)) == [
        Offer(1, (P0,), (), (P0,))
    ]
    assert any(isinstance(each, FetchMetadata) for each in member.step(Tick(), at(4_000)))


def test_a_topic_that_is_not_known_everywhere_yet_is_looked_up_until_it_is() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, joined(1)), at(0))
    member.step(Answered(3, synced(0)), at(0))
    assert member.step(MetadataFetched(4, ()), at(0)) == [Offer(1, (), (), ())]
    assert member.step(Tick(), at(1_000)) == [FetchMetadata(5, ("t",))]
    assert member.step(MetadataFetched(5, (SEEN,)), at(1_001)) == [Offer(1, (P0,), (), (P0,))]


# groups that have gone over to KIP-848


@pytest.mark.parametrize(("answered_ms", "lives"), [(48_000, 1), (48_001, 2)])
def test_a_member_that_a_kip_848_group_may_have_removed_and_readmitted_owns_nothing(
    answered_ms: int, lives: int
) -> None:
    member = in_group(cooperative(), 0, name="cooperative-sticky")
    # its heartbeat of 3,000 ms is the last sign that the group still had it
    hears_of_a_rebalance(member)
    member.step(Unanswered(7, "cut"), at(40_000))
    member.step(Tick(), at(40_100))
    member.step(CoordinatorFound(8), at(40_100))
    actions = member.step(
        Answered(9, joined(2, name="cooperative-sticky", leader="")), at(answered_ms)
    )
    assert member.view().incarnation == lives
    lost = [action for action in actions if isinstance(action, Lost)]
    assert lost == ([] if lives == 1 else [Lost(1, (P0,))])
    if lives == 2:
        memory = CooperativeSticky()
        memory.on_assignment(Given(of_t(0)), 1)
        again = joins(name="cooperative-sticky", user_data=memory.user_data(("t",)))
        assert actions[-1] == SendToCoordinator(10, again, PARKED_MS)


@pytest.mark.parametrize(("answered_ms", "lives"), [(30_000, 1), (30_001, 2)])
def test_a_member_that_rejoins_a_kip_848_group_too_late_owns_nothing(
    answered_ms: int, lives: int
) -> None:
    member = in_group(cooperative(rebalance_timeout_ms=30_000), 0, name="cooperative-sticky")
    # REBALANCE_IN_PROGRESS keeps the session alive, but not the deadline for the JoinGroup.
    hears_of_a_rebalance(member)
    member.step(Answered(7, joined(2, name="cooperative-sticky", leader="")), at(answered_ms))
    assert member.view().incarnation == lives


def test_a_classic_group_may_take_longer_than_a_session_to_answer_a_join() -> None:
    member = in_group(cooperative(), 0, name="cooperative-sticky")
    hears_of_a_rebalance(member)
    assert member.step(Answered(7, joined(2, name="cooperative-sticky")), at(60_000)) == [
        SendToCoordinator(8, syncs(2, name="cooperative-sticky"), PARKED_MS)
    ]
    assert member.view().owned == (P0,)


def test_the_answer_to_an_earlier_look_is_not_the_answer_to_this_one() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, joined(1, ("m", Subscription(("t",))), leader="m")), at(0))
    member.step(Unanswered(3, "no broker"), at(0))
    assert member.step(Tick(), at(1_000)) == [FetchMetadata(4, ("t",))]
    assert member.step(MetadataFetched(3, (SEEN,)), at(1_001)) == []
    assert member.step(MetadataFetched(5, (SEEN,)), at(1_001)) == []
    assert member.step(Unanswered(3, "late"), at(1_001)) == []
    assert member.step(Unanswered(5, "early"), at(1_001)) == []
    assert member.step(MetadataFetched(4, (SEEN,)), at(1_001)) == [
        SendToCoordinator(5, syncs(1, ("m", (0, 1, 2, 3))), PARKED_MS)
    ]


def test_a_group_that_rebalances_again_and_again_is_joined_with_pauses() -> None:
    member = in_group(eager(), 0)
    hears_of_a_rebalance(member)
    join: Any
    (join,) = member.step(Adopted(1, ()), at(3_000))
    waits = []
    for request in (7, 9, 11):
        assert join.request_id == request
        member.step(Answered(request, joined(request)), at(3_000))
        again = member.step(
            Answered(request + 1, SyncGroupResponse(error_code=Code.REBALANCE_IN_PROGRESS)),
            at(3_000),
        )
        wake_ms = member.wake_at() or 0
        waits.append(None if again else wake_ms - 3_000)
        (join,) = again or member.step(Tick(), at(wake_ms))
    assert waits == [None, 100, 200]


def test_a_topic_that_is_deleted_is_let_go_of() -> None:
    member = in_group(eager(metadata_interval_ms=1_000), 0)
    assert member.step(Tick(), at(1_000)) == [FetchMetadata(6, ("t",))]
    assert member.step(MetadataFetched(6, ()), at(1_001)) == [Offer(1, (), (P0,), ())]


def test_a_first_join_late_in_the_life_of_a_process_loses_nothing() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(100_000))
    member.step(CoordinatorFound(1), at(100_000))
    assert member.step(Answered(2, joined(1, leader="")), at(100_010)) == [
        SendToCoordinator(3, syncs(1), PARKED_MS)
    ]
    assert member.view().incarnation == 1
    member.step(Answered(3, SyncGroupResponse()), at(100_020))
    assert member.wake_at() == 103_010  # the next heartbeat
