"""Laws that hold for a member whatever happens to it: a random coordinator, owner and network."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.machine import Instant, Tick
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.consumer.states import NEXT
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    FindCoordinator,
    Leave,
    Lost,
    MembershipState,
    Offer,
    Polled,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    from_id_parts,
    to_id_parts,
)
from apportion.topics import IdPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

PARTITIONS = [IdPartition(b"T" * 16, number) for number in range(4)]
held = st.lists(st.sampled_from(PARTITIONS), unique=True).map(sorted).map(tuple)
codes = st.sampled_from([
    Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID, Code.NOT_COORDINATOR,
    Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE,
    Code.UNRELEASED_INSTANCE_ID, Code.INVALID_REQUEST,
])  # fmt: skip
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), st.none() | held),
        st.tuples(st.just("refuse"), codes),
        st.tuples(st.just("lose"), st.none()),
        st.tuples(st.just("adopt"), st.none() | held),
        st.tuples(st.just("wait"), st.integers(1, 3_000)),
        st.tuples(st.sampled_from(["subscribe", "poll", "leave"]), st.none()),
    ),
    max_size=60,
)


class CheckedMember:
    """Plays a member's surroundings and checks the laws after every step."""

    def __init__(self, instance_id: str | None, poll_limit_ms: int | None) -> None:
        self.member = ConsumerMember(
            ConsumerSettings("g", "m", instance_id=instance_id, poll_limit_ms=poll_limit_ms)
        )
        self.now_ms = 0
        # the action that waits for its outcome
        self.in_flight: Any = None
        self.adopted: dict[int, Any] = {1: ()}  # life -> what the owner last adopted in it
        self.must_be_full = True
        self.epoch = 0
        self.sent = 0
        self.state = self.member.state
        self.step(Subscribe(("t",)))

    def step(self, event: Any) -> None:
        actions = self.member.step(event, Instant(self.now_ms, self.now_ms))
        assert self.member.state is self.state or self.reachable(self.member.state)
        self.state = self.member.state
        for action in actions:
            self.check(action)
        if self.state in (
            MembershipState.UNSUBSCRIBED,
            MembershipState.STALE,
            MembershipState.FATAL,
        ):
            self.in_flight = None  # nobody waits for it any more
        elif self.in_flight is None:
            assert self.member.wake_at() is not None, (
                "nothing under way and nothing planned: the member would sleep for ever"
            )

    def reachable(self, state: MembershipState) -> bool:
        """One step may pass through a state on its way."""
        direct = NEXT[self.state]
        return state in direct or any(state in NEXT[middle] for middle in direct)

    def check(self, action: Any) -> None:
        match action:
            case SendToCoordinator(_, request, _):
                self.sent += 1
                assert isinstance(request, ConsumerGroupHeartbeatRequest)
                leaving = request.member_epoch < 0
                assert self.in_flight is None or leaving, "two heartbeats in flight"
                if not leaving:
                    self.check_beat(request)
                self.in_flight = action
            case FindCoordinator():
                assert self.in_flight is None
                self.in_flight = action
            case Offer(life, target, revoke, add):
                owned: set[IdPartition] = set(self.adopted.get(life, ()))
                assert (set(target) - owned, owned - set(target)) == (set(add), set(revoke))
            case Lost(life, lost):
                assert lost == self.adopted.get(life, ())

    def check_beat(self, request: Any) -> None:
        life = self.member.view().incarnation
        full = (
            None not in (request.subscribed_topic_names, request.topic_partitions)
            and request.rebalance_timeout_ms > 0
        )
        assert full or not self.must_be_full, "the heartbeat after an error says everything"
        assert full or request.member_epoch > 0
        if request.topic_partitions is not None:
            held = {*self.adopted.get(life, ()), *(self.member.view().target or ())}
            assert set(from_id_parts(request.topic_partitions)) == held, (
                "what is used, or may be at any moment, is said"
            )
        self.must_be_full = False

    def play(self, what: str, with_: Any) -> None:
        done: Any
        match what:
            case "accept" if isinstance(self.in_flight, FindCoordinator):
                done, self.in_flight = self.in_flight, None
                self.step(CoordinatorFound(done.request_id))
            case "accept" if self.in_flight is not None:
                done, self.in_flight = self.in_flight, None
                self.epoch += 1
                response = (
                    None
                    if with_ is None and done.request.member_epoch > 0
                    else Assignment(topic_partitions=to_id_parts(with_ or ()))
                )
                self.step(
                    Answered(done.request_id, ConsumerGroupHeartbeatResponse(
                        member_epoch=self.epoch, heartbeat_interval_ms=1_000, assignment=response
                    ))
                )  # fmt: skip
            case "refuse" if isinstance(self.in_flight, SendToCoordinator):
                done, self.in_flight = self.in_flight, None
                self.must_be_full = True
                self.step(
                    Answered(done.request_id, ConsumerGroupHeartbeatResponse(error_code=with_))
                )
            case "lose" if self.in_flight is not None:
                done, self.in_flight = self.in_flight, None
                self.must_be_full |= isinstance(done, SendToCoordinator)
                self.step(Unanswered(done.request_id, "lost"))
            case "adopt":
                view = self.member.view()
                mine = with_ if with_ is not None else view.target or ()
                offered = {*view.owned, *(view.target or ())}
                if view.state in (
                    MembershipState.RECONCILING,
                    MembershipState.ACKNOWLEDGING,
                    MembershipState.STABLE,
                ) and offered.issuperset(mine):
                    self.adopted[view.incarnation] = mine
                self.step(Adopted(view.incarnation, mine))
            case "wait":
                self.now_ms += with_
                self.step(Tick())
            case "subscribe":
                self.step(Subscribe(("t", "u")))
            case "poll":
                self.step(Polled())
            case "leave":
                self.step(Leave())


@settings(max_examples=400, deadline=None)
@given(happenings, st.sampled_from([None, "i"]), st.sampled_from([None, 4_000]))
def test_the_laws_of_a_member_hold_in_every_history(
    history: list[tuple[str, int | tuple[IdPartition, ...] | None]],
    instance_id: str | None,
    poll_limit_ms: int | None,
) -> None:
    witness = CheckedMember(instance_id, poll_limit_ms)
    for what, with_ in history:
        witness.play(what, with_)


def test_the_witness_sees_heartbeats_at_all() -> None:
    witness = CheckedMember(None, None)
    for what, with_ in [
        ("accept", None),
        ("accept", (PARTITIONS[0],)),
        ("adopt", None),
        ("accept", None),
        ("wait", 1_000),
    ]:
        witness.play(what, with_)
    assert witness.sent == 3


def test_the_witness_catches_an_acknowledgement_that_nobody_adopted() -> None:
    witness = CheckedMember(None, None)
    witness.play("accept", None)
    witness.play("accept", PARTITIONS[:2])
    witness.play("adopt", None)
    witness.play("accept", (PARTITIONS[0],))
    with pytest.raises(AssertionError, match="what is used, or may be at any moment, is said"):
        witness.step(Adopted(1, (PARTITIONS[0],)))  # which the witness has not seen
