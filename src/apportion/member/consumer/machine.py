"""A member of a KIP-848 consumer group: when it sends a heartbeat, and what a response changes.

The member's states are in `states.py`, the fields of its heartbeats in `requests.py`. The owner (a
Consumer, a Spark source) does the work; the machine tells it what to stop using and what it may use
(`Offer`). The coordinator learns that a partition is free only after the owner has reported so
(`Adopted`). The machine knows no topic names of partitions, no positions or offsets, and no
sockets.
"""

from apportion.errors import Code
from apportion.machine import Instant, Note
from apportion.member.consumer.requests import (
    JOIN,
    LEAVE_FOR_GOOD,
    LEAVE_FOR_NOW,
    ConsumerSettings,
    HeartbeatBuilder,
    leave_request,
)
from apportion.member.consumer.states import ADOPTING, NEXT, WITHOUT_INTERVAL
from apportion.member.machine import MemberMachine
from apportion.member.membership import (
    SILENT,
    Action,
    FindCoordinator,
    Lost,
    MemberAssignment,
    MembershipRequest,
    MembershipResponse,
    MembershipState,
    Offer,
    SendToCoordinator,
    View,
    from_wire,
    minus,
    owned_or_offered,
)
from apportion.member.reactions import Reaction, reaction
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerMember(MemberMachine[ConsumerSettings]):
    """One member of one consumer group."""

    transitions = NEXT
    concurrent_calls = 1

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings)
        self._epoch = JOIN
        self._incarnation = 0
        self._topics: tuple[str, ...] = ()
        self._target: MemberAssignment | None = None
        self._owned: MemberAssignment = ()
        self._heartbeats = HeartbeatBuilder(settings)
        self._interval_ms = 0
        self._last_accepted_ms: int | None = None
        self._leaves_for_good = settings.instance_id is None

    def view(self) -> View:
        """Return a snapshot of the member."""
        return View(
            self.settings.member_id,
            self._epoch,
            self.state,
            self._incarnation,
            self._target,
            self._owned,
            self._last_accepted_ms,
            self._error,
        )

    # the owner

    def _subscribe(self, topics: tuple[str, ...], now: Instant) -> None:
        self._topics = topics
        self._restart_poll_timer(now)
        if self.state is MembershipState.UNSUBSCRIBED:
            self._join(now)

    def _adopt(self, incarnation: int, adopted: MemberAssignment) -> None:
        if incarnation != self._incarnation or self.state not in ADOPTING:
            return  # reported too late: the membership in which this was offered is lost
        if minus(minus(adopted, self._owned), self._target or ()):
            return  # the offer was withdrawn since, so another member may own the partition
        if adopted != self._owned:
            self._owned = adopted
            self._enter(MembershipState.ACKNOWLEDGING)

    def _leave(self, actions: list[Action], for_good: bool) -> None:
        # KIP-848: epoch -2 is for static members alone; the coordinator refuses it without an
        # instance id.
        self._leaves_for_good = for_good or self.settings.instance_id is None
        is_joining = self.state is MembershipState.JOINING
        # Once a join was sent the coordinator may have admitted the member, although it does not
        # know its epoch yet: then it has to leave.
        is_join_sent = is_joining and self._link.in_flight is not None and self._link.is_known
        if (is_joining or self.state in SILENT or not self._link.is_known) and not is_join_sent:
            # A member with an epoch that goes silent stays in the group until its session expires.
            self._finish_leaving(actions, is_confirmed=self._epoch == JOIN)
        else:
            self._enter(MembershipState.LEAVING)

    def _send_stale_leave(self, actions: list[Action]) -> None:
        # No lookup just to leave: the owner has stalled, and the session expires without
        # heartbeats.
        if self._link.is_known:
            self._enter(MembershipState.LEAVING)
        else:
            self._finish_leaving(actions, is_confirmed=False)

    # the coordinator

    def _apply_response(
        self,
        request: MembershipRequest,
        response: MembershipResponse,
        actions: list[Action],
        now: Instant,
    ) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        # Even after an error: a leave is sent once and not repeated (KIP-848).
        if self.state is MembershipState.LEAVING:
            self._finish_leaving(actions, is_confirmed=response.error_code == Code.NONE)
            return
        on_error = reaction("ConsumerGroupHeartbeat", response.error_code)
        if on_error is Reaction.ACCEPT:
            self._accept(response, actions, now)
            return
        # The coordinator may not have applied what this heartbeat reported, so the next one says
        # everything.
        self._heartbeats.require_full()
        code = Code.of(response.error_code)
        why = response.error_message or code.sentence
        if code is Code.GROUP_ID_NOT_FOUND and self.state is MembershipState.JOINING:
            # A classic group has this id. Its protocol may change when its members have left, or
            # when the broker's group.consumer.migration.policy lets it.
            on_error = Reaction.RETRY_FOR_A_TIME
        if on_error is Reaction.REJOIN:
            self._lose_membership(code, actions, now)
        else:
            self._apply_error(request, code, why, on_error, actions, now)

    def _name_request(self, request: MembershipRequest) -> str:  # noqa: ARG002 (it has one request)
        return f"heartbeat of {self.settings.member_id}"

    def _accept(
        self, response: ConsumerGroupHeartbeatResponse, actions: list[Action], now: Instant
    ) -> None:
        """Take epoch, interval and target of a ConsumerGroupHeartbeat response without an error."""
        self._epoch = response.member_epoch
        self._last_accepted_ms = now.mono_ms
        self._link.backoff.record_success()
        # The interval counts from the moment of sending.
        self._link.heartbeat_at_ms += response.heartbeat_interval_ms - self._interval_ms
        self._interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            target = from_wire(response.assignment.topic_partitions)
        # Admitted with nothing yet: other members have to release partitions first.
        elif self.state is MembershipState.JOINING:
            target = ()
        else:
            return  # KIP-848: no assignment in a response means that it is unchanged
        if target != self._target:  # None until now, if it has just joined
            actions.append(
                Offer(
                    self._incarnation,
                    target,
                    minus(self._owned, target),
                    minus(target, self._owned),
                )
            )
        self._target = target
        # An acknowledgement that is due is sent first: it reports what this target was made for.
        if self.state is not MembershipState.ACKNOWLEDGING:
            self._enter(
                MembershipState.STABLE if target == self._owned else MembershipState.RECONCILING
            )

    def _apply_failure(
        self,
        in_flight: FindCoordinator | SendToCoordinator,
        why: str,
        code: Code,
        actions: list[Action],
        now: Instant,
    ) -> None:
        # Lost on the way there or on the way back: only a full heartbeat is right in both cases.
        self._heartbeats.require_full()
        super()._apply_failure(in_flight, why, code, actions, now)

    def _retry(
        self,
        request: MembershipRequest | None,  # noqa: ARG002 (what it overrides has it)
        now: Instant,
        free: int = 0,
    ) -> None:
        # The next heartbeat waits for the backoff alone, not for the interval.
        self._link.backoff.record_failure(now, free)
        self._link.heartbeat_at_ms = now.mono_ms

    def _lose_membership(self, code: Code, actions: list[Action], now: Instant) -> None:
        """Report everything owned as lost, and join again with the same member id (KIP-848).

        code: FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID or GROUP_ID_NOT_FOUND.
        """
        why = f"{self._label()} lost its place at epoch {self._epoch}: {code.name}"
        actions += [Note("warning", why), self._lost()]
        # Read before the join below resets it.
        was_joining = self._epoch == JOIN
        self._join(now)
        if was_joining:
            # Two refused joins in a row must not become a loop without a pause.
            self._retry(None, now)

    # transitions

    def _join(self, now: Instant) -> None:
        self._enter(MembershipState.JOINING)
        self._reset_membership()
        # KIP-848: a heartbeat with epoch 0 has to carry every field.
        self._heartbeats.require_full()
        self._error = None
        self._incarnation += 1
        self._link.heartbeat_at_ms = now.mono_ms
        self._link.backoff.reset_delay(now)

    def _reset_membership(self) -> None:
        self._epoch = JOIN
        # Epoch 0 requires an empty list of owned partitions.
        self._forget_partitions()

    def _forget_partitions(self) -> None:
        self._owned, self._target = (), None

    def _fail(self, code: Code, why: str, actions: list[Action]) -> None:
        if code is Code.UNSUPPORTED_VERSION:
            why = (
                f"{why.rstrip('.')}; a broker without KIP-848 has classic groups only, so "
                "choose the classic protocol"
            )
        super()._fail(code, why, actions)

    def _lost(self) -> Lost:
        return Lost(self._incarnation, self._owned)

    def _label(self) -> str:
        return f"member {self.settings.member_id}"

    # heartbeats

    def _sends_at_once(self) -> bool:
        return self.state in WITHOUT_INTERVAL

    def _heartbeat_interval_ms(self) -> int:
        return self._interval_ms

    def _has_sent_leave(self) -> bool:
        # Leave epochs are the only negative ones, and they are set when the leave is built.
        return self._epoch < 0

    def _build_request(self) -> tuple[ConsumerGroupHeartbeatRequest, int]:
        timeout_ms = self.settings.response_timeout_ms
        if self.state is MembershipState.LEAVING:
            # Leaves first, whatever was to be acknowledged: the coordinator frees all partitions
            # with it.
            self._epoch = LEAVE_FOR_GOOD if self._leaves_for_good else LEAVE_FOR_NOW
            return leave_request(self.settings, self._epoch), timeout_ms
        if self.state is MembershipState.ACKNOWLEDGING:
            # This heartbeat is the acknowledgement.
            self._enter(
                MembershipState.STABLE
                if self._owned == self._target
                else MembershipState.RECONCILING
            )
        # Also what was offered and not adopted yet, so that a withdrawn offer is seen to be given
        # back.
        owned = owned_or_offered(self._owned, self._target)
        return self._heartbeats.build(self._epoch, self._topics, owned), timeout_ms
