"""An assignor that asks the cluster before it answers, and one that wants its members to come
again.
"""

from collections.abc import Generator, Mapping
from typing import Any

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note, Tick
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure, Rebalance
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Failed,
    FetchMetadata,
    MembershipState,
    MetadataFetched,
    Offer,
    QueryAnswered,
    QueryCluster,
    Rejoin,
    SendToCoordinator,
    Subscribe,
    Unanswered,
)
from apportion.wire.messages.sync_group import SyncGroupRequest
from tests.member.classic_messages import (
    P0,
    P1,
    PARKED_MS,
    SEEN,
    at,
    beaten,
    eager,
    hears_of_a_rebalance,
    in_group,
    joined,
    joins,
    synced,
    syncs,
)


class QueryingAssignor(Assignor):
    """Gives everything to the member that the cluster names; where nobody names one, nothing."""

    name = "asking"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given] | Generator[Any, Any, dict[str, Given]]:
        if not cluster:
            return {}
        try:
            who = yield "who?"
        except Unanswerable as problem:
            return {"m": Given(user_data=str(problem).encode())}
        if who == "nonsense":
            return {"stranger": Given()}
        made = yield "make u"
        return {
            who: Given(
                by_topic([("t", number) for number in range(4)]), user_data=repr(made).encode()
            )
        }


def leads(assignor: "QueryingAssignor | RepeatingAssignor") -> Any:
    """A member that leads a generation of one and has looked up its topics; the actions of that."""
    member = eager(assignors=(assignor,))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(
        Answered(2, joined(1, ("m", Subscription(("t",))), leader="m", name=assignor.name)), at(0)
    )
    return member, member.step(MetadataFetched(3, (SEEN,)), at(0))


def plan_of(action: Any) -> SyncGroupRequest:
    assert isinstance(action, SendToCoordinator)
    assert isinstance(action.request, SyncGroupRequest)
    return action.request


def test_a_leader_asks_what_its_assignor_must_know_before_it_shares_out() -> None:
    member, asked = leads(QueryingAssignor())
    assert asked == [QueryCluster(4, "who?")]
    assert member.view().state is MembershipState.SYNCING
    assert member.step(QueryAnswered(4, "m"), at(5)) == [QueryCluster(5, "make u")]
    (send,) = member.step(MetadataFetched(5, (TopicDescription("u", b"U" * 16, 7),)), at(9))
    assert plan_of(send) == syncs(1, ("m", (0, 1, 2, 3)), name="asking", user_data=b"{'u': 7}")


def test_an_assignor_that_could_ask_may_answer_at_once() -> None:
    member = eager(assignors=(QueryingAssignor(),))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(
        Answered(2, joined(1, ("m", Subscription(("t",))), leader="m", name="asking")), at(0)
    )
    (send,) = member.step(MetadataFetched(3, ()), at(0))
    assert plan_of(send) == syncs(1, ("m", ()), name="asking")


def test_a_question_without_an_answer_is_thrown_into_the_assignor() -> None:
    member, _ = leads(QueryingAssignor())
    warning, send = member.step(Unanswered(4, "no broker"), at(5))
    assert plan_of(send) == syncs(1, ("m", ()), name="asking", user_data=b"no broker")
    assert warning == Note("warning", "member m cannot look up its topics: no broker")


def test_a_question_that_is_refused_for_good_is_thrown_as_refused() -> None:
    member, _ = leads(QueryingAssignor())
    failed = next(
        each
        for each in member.step(Unanswered(4, "not here", Code.POLICY_VIOLATION), at(5))
        if isinstance(each, Failed)
    )
    assert (failed.code, failed.why) == (Code.POLICY_VIOLATION, "not here")


class RepeatingAssignor(Assignor):
    """Asks until it is answered."""

    name = "insisting"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given] | Generator[Any, Any, dict[str, Given]]:
        while True:
            try:
                yield "who?"
            except Unanswerable:
                continue
            return {}


def test_a_question_that_is_asked_again_waits_a_while() -> None:
    member, _ = leads(RepeatingAssignor())
    assert member.step(Unanswered(4, "no broker"), at(5)) == [
        Note("warning", "member m cannot look up its topics: no broker")
    ]
    pause_ms = member.settings.backoff_limit_ms
    assert member.wake_at() == 5 + pause_ms
    assert member.step(Tick(), at(5 + pause_ms)) == [QueryCluster(5, "who?")]


def test_heartbeats_go_on_while_a_question_is_open() -> None:
    member, _ = leads(QueryingAssignor())
    assert [type(each.request).__name__ for each in member.step(Tick(), at(3_000))] == [
        "HeartbeatRequest"
    ]


def test_an_answer_to_what_was_asked_in_an_earlier_generation_changes_nothing() -> None:
    member, _ = leads(QueryingAssignor())
    member.step(Tick(), at(3_000))
    member.step(Answered(5, beaten(Code.UNKNOWN_MEMBER_ID)), at(3_000))
    member.step(
        Answered(6, joined(2, ("m", Subscription(("t",))), leader="m", name="asking")), at(3_010)
    )
    assert member.step(QueryAnswered(4, "m"), at(3_010)) == []
    assert member.step(MetadataFetched(7, (SEEN,)), at(3_010)) == [QueryCluster(8, "who?")]


def test_nonsense_after_a_question_is_refused_as_without_one() -> None:
    member, _ = leads(QueryingAssignor())
    failed = next(
        each
        for each in member.step(QueryAnswered(4, "nonsense"), at(5))
        if isinstance(each, Failed)
    )
    assert "stranger" in failed.why


class FollowUpAssignor(Assignor):
    """Wants its members to come again at a time of the wall clock."""

    name = "coming"
    rebalances = (Rebalance.COOPERATIVE,)

    def __init__(self, at_ms: int, after_ms: int = 0) -> None:
        self.at_ms = at_ms
        self.after_ms = after_ms

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given] | Generator[Any, Any, dict[str, Given]]:
        return {}

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        if self.at_ms < 0:
            raise Refused(Code.INVALID_REQUEST, "not for me")
        return FollowUp(self.at_ms, "it is time", after_ms=self.after_ms)


def test_a_member_joins_again_at_once_when_its_assignor_says_so() -> None:
    member = eager(assignors=(FollowUpAssignor(0),))
    in_group(member, name="coming")
    assert member.view().state is MembershipState.JOINING


def test_a_member_joins_again_at_the_time_that_its_assignor_named() -> None:
    member = in_group(eager(assignors=(FollowUpAssignor(at(2_500).wall_ms),)), 0, name="coming")
    assert (member.view().state, member.wake_at()) == (MembershipState.STABLE, 2_500)
    (send,) = member.step(Tick(), at(2_500))
    assert send == SendToCoordinator(
        6, joins(name="coming", owned=(0,), generation=1, reason="it is time"), PARKED_MS
    )


def test_a_member_joins_again_so_long_after_its_assignment_as_its_assignor_said() -> None:
    assignor = FollowUpAssignor(0, after_ms=2_500)
    member = in_group(eager(assignors=(assignor,)), 0, name="coming")
    assert (member.view().state, member.wake_at()) == (MembershipState.STABLE, 2_500)


def test_metadata_do_not_put_off_the_rebalance_that_an_assignor_asked_for() -> None:
    member = eager(assignors=(FollowUpAssignor(0, after_ms=2_500),), metadata_interval_ms=2_000)
    in_group(member, 0, name="coming")
    (fetch,) = member.step(Tick(), at(2_000))
    assert isinstance(fetch, FetchMetadata)
    member.step(MetadataFetched(fetch.request_id, (SEEN,)), at(2_001))
    (send,) = member.step(Tick(), at(2_500))
    assert send == SendToCoordinator(
        7, joins(name="coming", owned=(0,), generation=1, reason="it is time"), PARKED_MS
    )


def test_a_members_failure_has_the_reason_of_its_assignor() -> None:
    member = eager(assignors=(FollowUpAssignor(-1),))
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, joined(1, name="coming")), at(0))
    assert Failed(Code.INVALID_REQUEST, "not for me") in member.step(Answered(3, synced()), at(0))


def test_an_owner_can_have_its_member_join_again() -> None:
    member = in_group(eager(), name="range")
    assert member.step(Rejoin("news"), at(10)) == [
        SendToCoordinator(5, joins(reason="news", generation=1), PARKED_MS)
    ]


def test_a_member_that_revokes_before_rejoin_joins_when_its_owner_has() -> None:
    member = in_group(
        eager(assignors=(FollowUpAssignor(10**15),), revokes_before_rejoin=True),
        0,
        1,
        name="coming",
    )
    member.step(Rejoin("news"), at(10))
    member.step(Answered(6, joined(2, name="coming")), at(20))
    member.step(Answered(7, synced(0)), at(30))
    assert member.step(MetadataFetched(8, (SEEN,)), at(40)) == [Offer(1, (P0,), (P1,), ())]
    assert member.step(Rejoin("more news"), at(50)) == []
    (send,) = member.step(Adopted(1, (P0,)), at(60))
    assert send == SendToCoordinator(
        9, joins(name="coming", owned=(0,), generation=2, reason="more news"), PARKED_MS
    )


class FailingAssignor(Assignor):
    """Ends its member in its second generation, whatever was given."""

    name = "parting"
    rebalances = (Rebalance.COOPERATIVE,)

    def assign(self, cluster: Any, members: Any) -> dict[str, Given]:
        raise NotImplementedError

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        return MemberFailure(Code.POLICY_VIOLATION, "that was all") if generation == 2 else None


def test_a_member_failed_by_its_assignor_ends_once_its_owner_has_revoked() -> None:
    member = in_group(eager(assignors=(FailingAssignor(),)), 0, name="parting")
    hears_of_a_rebalance(member)
    member.step(Answered(7, joined(2, name="parting")), at(3_010))
    offer = next(
        each for each in member.step(Answered(8, synced()), at(3_020)) if isinstance(each, Offer)
    )
    assert (offer.target, offer.revoke) == ((), (P0,))
    assert member.view().state is MembershipState.RECONCILING
    failed = next(
        each for each in member.step(Adopted(1, ()), at(3_030)) if isinstance(each, Failed)
    )
    assert (failed, member.view().state) == (
        Failed(Code.POLICY_VIOLATION, "that was all"),
        MembershipState.FATAL,
    )
