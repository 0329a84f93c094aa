"""The part of a member's state machine that both group protocols share.

A member sends its requests over a `CoordinatorLink`, leaves when its owner does not poll in time
(`PollDeadline`), and ends with an error that cannot be retried. Heartbeats, generations and
assignments differ: `consumer/machine.py` (KIP-848) and `classic/machine.py` (KIP-429) add them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from apportion.errors import Code, Refused
from apportion.machine import Instant, Note, Tick
from apportion.member.coordinator_link import CoordinatorLink, PollDeadline
from apportion.member.membership import (
    SILENT,
    Action,
    Adopted,
    Answered,
    CoordinatorFound,
    Event,
    Failed,
    FindCoordinator,
    Leave,
    Left,
    MembershipRequest,
    MembershipResponse,
    MembershipState,
    Polled,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    View,
)
from apportion.member.ownership import OwnedPartitions
from apportion.member.permissions import denial_or_none
from apportion.member.reactions import Reaction, reaction
from apportion.member.settings import MemberSettings
from apportion.member.step import Step

S = TypeVar("S", bound=MemberSettings)
NOT_A_MEMBER = (
    Code.UNKNOWN_MEMBER_ID,
    Code.GROUP_ID_NOT_FOUND,
    Code.FENCED_INSTANCE_ID,
    Code.UNRELEASED_INSTANCE_ID,
)
"""Errors by which the coordinator does not have the member, or has another one in its place."""


class MemberMachine(ABC, Generic[S]):
    """The state of one group member that does not depend on the protocol."""

    transitions: ClassVar[Mapping[MembershipState, set[MembershipState]]]
    """state -> states that may follow, the table of the protocol"""
    no_epoch: ClassVar[int]
    """the epoch of a member that the coordinator has not admitted"""
    epoch_words: ClassVar[str]
    """the words before the epoch in log lines"""
    admitting_requests: ClassVar[tuple[type[MembershipRequest], ...]]
    """those by which the coordinator may admit a member that is joining"""
    concurrent_calls: int
    """how many of its actions may wait for a response at the same time"""

    def __init__(self, settings: S, *, member_id: str = "", interval_ms: int = 0) -> None:
        """Begin outside the group, without topics or a known coordinator.

        member_id: the one that the member brings along; without it the coordinator chooses one.
        interval_ms: between two heartbeats, until the coordinator says otherwise.
        """
        self.settings = settings
        self.state = MembershipState.UNSUBSCRIBED
        self._own_id = self._member_id = member_id
        self._topics: tuple[str, ...] = ()
        self._expression = ""
        self._epoch, self._ownership = self.no_epoch, OwnedPartitions(0)
        self._error: Failed | None = None  # why the member is FATAL
        self._refusal: Failed | None = None  # why its requests are refused for now
        self._link = CoordinatorLink(settings, interval_ms)
        self._poll_deadline = PollDeadline(settings.poll_limit_ms)
        self._becomes_stale = self._leaves_for_good = False
        # It was admitted, or the response to a join was lost; and was not seen to be removed since.
        self._may_be_member = self._overtakes_join = False

    def view(self) -> View:
        """Return a snapshot of the member; the epoch of a classic member is its generation."""
        return View(
            self._member_id,
            self._epoch,
            self.state,
            self._ownership.incarnation,
            self._ownership.target,
            self._ownership.owned,
            self._link.accepted_ms,
            self._error,
            self._link.interval_ms,
            self._refusal,
        )

    def wake_at(self) -> int | None:
        """Return when the member next needs a Tick (monotonic ms).

        None while it waits for its owner or a response.
        """
        return min((at_ms for at_ms in self._due_times() if at_ms is not None), default=None)

    def _due_times(self) -> list[int | None]:
        return [self._poll_deadline.at_ms, self._request_at_ms()]

    def step(self, event: Event, now: Instant) -> list[Action]:
        """Apply an event to a group member and return the actions that follow, in order.

        The driver of a client or of the simulator calls it, for members of either protocol.
        """
        step = Step(now)
        try:
            self._apply_event(step, event)
            link = self._link
            if step.is_due(self._request_at_ms()):
                step.emit(
                    link.send(self._build_request(), now)
                    if link.is_known
                    else link.find_coordinator()
                )
        except Refused as refused:
            self._end(step, refused)
        return step.actions

    def _end(self, step: Step, refused: Refused) -> None:
        """End the membership, which an assignor of the member cannot go on with."""
        self._fail(step, refused.code, refused.why)

    def _apply_event(self, step: Step, event: Event) -> None:
        """Apply an event to the member's state. Raises Refused if the membership has to end."""
        match event:
            case Subscribe(topics, expression):
                self._topics = tuple(sorted(dict.fromkeys(topics)))
                self._expression, self._refusal = expression, None
                self._restart_poll_timer(step)
                if self.state is MembershipState.UNSUBSCRIBED:
                    self._join(step)
            case Adopted(incarnation, adopted):
                is_leaving = self.state is MembershipState.LEAVING
                if not is_leaving and self._ownership.adopt(incarnation, adopted):
                    self._report_adopted()
            case Polled():
                self._restart_poll_timer(step)
                # Kafka's consumer rejoins at the next poll after max.poll.interval.ms was exceeded.
                if self.state is MembershipState.STALE:
                    self._join(step)
            case Leave(for_good):
                # A member that is leaving as stale and is closed now ends UNSUBSCRIBED: it must not
                # rejoin at a later poll.
                self._becomes_stale = False
                self._poll_deadline.stop()
                if self.state is not MembershipState.LEAVING:
                    self._leave(step, for_good)
            case CoordinatorFound() | Answered() | Unanswered():
                self._apply_answer(step, event)
            case Tick() if step.is_due(self._poll_deadline.at_ms):
                self._leave_as_stale(step)

    # the owner

    @abstractmethod
    def _report_adopted(self) -> None:
        """Have the coordinator told that the owner uses other partitions now."""

    def _restart_poll_timer(self, step: Step) -> None:
        """Restart max.poll.interval.ms: the owner has polled or subscribed."""
        if self.state is not MembershipState.FATAL:
            self._poll_deadline.restart(step.now)

    def _leave_as_stale(self, step: Step) -> None:
        """Leave until the owner polls again: it exceeded max.poll.interval.ms."""
        self._poll_deadline.stop()
        if self.state in SILENT or self.state is MembershipState.LEAVING:
            return
        limit = self.settings.poll_limit_ms
        step.warn(f"{self._label} leaves: its owner did not come back within {limit} ms")
        # onPartitionsLost and not onPartitionsRevoked: the member leaves without waiting for the
        # owner, and others may own the partitions at once.
        step.emit(self._ownership.lose())
        self._becomes_stale = True
        self._leave(step, for_good=False)

    # the coordinator

    def _apply_answer(self, step: Step, event: CoordinatorFound | Answered | Unanswered) -> None:
        """Apply the answer to the request in flight; ignore one to any other request."""
        answered = self._link.take_answered(event.request_id)
        match event:
            case CoordinatorFound() if answered is not None:
                self._link.is_known = True
            case Answered(_, response) if isinstance(answered, SendToCoordinator):
                self._apply_response(step, response)
            case Unanswered(_, why, code) if answered is not None:
                # With an error code, the request was not sent.
                self._may_be_member |= code is Code.NONE and self._is_join(answered)
                self._apply_failure(step, why, code)

    def _is_join(self, request: FindCoordinator | SendToCoordinator | None) -> bool:
        """Return whether the request asks the coordinator to admit the member."""
        return (
            self.state is MembershipState.JOINING
            and isinstance(request, SendToCoordinator)
            and isinstance(request.request, self.admitting_requests)
        )

    def _apply_response(self, step: Step, response: MembershipResponse) -> None:
        """Apply the response to the last request, be it an error or not."""
        if self.state is MembershipState.LEAVING:
            # Even after an error: a leave is sent once and not repeated (KIP-848).
            codes = self._leave_codes(response)
            # A join that this leave has overtaken may still arrive, and be admitted.
            confirming = {Code.NONE} if self._overtakes_join else {Code.NONE, *NOT_A_MEMBER}
            self._may_be_member = not codes <= confirming
            self._finish_leaving(step)
            return
        on_error, self._refusal = reaction(self._link.api, response.error_code), None
        if on_error is Reaction.ACCEPT:
            self._may_be_member = True
            self._accept(step, response)
        else:
            self._may_be_member &= response.error_code not in NOT_A_MEMBER
            self._apply_error(step, response, on_error)

    def _leave_codes(self, response: MembershipResponse) -> set[int]:
        """Return the error codes in the response to a leave, or to the request it has overtaken."""
        return {response.error_code}

    @abstractmethod
    def _accept(self, step: Step, response: MembershipResponse) -> None:
        """Apply a response that has no error."""

    def _apply_error(self, step: Step, response: MembershipResponse, on_error: Reaction) -> None:
        """Join again or repeat the refused request, if `on_error` says so; otherwise fail."""
        code = Code.of(response.error_code)
        why = self._explain(response)
        if on_error is Reaction.RETRY_FOR_A_TIME:
            self._link.backoff.record_waiting(step.now)
        if on_error in (Reaction.REJOIN, Reaction.REJOIN_AS_NEW):
            self._lose_membership(step, code, keeps_id=on_error is Reaction.REJOIN)
        elif on_error is Reaction.FIND_COORDINATOR:
            self._link.is_known = False
            self._retry(step, free=1)
        elif on_error in (Reaction.RETRY, Reaction.RETRY_AND_TELL) or (
            on_error is Reaction.RETRY_FOR_A_TIME and self._link.backoff.may_keep_waiting(step.now)
        ):
            if on_error is Reaction.RETRY_AND_TELL:
                self._refusal = Failed(code, why)
            limit_s = self.settings.wait_limit_ms / 1000
            is_limited = on_error is Reaction.RETRY_FOR_A_TIME
            hint = f" The member tries again for up to {limit_s:g} s." if is_limited else ""
            step.emit(Note("warning", f"{self._name_request()}: {code.name}: {why}", hint))
            self._retry(step)
        else:
            # An id that the refusing coordinator chose is of no more use, not even to leave.
            self._member_id = self._own_id
            self._fail(step, code, why)

    def _explain(self, response: MembershipResponse) -> str:
        """Return why the coordinator refused a request, for people."""
        code = Code.of(response.error_code)
        names = {
            Code.GROUP_AUTHORIZATION_FAILED: (self.settings.group_id,),
            Code.TOPIC_AUTHORIZATION_FAILED: self._topics,
        }
        said = getattr(response, "error_message", None) or ""
        why = denial_or_none(self._link.api, code, names.get(code, ()), said)
        return why or said or self.settings.explain(code)

    def _name_request(self) -> str:
        """Return the last request and its member as log lines name them."""
        return f"{self._link.api} of {self._label}"

    def _apply_failure(self, step: Step, why: str, code: Code) -> None:
        """Retry a member's request that got no response, at a coordinator that is looked up."""
        if self.state is MembershipState.LEAVING:
            # One attempt is enough: the session of a member without heartbeats expires.
            self._finish_leaving(step)
        elif reaction("FindCoordinator", code) is Reaction.RAISE:
            self._fail(step, code, why)
        else:
            # A broken connection often means that the group has moved to another broker.
            self._link.is_known = False
            step.warn(f"no answer for {self._label}: {why}")
            self._retry(step)

    def _retry(self, step: Step, free: int = 0) -> None:
        """Repeat the last request, or the look-up of the coordinator, after a backoff."""
        self._link.retry(step.now, free)

    # transitions

    def _enter(self, state: MembershipState) -> None:
        assert state is self.state or state in self.transitions[self.state], (self.state, state)
        self.state = state

    def _join(self, step: Step) -> None:
        """Enter JOINING in a new incarnation, which owns nothing."""
        self._enter(MembershipState.JOINING)
        self._start_incarnation(self._ownership.incarnation + 1)
        self._error = None
        self._link.backoff.reset_delay(step.now)

    def _start_incarnation(self, number: int) -> None:
        """Forget epoch, target and owned partitions: the member is in no group now."""
        self._epoch, self._ownership, self._refusal = self.no_epoch, OwnedPartitions(number), None

    def _lose_membership(self, step: Step, code: Code, *, keeps_id: bool) -> None:
        """Report everything owned as lost, and join again in a new incarnation.

        keeps_id: join with the same member id, not as a new member.
        """
        epoch = self._epoch
        lost = f"lost its place {self.epoch_words} {epoch}"
        what = "was refused" if epoch == self.no_epoch else lost
        step.warn(f"{self._label} {what}: {code.name}")
        # Before the new incarnation begins: the report names the one in which the partitions were
        # owned.
        step.emit(self._ownership.lose())
        if not keeps_id:
            self._member_id = self._own_id
        self._join(step)
        if epoch == self.no_epoch:
            # Two refused joins in a row must not become a loop without a pause.
            self._link.retry(step.now)

    def _leave(self, step: Step, for_good: bool) -> None:
        """Enter LEAVING, or finish if there is nothing to send."""
        self._leaves_for_good = for_good
        self._overtakes_join = self._is_join(self._link.in_flight)
        self._may_be_member |= self._overtakes_join
        # Looking up a coordinator to leave at would delay the close; the session timeout does the
        # same work.
        if self._link.is_known and self._must_send_leave():
            self._enter(MembershipState.LEAVING)
            # A leave overtakes the request in flight.
            self._link.interrupt(step.now)
        else:
            self._finish_leaving(step)

    @abstractmethod
    def _must_send_leave(self) -> bool:
        """Return whether the coordinator has to be told that the member leaves."""

    @property
    def _keeps_place(self) -> bool:
        """Return whether the member leaves for now, without a word to its coordinator."""
        return False

    def _finish_leaving(self, step: Step) -> None:
        """End the membership after a leave: enter UNSUBSCRIBED or STALE."""
        if self.state is not MembershipState.UNSUBSCRIBED:
            self._enter(
                MembershipState.STALE if self._becomes_stale else MembershipState.UNSUBSCRIBED
            )
        self._start_incarnation(self._ownership.incarnation)
        self._member_id = self._own_id
        self._link.in_flight = None
        if not self._becomes_stale:
            step.emit(Left(is_confirmed=self._keeps_place or not self._may_be_member))

    def _fail(self, step: Step, code: Code, why: str) -> None:
        """End the membership for good (FATAL), reporting everything owned as lost."""
        self._error = Failed(code, why)
        self._poll_deadline.stop()
        # An assignor may fail while a response is still to come: it must not revive the member.
        self._link.in_flight = None
        step.emit(self._ownership.lose(), self._error)
        self._enter(MembershipState.FATAL)
        self._start_incarnation(self._ownership.incarnation)

    @property
    def _label(self) -> str:
        """The member as log lines name it."""
        return f"member {self._member_id or self.settings.instance_id or 'without an id'}"

    # requests

    def _request_at_ms(self) -> int | None:
        """Return when the next request is due; None while one is in flight or none is to send."""
        if self.state in SILENT:
            return None
        return self._link.due_at(sends_at_once=self._sends_at_once())

    def _sends_at_once(self) -> bool:
        """Return whether the next request does not wait for the heartbeat interval."""
        return self.state in (MembershipState.JOINING, MembershipState.ACKNOWLEDGING)

    @abstractmethod
    def _build_request(self) -> MembershipRequest:
        """Return the request that the state calls for.

        Raises Refused if the membership has to end instead.
        """
