"""A member of a KIP-848 consumer group: when it sends a heartbeat, and what a response changes.

The member's states are in `states.py`, the fields of its heartbeats in `requests.py`. The owner (a
Consumer, a Spark source) does the work; the machine tells it what to stop using and what it may use
(`Offer`). The coordinator learns that a partition is free only after the owner has reported so
(`Adopted`). The machine knows no topic names of partitions, no positions or offsets, and no
sockets.
"""

from collections.abc import Mapping
from typing import ClassVar

from apportion.errors import Code, Refused
from apportion.member.assignors.interface import MemberFailure
from apportion.member.consumer.computing_member import REPEATS, ComputingMember
from apportion.member.consumer.requests import (
    JOIN,
    LEAVE_FOR_GOOD,
    LEAVE_FOR_NOW,
    ConsumerSettings,
    HeartbeatBuilder,
    NamesAndExpression,
    leave_request,
)
from apportion.member.consumer.states import IN_GROUP, NEXT
from apportion.member.consumer.target_computation import prepare_request
from apportion.member.follow_up import FollowUpDeadline
from apportion.member.lookups import FetchedTopics, Lookups, NeededTopics
from apportion.member.membership import (
    SILENT,
    Answered,
    CoordinatorFound,
    Event,
    Leave,
    MemberAssignment,
    MembershipRequest,
    MembershipResponse,
    MembershipState,
    Unanswered,
    from_id_parts,
)
from apportion.member.reactions import Reaction, reaction
from apportion.member.step import Step
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
)

NO_LOCAL_ASSIGNORS = "this broker has no client-side assignors, as no Apache Kafka has"


class ConsumerMember(ComputingMember):
    """One member of one consumer group."""

    transitions = NEXT
    no_epoch, epoch_words = JOIN, "at epoch"
    admitted_states = IN_GROUP
    lookup_words = "what its assignor needs"
    admitting_requests = (ConsumerGroupHeartbeatRequest,)
    _without_local_assignors: ClassVar = (
        "group.remote.assignor, or partition.assignment.strategy with group.protocol=classic"
    )
    """what to use at a broker that has none"""
    _assignor_errors: ClassVar[Mapping[int, str]] = {}
    """what the errors of the group's assignor mean, where that is known"""
    # It may wait for its heartbeat and for the response to its leave at the same time.
    concurrent_calls = 2

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings)
        self._heartbeats = HeartbeatBuilder(settings, self._local)
        self._fatal: MemberFailure | None = None
        # A broker without client-side assignors would read over them and assign by its own.
        self._may_offer = not settings.assignors
        if settings.assignors:
            # Also for a look-up, for the assignor itself, and for its group's state or target.
            self.concurrent_calls = 5

    def _apply_event(self, step: Step, event: Event) -> None:
        if isinstance(event, Leave):
            # The owner leaves by itself, so it need not be told why it should.
            self._fatal = None
        super()._apply_event(step, event)
        if step.is_due(self._follow_up_at_ms()):
            self._local.request_follow_up()
        if self._fatal is not None and not self._ownership.owned and self.state in IN_GROUP:
            # For good: what the assignor has read in this member's metadata must not outlive it.
            self._leave(step, for_good=True)
        if step.is_due(self._lookup_at_ms()):
            step.emit(self._start_lookup())
        if step.is_due(self._computation_at_ms()):
            step.emit(self._computation.send(self._link.next_request_id(), self._epoch))

    def _end(self, step: Step, refused: Refused) -> None:
        # It leaves once its owner uses nothing: its partitions would have no owner otherwise until
        # its session expires.
        self._local.withdraw()
        self._computation.abandon()
        # The heartbeat that was not built may have had something to acknowledge.
        self._heartbeats.require_full()
        self._fatal = self._fatal or MemberFailure(refused.code, refused.why)
        if self.state in IN_GROUP:
            self._set_target(step, ())
        if not self._ownership.owned:
            self._leave(step, for_good=True)

    # the owner

    def _report_adopted(self) -> None:
        self._enter(MembershipState.ACKNOWLEDGING)

    def _must_send_leave(self) -> bool:
        # Once a join was sent the coordinator may have admitted the member, although it does not
        # know its epoch yet: then it has to leave.
        return self.state not in SILENT and self._may_be_member

    # the coordinator

    def _apply_answer(self, step: Step, event: CoordinatorFound | Answered | Unanswered) -> None:
        if isinstance(event, CoordinatorFound):
            # It may be another broker, of an older release.
            self._may_offer = not self._local.assignors
        super()._apply_answer(step, event)

    def _apply_response(self, step: Step, response: MembershipResponse) -> None:
        if not isinstance(response, ConsumerGroupPrepareAssignmentResponse):
            super()._apply_response(step, response)
        # else: of the check before the join.
        elif (on_error := reaction(self._link.api, response.error_code)) in REPEATS:
            self._repeat_request(step, on_error)
        else:
            # The broker has the API, whatever it says of a member that has not joined.
            self._may_offer = True

    def _accept(self, step: Step, response: MembershipResponse) -> None:
        """Take epoch, interval and target of a ConsumerGroupHeartbeat response without an error."""
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._epoch = response.member_epoch
        self._link.record_accepted(step.now)
        self._link.backoff.record_success()
        self._link.set_interval(response.heartbeat_interval_ms)
        is_joining = self.state is MembershipState.JOINING
        if response.assignment is not None:
            self._set_target(step, from_id_parts(response.assignment.topic_partitions))
        # Admitted with nothing yet: other members have to release partitions first.
        elif is_joining:
            self._set_target(step, ())
        # else: no assignment in a response means that it is unchanged (KIP-848).
        self._apply_assignor_fields(step, response)

    def _set_target(self, step: Step, target: MemberAssignment) -> None:
        # A member that is to end gives up what it has, and takes nothing new.
        self._ownership.set_target(step, target if self._fatal is None else ())
        # An acknowledgement that is due is sent first: it reports what this target was made for.
        if self.state is not MembershipState.ACKNOWLEDGING:
            self._enter(self._ownership.state)

    def _apply_error(self, step: Step, response: MembershipResponse, on_error: Reaction) -> None:
        is_joining = self.state is MembershipState.JOINING
        if response.error_code == Code.GROUP_ID_NOT_FOUND and is_joining:
            # A classic group has this id. Its protocol may change when its members have left, or
            # when the broker's group.consumer.migration.policy lets it.
            on_error = Reaction.RETRY_FOR_A_TIME
        super()._apply_error(step, response, on_error)

    def _name_request(self) -> str:
        return f"heartbeat of {self._member_id}"

    def _retry(self, step: Step, free: int = 0) -> None:
        # After an error, or lost on the way there or on the way back: the coordinator may not have
        # applied what this heartbeat reported, so the next one says everything.
        self._heartbeats.require_full()
        super()._retry(step, free)

    def _start_incarnation(self, number: int) -> None:
        super()._start_incarnation(number)
        # KIP-848: a heartbeat with epoch 0 has to carry every field.
        self._heartbeats.require_full()
        self._computation.abandon()
        self._local.forget_assignment()
        if self.state is MembershipState.UNSUBSCRIBED:
            # It has left: what it has asked for was for that membership.
            self._local.withdraw_reasons()
        self._lookups, self._fatal = Lookups(), None

    def _lose_membership(self, step: Step, code: Code, *, keeps_id: bool) -> None:
        if self._fatal is None:
            super()._lose_membership(step, code, keeps_id=keeps_id)
        else:
            # Its owner is told that all is lost, for which the end has waited.
            self._fail(step, *self._fatal)

    def _finish_leaving(self, step: Step) -> None:
        if self._fatal is None:
            super()._finish_leaving(step)
        else:
            self._fail(step, *self._fatal)

    def _fail(self, step: Step, code: Code, why: str) -> None:
        # An assignor may name the same errors, for reasons of its own.
        if self._fatal is None:
            why = self._with_remedy(code, why)
        super()._fail(step, code, why)

    def _with_remedy(self, code: Code, why: str) -> str:
        """Return the broker's reason to end the member, with what to do about it if we know it."""
        if code is Code.UNRELEASED_INSTANCE_ID:
            limit_s = self.settings.wait_limit_ms / 1000
            return (
                f"{why} It was not released within {limit_s:g} s; `apportion groups remove-members "
                f"{self.settings.group_id} --instance {self.settings.instance_id} --execute` "
                "removes a member that has died."
            )
        if code is not Code.UNSUPPORTED_VERSION:
            return why
        if not self._may_offer:
            return f"{NO_LOCAL_ASSIGNORS}: use {self._without_local_assignors}"
        return (
            f"{why.rstrip('.')}; a broker without KIP-848 has classic groups only, so "
            "choose the classic protocol"
        )

    # client-side assignors

    def _apply_assignor_fields(self, step: Step, response: ConsumerGroupHeartbeatResponse) -> None:
        """Take what a heartbeat response says to the member's assignors."""
        self._local.record_accepted(self._epoch, step.now)
        requested = response.requested_version
        if requested.name and not self._local.use_version(requested):
            step.warn(
                f"{self._label} has no metadata of version {requested.version} for the assignor "
                f"{requested.name!r}, which the group uses"
            )
        # A member that is to end does not call its assignors any more.
        may_compute = bool(self._local.assignors) and self._fatal is None
        is_chosen = response.should_compute_assignment and may_compute
        if is_chosen and not self._begin_computation():
            step.warn(
                f"{self._label} cannot compute the group's target: its assignor still runs from "
                "the last time"
            )
        assignment = response.assignment
        if assignment is None or not self._local.hold_assignment(assignment, self._epoch):
            return
        if assignment.error:
            meaning = self._assignor_errors.get(assignment.error)
            error = f"{assignment.error}{f' ({meaning})' if meaning else ''}"
            step.warn(f"{self._label} is told of error {error} by the group's assignor")
        if not self._local.unresolved_ids:
            self._tell_assignment(step)

    def _tell_assignment(self, step: Step) -> None:
        """Tell the assignors of their member's assignment (KIP-341), and do what one replies."""
        match self._local.tell_assignment(step.now):
            case MemberFailure() as failure:
                self._fatal = failure
                self._set_target(step, ())

    @property
    def _follow_up(self) -> FollowUpDeadline:
        return self._local.follow_up

    def _needed_topics(self) -> NeededTopics:
        return NeededTopics(ids=self._local.unresolved_ids)

    def _must_confirm_epoch(self) -> bool:
        return self._heartbeats.must_be_full or not self._link.is_known

    def _apply_metadata(self, step: Step, fetched: FetchedTopics) -> None:
        self._local.add_names({each.id: each.name for each in fetched.topics})
        # One that leaves, or has lost its membership, has this assignment no more.
        if self.state in self.admitted_states:
            self._tell_assignment(step)

    # requests

    def _sends_at_once(self) -> bool:
        is_awaited = self._computation.is_request_due and self._must_confirm_epoch()
        has_more = is_awaited or self._local.must_send
        return super()._sends_at_once() or (self.state in IN_GROUP and has_more)

    def _build_request(self) -> MembershipRequest:
        if self.state is MembershipState.LEAVING:
            # Leaves first, whatever was to be acknowledged: the coordinator frees all partitions
            # with it. It refuses epoch -2 without an instance id (KIP-848).
            is_final = self._leaves_for_good or self.settings.instance_id is None
            self._epoch = LEAVE_FOR_GOOD if is_final else LEAVE_FOR_NOW
            return leave_request(self.settings, self._epoch)
        if self.state is MembershipState.JOINING and not self._may_offer:
            return prepare_request(self.settings, JOIN)
        if self.state is MembershipState.ACKNOWLEDGING:
            # This heartbeat is the acknowledgement.
            self._enter(self._ownership.state)
        # Also claims what was offered and not adopted yet, so that a withdrawn offer is seen to be
        # given back.
        subscription = NamesAndExpression(self._topics, self._expression)
        return self._heartbeats.build(self._epoch, subscription, self._ownership.claim())
