"""The classic member, event by event, with whole actions: from one generation to the next."""

from typing import Any

from apportion.assign.by_name import Given, Subscription
from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.assignors.builtin import CooperativeSticky
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    FetchMetadata,
    FindCoordinator,
    MembershipState,
    MetadataFetched,
    Offer,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    View,
)
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tests.member.classic_messages import (
    P0,
    P1,
    P2,
    PARKED_MS,
    SEEN,
    at,
    beaten,
    beats,
    cooperative,
    cooperative_join,
    cooperative_loses_p1,
    eager,
    hears_of_a_rebalance,
    in_group,
    joined,
    joins,
    of_t,
    synced,
    syncs,
)


def test_a_member_joins_in_two_steps_and_is_patient_with_the_second() -> None:
    member = eager(rack_id="r")
    assert member.step(Subscribe(("t",)), at(0)) == [FindCoordinator(1, "g")]
    assert member.step(CoordinatorFound(1), at(1)) == [
        SendToCoordinator(2, joins("", rack="r"), PARKED_MS)
    ]
    required = JoinGroupResponse(error_code=Code.MEMBER_ID_REQUIRED, member_id="m")
    assert member.step(Answered(2, required), at(2)) == [
        SendToCoordinator(3, joins("m", rack="r"), PARKED_MS)
    ]
    assert member.wake_at() is None  # parked, and heartbeats before a generation are none
    assert member.view() == View("m", -1, MembershipState.JOINING, 1, None, (), None, None, 3_000)


def test_a_follower_syncs_looks_its_topics_up_and_offers_them() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Answered(2, joined(4)), at(10)) == [
        SendToCoordinator(3, syncs(4), PARKED_MS)
    ]
    assert member.step(Answered(3, synced(0, 2)), at(20)) == [FetchMetadata(4, ("t",))]
    assert member.wake_at() == 3_010
    assert member.step(MetadataFetched(4, (SEEN,)), at(30)) == [Offer(1, (P0, P2), (), (P0, P2))]
    assert member.view() == View(
        "m", 4, MembershipState.RECONCILING, 1, (P0, P2), (), 20, None, 3_000
    )
    assert member.step(Adopted(1, (P0, P2)), at(40)) == []
    assert member.view() == View(
        "m", 4, MembershipState.STABLE, 1, (P0, P2), (P0, P2), 20, None, 3_000
    )
    assert member.step(Tick(), at(3_010)) == [SendToCoordinator(5, beats(4), 5_000)]
    assert member.step(Answered(5, beaten()), at(3_050)) == []
    assert (member.wake_at(), member.view().last_accepted_ms) == (6_010, 3_050)


def test_a_leader_looks_up_all_topics_shares_out_and_leaves_nobody_without_bytes() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    others = (("m", Subscription(("t",))), ("n", Subscription(("t",))), ("o", Subscription(("u",))))
    assert member.step(Answered(2, joined(1, *others, leader="m")), at(0)) == [
        FetchMetadata(3, ("t", "u"))
    ]
    shares = syncs(1, ("m", (0, 1)), ("n", (2, 3)), ("o", ()))
    assert member.step(MetadataFetched(3, (SEEN,)), at(0)) == [
        SendToCoordinator(4, shares, PARKED_MS)
    ]


def test_a_leader_whose_look_up_fails_keeps_its_place_and_asks_again() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, joined(1, ("m", Subscription(("t",))), leader="m")), at(0))
    assert member.step(Unanswered(3, "no broker"), at(5)) == [
        Note("warning", "member m cannot look up its topics: no broker"),
    ]
    assert member.step(Tick(), at(1_005)) == [FetchMetadata(4, ("t",))]
    assert member.step(Tick(), at(3_000)) == [SendToCoordinator(5, beats(1), 5_000)]


def test_a_member_whose_subscription_cannot_be_read_gets_nothing_and_is_named() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    answer: Any = joined(1, ("m", Subscription(("t",))), leader="m")
    answer.members += (JoinGroupResponseMember(member_id="broken", metadata=b"\0"),)
    note, look_up = member.step(Answered(2, answer), at(0))
    assert isinstance(note, Note)
    assert note.text.startswith(
        "a member gets nothing: the subscription of 'broken' cannot be read: "
    )
    assert look_up == FetchMetadata(3, ("t",))
    shares = syncs(1, ("m", (0, 1, 2, 3)), ("broken", ()))
    assert member.step(MetadataFetched(3, (SEEN,)), at(0)) == [
        SendToCoordinator(4, shares, PARKED_MS)
    ]


def test_an_eager_member_takes_everything_back_before_it_joins_again() -> None:
    member = in_group(eager(), 0, 1)
    assert hears_of_a_rebalance(member) == [Offer(1, (), (P0, P1), ())]
    assert member.view() == View(
        "m", 1, MembershipState.RECONCILING, 1, (), (P0, P1), 3_000, None, 3_000
    )
    # its owner takes long, but it lives
    assert member.step(Tick(), at(6_000)) == [SendToCoordinator(7, beats(1), 5_000)]
    assert member.step(Answered(7, beaten(Code.REBALANCE_IN_PROGRESS)), at(6_000)) == []
    assert member.step(Adopted(1, ()), at(6_001)) == [
        SendToCoordinator(8, joins(reason="the group rebalances", generation=1), PARKED_MS)
    ]


def test_an_offer_cannot_be_adopted_once_an_eager_member_rejoins() -> None:
    member = in_group(eager())
    assert hears_of_a_rebalance(member, 5)[-1] == SendToCoordinator(
        6, joins(reason="the group rebalances", generation=1), PARKED_MS
    )
    assert member.step(Adopted(1, (P0,)), at(6_001)) == []
    assert member.view().owned == ()


def test_a_cooperative_member_joins_again_at_once_with_all_that_it_holds() -> None:
    member = in_group(cooperative(), 0, 1, name="cooperative-sticky")
    data = CooperativeSticky()
    data.on_assignment(Given(of_t(0, 1)), 1)
    fields: dict[str, Any] = {
        "name": "cooperative-sticky",
        "user_data": data.user_data(("t",)),
        "owned": (0, 1),
        "generation": 1,
    }
    assert hears_of_a_rebalance(member) == [
        SendToCoordinator(7, joins(reason="the group rebalances", **fields), PARKED_MS)
    ]
    assert member.view() == View(
        "m", 1, MembershipState.JOINING, 1, (P0, P1), (P0, P1), 3_000, None, 3_000
    )
    member.step(Answered(7, joined(2, name="cooperative-sticky")), at(3_010))
    assert (member.view().epoch, member.view().owned) == (2, (P0, P1))
    member.step(Answered(8, synced(0, 1)), at(3_020))
    # nothing has changed, and nobody is disturbed
    assert member.step(MetadataFetched(9, (SEEN,)), at(3_030)) == []
    assert member.view().state is MembershipState.STABLE


def test_a_cooperative_member_joins_again_when_its_owner_has_let_go_and_not_before() -> None:
    member = cooperative_loses_p1()
    assert member.wake_at() == 6_010  # nothing but the next heartbeat
    assert member.step(Adopted(1, (P0,)), at(3_500)) == [
        SendToCoordinator(10, cooperative_join((0,), 2, "owned partitions were revoked"), PARKED_MS)
    ]


def test_a_partition_to_revoke_is_claimed_while_its_owner_uses_it() -> None:
    member = cooperative_loses_p1()
    member.step(Tick(), at(6_010))
    again = member.step(Answered(10, beaten(Code.REBALANCE_IN_PROGRESS)), at(6_030))
    (send,) = again
    assert send == SendToCoordinator(
        11, cooperative_join((0, 1), 2, "the group rebalances"), PARKED_MS
    )
    member.step(Adopted(1, (P0,)), at(6_040))  # while the answer is awaited
    member.step(Answered(11, joined(3, name="cooperative-sticky")), at(6_050))
    member.step(Answered(12, synced(0)), at(6_060))
    freed = SendToCoordinator(
        14, cooperative_join((0,), 3, "owned partitions were revoked"), PARKED_MS
    )
    assert member.step(MetadataFetched(13, (SEEN,)), at(6_070)) == [freed]


def test_an_offered_partition_never_adopted_is_freed_by_another_join() -> None:
    member = in_group(cooperative(), name="cooperative-sticky")
    member.step(Tick(), at(3_000))
    member.step(Answered(5, beaten(Code.REBALANCE_IN_PROGRESS)), at(3_000))
    member.step(Answered(6, joined(2, name="cooperative-sticky")), at(3_000))
    member.step(Answered(7, synced(0, 1)), at(3_000))
    assert member.step(MetadataFetched(8, (SEEN,)), at(3_000)) == [Offer(1, (P0, P1), (), (P0, P1))]
    member.step(Tick(), at(6_000))
    (send,) = member.step(Answered(9, beaten(Code.REBALANCE_IN_PROGRESS)), at(6_000))
    assert isinstance(send, SendToCoordinator)
    assert send.request == cooperative_join((0, 1), 2, "the group rebalances")
    member.step(Answered(10, joined(3, name="cooperative-sticky")), at(6_000))
    member.step(Answered(11, synced(0)), at(6_000))
    assert member.step(MetadataFetched(12, (SEEN,)), at(6_000)) == [
        Offer(1, (P0,), (), (P0,)),
        SendToCoordinator(
            13, cooperative_join((0,), 3, "owned partitions were revoked"), PARKED_MS
        ),
    ]


def test_a_cooperative_member_releases_unsubscribed_partitions_before_it_joins() -> None:
    member = in_group(cooperative(), 0, 1, name="cooperative-sticky")
    assert member.step(Subscribe(("u",)), at(10)) == [Offer(1, (), (P0, P1), ())]
    (send,) = member.step(Adopted(1, ()), at(20))
    data = CooperativeSticky()
    data.on_assignment(Given(of_t(0, 1)), 1)
    fields: dict[str, Any] = {
        "name": "cooperative-sticky",
        "user_data": data.user_data(("u",)),
        "topics": ("u",),
        "generation": 1,
    }
    assert send == SendToCoordinator(
        6, joins(reason="the subscription has changed", **fields), PARKED_MS
    )


def test_an_assignment_of_topics_that_are_not_wanted_is_not_taken() -> None:
    member = in_group(eager())
    member.step(Tick(), at(3_000))
    member.step(Answered(5, beaten(Code.REBALANCE_IN_PROGRESS)), at(3_000))
    member.step(Subscribe(("u",)), at(3_001))
    member.step(Answered(6, joined(2)), at(3_010))
    why = "topic t was assigned and is not subscribed"
    assert member.step(Answered(7, synced(0)), at(3_020)) == [
        Note("warning", f"member m joins again: {why}"),
        SendToCoordinator(8, joins(topics=("u",), generation=1, reason=why), PARKED_MS),
    ]
    # The second time with a pause: its leader may assign the same again and again.
    member.step(Answered(8, joined(3)), at(3_030))
    (warning,) = member.step(Answered(9, synced(0)), at(3_040))
    assert (isinstance(warning, Note), member.wake_at()) == (True, 3_140)
