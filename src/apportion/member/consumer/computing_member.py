"""The part of a KIP-848 member that computes its group's target, beside its heartbeats.

The coordinator chooses the member in a heartbeat response. The progress of the computation, and
what its requests say, are in `target_computation.py`. Here is when a request may be sent, what an
answer changes, and that heartbeats have the first word: both requests name the member's epoch.
"""

from abc import abstractmethod
from typing import Any

from apportion.errors import Code
from apportion.member.assigning_member import AssigningMember
from apportion.member.consumer.local_assignors import LocalAssignors
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.consumer.target_computation import (
    ComputationResponse,
    TargetComputation,
    api_of,
)
from apportion.member.lookups import LookupEvent, answer_of
from apportion.member.membership import (
    Answered,
    AssignorRan,
    CoordinatorFound,
    Event,
    MembershipResponse,
    MembershipState,
    Unanswered,
)
from apportion.member.reactions import Reaction, reaction
from apportion.member.step import Step
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
)

REPEATS = (Reaction.FIND_COORDINATOR, Reaction.RETRY)
"""The reactions by which Prepare or Install is sent again."""


class ComputingMember(AssigningMember[ConsumerSettings]):
    """The computation of a group's target by one of its members."""

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings, member_id=settings.member_id)
        self._local = LocalAssignors(settings.assignors)
        self._computation = TargetComputation(settings, self._local)

    def _due_times(self) -> list[int | None]:
        return [*super()._due_times(), self._computation_at_ms(), self._computation.slow_at_ms]

    def _apply_event(self, step: Step, event: Event) -> None:
        super()._apply_event(step, event)
        if isinstance(event, AssignorRan):
            note = self._computation.take_outcome(event, step.now, self._label)
            if note is not None:
                step.emit(note)
        if step.is_due(self._computation.slow_at_ms):
            step.emit(self._computation.report_slow(self._label))

    def _apply_answer(self, step: Step, event: CoordinatorFound | Answered | Unanswered) -> None:
        computation = self._computation.take_answered(event.request_id)
        match event:
            case Answered(_, response) if computation is not None:
                self._apply_computation_response(step, response)
            case Unanswered(_, why, code) if computation is not None:
                self._computation.repeat_request()
                self._apply_failure(step, why, code)
            case _:
                super()._apply_answer(step, event)

    def _leave(self, step: Step, for_good: bool) -> None:
        self._computation.abandon()
        super()._leave(step, for_good)

    @property
    def _query(self) -> Any:
        return self._computation.query

    def _apply_query_answer(self, step: Step, event: LookupEvent) -> None:
        request_id = self._link.next_request_id()
        run = self._computation.resume(answer_of(event), request_id, step.now)
        if run is not None:
            step.emit(run)

    def _begin_computation(self) -> bool:
        """Begin a computation, for which the coordinator has chosen the member.

        Return False if the assignor still runs from the last time.
        """
        # The query of the one before must not hold the next one back, nor answer it.
        self._lookups.give_up(self._query)
        return self._computation.begin()

    def _apply_computation_response(self, step: Step, response: MembershipResponse) -> None:
        """Apply the response to Prepare or Install."""
        assert isinstance(response, ComputationResponse)
        on_error = reaction(api_of(response), response.error_code)
        if on_error in REPEATS:
            self._repeat_request(step, on_error)
            self._computation.repeat_request()
        elif response.error_code != Code.NONE:
            step.emit(self._computation.end_refused(response, self._label))
            if response.error_code == Code.STALE_MEMBER_EPOCH:
                # The next response may choose this member again.
                self._link.retry(step.now, free=1)
        elif isinstance(response, ConsumerGroupPrepareAssignmentResponse):
            request_id = self._link.next_request_id()
            run = self._computation.run(response, request_id, step.now)
            if run is not None:
                step.emit(run)
        else:
            self._computation.abandon()
            # The member's own part of the target is in the next response.
            self._link.heartbeat_at_ms = step.now.mono_ms

    def _repeat_request(self, step: Step, on_error: Reaction) -> None:
        """Send a request again, to a coordinator that is looked up first if `on_error` says so."""
        if on_error is Reaction.FIND_COORDINATOR:
            self._link.is_known = False
        self._retry(step, free=1)

    def _computation_at_ms(self) -> int | None:
        """Return when Prepare or Install may be sent; None if neither is to be sent now.

        Either names the member's epoch. So heartbeats go first while their response may change it:
        one that is in flight, that reports what was adopted, or that follows a lost response.
        """
        if (
            not self._computation.is_request_due
            or self.state not in (MembershipState.RECONCILING, MembershipState.STABLE)
            or self._link.in_flight is not None
            or self._must_confirm_epoch()
        ):
            return None
        return self._link.backoff.not_before_ms

    @abstractmethod
    def _must_confirm_epoch(self) -> bool:
        """Return whether a heartbeat has to show first that the epoch still holds."""
