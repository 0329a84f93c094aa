"""Laws of a member that may compute its group's target, with a random coordinator and cluster."""

from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from apportion.assign.by_name import Given
from apportion.errors import Code, Refused
from apportion.machine import Instant, Tick
from apportion.member.assignors.interface import FollowUp, MemberFailure
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    Answered,
    AssignorRan,
    CoordinatorFound,
    FetchMetadata,
    FindCoordinator,
    Leave,
    MembershipState,
    MetadataFetched,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    to_id_parts,
)
from apportion.topics import IdPartition
from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from tests.member.script_assignors import CountingAssignor
from tests.member.script_responses import response as response_of

T = b"T" * 16
PREPARE = "ConsumerGroupPrepareAssignment"
PREPARED = response_of(PREPARE, ["members=m()", "partitions=4"], "counting")


def at(ms: int) -> Instant:
    return Instant(ms, 1_700_000_000_000 + ms)


SILENT = (MembershipState.UNSUBSCRIBED, MembershipState.STALE, MembershipState.FATAL)
RESPONSES: dict[type, Any] = {
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
    ConsumerGroupPrepareAssignmentRequest: ConsumerGroupPrepareAssignmentResponse,
    ConsumerGroupInstallAssignmentRequest: ConsumerGroupInstallAssignmentResponse,
}
held = st.lists(st.integers(0, 3), unique=True).map(sorted).map(tuple)
codes = st.sampled_from([
    Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID, Code.NOT_COORDINATOR, Code.GROUP_ID_NOT_FOUND,
    Code.COORDINATOR_LOAD_IN_PROGRESS, Code.STALE_MEMBER_EPOCH, Code.INVALID_REQUEST,
])  # fmt: skip
AGAIN = FollowUp(0, "again", after_ms=2_000, reason=5)
replies = st.sampled_from(
    [AGAIN, None, MemberFailure(Code.POLICY_VIOLATION, "over"), OSError("no")]
)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), st.none() | held),
        st.tuples(st.just("choose"), st.none() | held),
        st.tuples(st.sampled_from(["refuse", "refuse computed"]), codes),
        st.tuples(st.sampled_from(["lose", "adopt", "subscribe", "leave"]), st.none()),
        st.tuples(st.sampled_from(["accept computed", "lose computed"]), st.none()),
        st.tuples(st.just("run"), st.sampled_from([{}, {"m": Given(error=3)}, "raise"])),
        st.tuples(st.just("reply"), replies),
        st.tuples(st.sampled_from(["look up", "cannot look up"]), st.none()),
        st.tuples(st.just("wait"), st.integers(1, 3_000)),
    ),
    max_size=80,
)
JOINS: list[tuple[str, Any]] = [("accept", None), ("accept", None), ("accept", (0,))]


class CheckedMember:
    """Plays the surroundings of a member with an assignor, and checks the laws after every step."""

    def __init__(self) -> None:
        self.assignor = CountingAssignor(reply=AGAIN)
        self.member = ConsumerMember(ConsumerSettings("g", "m", assignors=(self.assignor,)))
        self.now_ms = self.epoch = 0
        self.in_flight: Any = None
        self.computed: Any = None  # Prepare or Install in flight, beside the heartbeats
        # requests that the member has sent before it ended or left: they are answered all the same
        self.late: list[SendToCoordinator] = []
        self.running: list[RunAssignor] = []
        self.lookups: list[FetchMetadata | QueryCluster] = []
        # of the last response to Prepare in this membership
        self.prepared_epoch: int | None = None
        self.has_joined = False
        self.seen: Counter[str] = Counter()
        self.step(Subscribe(("t",)))

    def step(self, event: Any) -> None:
        incarnation = self.member.view().incarnation
        actions = self.member.step(event, at(self.now_ms))
        if self.member.view().incarnation != incarnation:
            self.has_joined, self.prepared_epoch = False, None
        for action in actions:
            self.check(action)
        if self.member.state in SILENT:
            self.late += [
                each
                for each in (self.in_flight, self.computed)
                if isinstance(each, SendToCoordinator)
            ]
            self.in_flight = self.computed = None
        elif self.in_flight is None:
            assert self.member.wake_at() is not None, "the member would sleep for ever"

    def check(self, action: Any) -> None:
        self.seen[type(getattr(action, "request", action)).__name__] += 1
        match action:
            case SendToCoordinator():
                self.check_sent(action)
            case FindCoordinator():
                assert self.in_flight is None
                self.in_flight = action
            case RunAssignor():
                assert not self.running, "two runs at a time"
                self.running.append(action)
            case FetchMetadata() | QueryCluster():
                self.lookups.append(action)

    def check_sent(self, sent: SendToCoordinator) -> None:
        request: Any = sent.request
        self.check_request(request)
        if self.has_joined and not isinstance(request, ConsumerGroupHeartbeatRequest):
            assert self.in_flight is None, "the member's epoch may change meanwhile"
            # One that was abandoned: the coordinator has chosen the member again.
            self.late += [] if self.computed is None else [self.computed]
            self.computed = sent
            return
        assert self.in_flight is None or request.member_epoch < 0, "two requests in flight"
        if isinstance(self.in_flight, SendToCoordinator):
            self.late.append(self.in_flight)
        self.in_flight = sent

    def check_request(self, request: Any) -> None:
        match request:
            case ConsumerGroupHeartbeatRequest():
                if request.member_epoch == 0:
                    assert request.client_assignors, "a join offers the assignors"
                for offer in request.client_assignors or ():
                    self.seen[f"reason {offer.reason}"] += 1
            case ConsumerGroupPrepareAssignmentRequest():
                assert self.has_joined == (request.member_epoch > 0)
            case ConsumerGroupInstallAssignmentRequest():
                assert self.has_joined
                assert request.group_epoch == self.prepared_epoch

    def play(self, what: str, with_: Any) -> None:
        self.happen(what, with_)
        while self.late:
            state = self.member.state
            self.respond(self.late.pop(), (1, 2), chosen=True)
            assert self.member.state is state, "a late response changes something"

    def happen(self, what: str, with_: Any) -> None:
        match what:
            case "accept" | "choose":
                self.accept(with_, chosen=what == "choose")
            case "refuse" if isinstance(self.in_flight, SendToCoordinator):
                done, self.in_flight = self.in_flight, None
                self.step(
                    Answered(done.request_id, RESPONSES[type(done.request)](error_code=with_))
                )
            case "lose" if self.in_flight is not None:
                done, self.in_flight = self.in_flight, None
                self.step(Unanswered(done.request_id, "lost"))
            case "accept computed" if self.computed is not None:
                done, self.computed = self.computed, None
                self.respond(done, None, chosen=False)
            case "refuse computed" if self.computed is not None:
                done, self.computed = self.computed, None
                self.step(
                    Answered(done.request_id, RESPONSES[type(done.request)](error_code=with_))
                )
            case "lose computed" if self.computed is not None:
                done, self.computed = self.computed, None
                self.step(Unanswered(done.request_id, "lost"))
            case "adopt":
                view = self.member.view()
                self.step(Adopted(view.incarnation, view.target or ()))
            case "run" if self.running:
                outcome = Refused(Code.INVALID_REQUEST, "no") if with_ == "raise" else with_
                self.step(AssignorRan(self.running.pop().request_id, outcome))
            case "look up" if self.lookups:
                lookup = self.lookups.pop(0)
                assert isinstance(lookup, FetchMetadata)
                topic = TopicDescription("t", T, 4)
                self.step(MetadataFetched(lookup.request_id, (topic,)))
            case "cannot look up" if self.lookups:
                self.step(Unanswered(self.lookups.pop(0).request_id, "no broker"))
            case "reply":
                self.assignor.reply = with_
            case "wait":
                self.now_ms += with_
                self.step(Tick())
            case "subscribe":
                self.step(Subscribe(("t", "u")))
            case "leave":
                self.step(Leave())

    def accept(self, numbers: tuple[int, ...] | None, *, chosen: bool) -> None:
        done: Any = self.in_flight
        self.in_flight = None
        match done:
            case FindCoordinator():
                self.step(CoordinatorFound(done.request_id))
            case SendToCoordinator():
                self.respond(done, numbers, chosen=chosen)

    def respond(
        self, done: SendToCoordinator, numbers: tuple[int, ...] | None, *, chosen: bool
    ) -> None:
        match done:
            case SendToCoordinator(request_id, ConsumerGroupPrepareAssignmentRequest(), _):
                if not self.has_joined:
                    response: Any = RESPONSES[type(done.request)](error_code=Code.UNKNOWN_MEMBER_ID)
                else:
                    self.epoch += 1
                    self.prepared_epoch = self.epoch
                    response = replaced(PREPARED, group_epoch=self.epoch)
                self.step(Answered(request_id, response))
            case SendToCoordinator(request_id, ConsumerGroupInstallAssignmentRequest(), _):
                self.step(Answered(request_id, ConsumerGroupInstallAssignmentResponse()))
            case SendToCoordinator(request_id, request, _):
                assert isinstance(request, ConsumerGroupHeartbeatRequest)
                self.epoch += 1
                self.has_joined = request.member_epoch >= 0
                parts = None if numbers is None else [IdPartition(T, each) for each in numbers]
                self.step(
                    Answered(request_id, ConsumerGroupHeartbeatResponse(
                        member_epoch=self.epoch,
                        heartbeat_interval_ms=1_000,
                        assignment=None if parts is None else Assignment(
                            topic_partitions=to_id_parts(tuple(parts))
                        ),
                        should_compute_assignment=chosen,
                    ))
                )  # fmt: skip


@settings(max_examples=400, deadline=None)
@example(JOINS, [("adopt", None), ("reply", OSError("no")), ("look up", None)])
@example(
    [("accept", None), ("accept", None), ("accept", (0,))],
    [("leave", None), ("reply", MemberFailure(Code.POLICY_VIOLATION, "over")), ("look up", None)],
)
@given(st.sampled_from([[], JOINS]), happenings)
def test_the_laws_of_a_computing_member_hold_in_every_history(
    beginning: list[tuple[str, Any]], history: list[tuple[str, Any]]
) -> None:
    witness = CheckedMember()
    for what, with_ in beginning + history:
        witness.play(what, with_)


def test_the_witness_sees_all_that_a_computing_member_does() -> None:
    witness = CheckedMember()
    history: list[tuple[str, Any]] = [
        ("accept", None),
        ("accept", None),
        ("choose", (0,)),
        ("accept computed", None),
        ("look up", None),
        ("run", {}),
        ("accept computed", None),
        ("accept", None),
        ("wait", 2_000),
    ]
    for what, with_ in history:
        witness.play(what, with_)
    assert witness.seen == {
        "FindCoordinator": 1,
        "ConsumerGroupPrepareAssignmentRequest": 2,
        "ConsumerGroupHeartbeatRequest": 3,
        "reason 0": 2,
        "reason 5": 1,
        "Offer": 1,
        "FetchMetadata": 1,
        "RunAssignor": 1,
        "ConsumerGroupInstallAssignmentRequest": 1,
    }
