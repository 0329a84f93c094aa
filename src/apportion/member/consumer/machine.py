"""A member of a KIP-848 consumer group: when it sends a heartbeat, and what a response changes.

The member's states are in `states.py`, the fields of its heartbeats in `requests.py`. The owner (a
Consumer, a Spark source) does the work; the machine tells it what to stop using and what it may use
(`Offer`). The coordinator learns that a partition is free only after the owner has reported so
(`Adopted`). The machine knows no topic names of partitions, no positions or offsets, and no
sockets.
"""

from apportion.errors import Code
from apportion.member.consumer.requests import (
    JOIN,
    LEAVE_FOR_GOOD,
    LEAVE_FOR_NOW,
    ConsumerSettings,
    HeartbeatBuilder,
    NamesAndExpression,
    leave_request,
)
from apportion.member.consumer.states import NEXT
from apportion.member.machine import MemberMachine
from apportion.member.membership import (
    SILENT,
    MembershipResponse,
    MembershipState,
    from_id_parts,
)
from apportion.member.reactions import Reaction
from apportion.member.step import Step
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerMember(MemberMachine[ConsumerSettings]):
    """One member of one consumer group."""

    transitions = NEXT
    no_epoch, epoch_words = JOIN, "at epoch"
    admitting_requests = (ConsumerGroupHeartbeatRequest,)
    # It may wait for its heartbeat and for the response to its leave at the same time.
    concurrent_calls = 2

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings, member_id=settings.member_id)
        self._heartbeats = HeartbeatBuilder(settings)

    def _report_adopted(self) -> None:
        self._enter(MembershipState.ACKNOWLEDGING)

    def _must_send_leave(self) -> bool:
        # Once a join was sent the coordinator may have admitted the member, although it does not
        # know its epoch yet: then it has to leave.
        return self.state not in SILENT and self._may_be_member

    # the coordinator

    def _accept(self, step: Step, response: MembershipResponse) -> None:
        """Take epoch, interval and target of a ConsumerGroupHeartbeat response without an error."""
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._epoch = response.member_epoch
        self._link.record_accepted(step.now)
        self._link.backoff.record_success()
        self._link.set_interval(response.heartbeat_interval_ms)
        if response.assignment is not None:
            target = from_id_parts(response.assignment.topic_partitions)
        # Admitted with nothing yet: other members have to release partitions first.
        elif self.state is MembershipState.JOINING:
            target = ()
        else:
            return  # KIP-848: no assignment in a response means that it is unchanged
        self._ownership.set_target(step, target)
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

    def _explain(self, response: MembershipResponse) -> str:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response.error_message or super()._explain(response)

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

    def _fail(self, step: Step, code: Code, why: str) -> None:
        if code is Code.UNSUPPORTED_VERSION:
            why = (
                f"{why.rstrip('.')}; a broker without KIP-848 has classic groups only, so "
                "choose the classic protocol"
            )
        super()._fail(step, code, why)

    def _build_request(self) -> ConsumerGroupHeartbeatRequest:
        if self.state is MembershipState.LEAVING:
            # Leaves first, whatever was to be acknowledged: the coordinator frees all partitions
            # with it. It refuses epoch -2 without an instance id (KIP-848).
            is_final = self._leaves_for_good or self.settings.instance_id is None
            self._epoch = LEAVE_FOR_GOOD if is_final else LEAVE_FOR_NOW
            return leave_request(self.settings, self._epoch)
        if self.state is MembershipState.ACKNOWLEDGING:
            # This heartbeat is the acknowledgement.
            self._enter(self._ownership.state)
        # Also claims what was offered and not adopted yet, so that a withdrawn offer is seen to be
        # given back.
        subscription = NamesAndExpression(self._topics, self._expression)
        return self._heartbeats.build(self._epoch, subscription, self._ownership.claim())
