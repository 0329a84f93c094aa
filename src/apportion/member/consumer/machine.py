"""The KIP-848 member of a consumer group, as a Machine: when it beats, what it says, and what an answer makes of it.

The owner (a Consumer, a Spark source) does the work; the machine only tells it what to let go of and what to take (`Offer`).
The coordinator hears that something is free once the owner has said so (`Adopted`), and not before. The machine refuses to know
topic names of partitions, positions, offsets, sockets and where the coordinator lives. Being fenced is a moment, not a state: what
was held is `Lost` and the member is JOINING again, in a new incarnation.
"""

from dataclasses import dataclass

from apportion.errors import Code
from apportion.machine import Instant, Note, Tick
from apportion.member.backoff import Backoff
from apportion.member.membership import (
    FROM_ANY_STATE,
    Action,
    Adopted,
    Answered,
    Assignment,
    CoordinatorFound,
    Event,
    Failed,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MembershipState,
    Offer,
    Polled,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    View,
    acknowledged,
    from_wire,
    minus,
    to_wire,
)
from apportion.member.reactions import Reaction, reaction
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

NEXT = {  # state -> states it may go to
    MembershipState.UNSUBSCRIBED: {MembershipState.JOINING},
    MembershipState.JOINING: {MembershipState.RECONCILING, MembershipState.STABLE} | FROM_ANY_STATE,
    MembershipState.RECONCILING: {MembershipState.ACKNOWLEDGING, MembershipState.STABLE} | FROM_ANY_STATE,
    MembershipState.ACKNOWLEDGING: {MembershipState.RECONCILING, MembershipState.STABLE} | FROM_ANY_STATE,
    MembershipState.STABLE: {MembershipState.RECONCILING, MembershipState.ACKNOWLEDGING} | FROM_ANY_STATE,
    MembershipState.LEAVING: {MembershipState.UNSUBSCRIBED, MembershipState.STALE},
    MembershipState.STALE: {MembershipState.JOINING, MembershipState.UNSUBSCRIBED},
    MembershipState.FATAL: {MembershipState.UNSUBSCRIBED},
}

SILENT = (MembershipState.UNSUBSCRIBED, MembershipState.STALE, MembershipState.FATAL)
WITHOUT_INTERVAL = (
    MembershipState.JOINING,
    MembershipState.ACKNOWLEDGING,
    MembershipState.LEAVING,
)  # these do not wait for the interval
JOIN, LEAVE_FOR_GOOD, LEAVE_FOR_NOW = 0, -1, -2  # member epochs with a meaning of their own


@dataclass(frozen=True, slots=True)
class Settings:
    """Who the member is, and how patient.

    member_id: made by whoever makes the member, and kept for all its lives.
    rebalance_timeout_ms: how long the owner may take to adopt a revocation before the coordinator expels the member.
    poll_limit_ms: how long the owner may be silent before the member leaves on its own; None: for ever.
    wait_limit_ms: how long it asks again where only time can help: an instance id still held, a coordinator that failed.
    """

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    rebalance_timeout_ms: int = 300_000
    poll_limit_ms: int | None = None
    request_timeout_ms: int = 5_000
    backoff_ms: int = 100
    backoff_limit_ms: int = 1_000
    wait_limit_ms: int = 120_000


class ConsumerMember:
    """One member of one group; see the module."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = MembershipState.UNSUBSCRIBED
        self._epoch = 0
        self._incarnation = 0
        self._topics: tuple[str, ...] = ()
        self._target: Assignment | None = None
        self._owned: Assignment = ()
        self._last_sent: tuple[tuple[str, ...], Assignment] | None = None  # topics and owned as last sent; None: say everything
        self._error: Failed | None = None
        self._coordinator_known = False
        self._in_flight: int | None = None  # the request, or the search, that is under way
        self._last_request_id = 0
        self._backoff = Backoff(settings.backoff_ms, settings.backoff_limit_ms, settings.wait_limit_ms)
        self._interval_ms = 0
        self._heartbeat_at_ms = 0
        self._poll_deadline_ms: int | None = None
        self._becomes_stale = False
        self._leaves_for_good = settings.instance_id is None
        self._last_accepted_ms: int | None = None

    def view(self) -> View:
        """What can be seen of the member now."""
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

    def wake_at(self) -> int | None:
        """When the member next wants a Tick; None while it waits for others."""
        times = [] if self._poll_deadline_ms is None else [self._poll_deadline_ms]
        if self._in_flight is None and self.state not in SILENT:
            times.append(self._due_at())
        return min(times, default=None)

    def step(self, event: Event, now: Instant) -> list[Action]:
        """The actions that `event` causes, in order."""
        actions: list[Action] = []
        match event:
            case Subscribe(topics):
                self._subscribe(topics, now)
            case Adopted(incarnation, adopted):
                self._adopt(incarnation, adopted)
            case Polled():
                self._polled(now)
            case Leave(for_good):
                self._leave(actions, for_good)
            case CoordinatorFound(request_id) if request_id == self._in_flight:
                self._in_flight, self._coordinator_known = None, True
            case Answered(request_id, ConsumerGroupHeartbeatResponse() as response) if request_id == self._in_flight:
                self._in_flight = None
                self._answered(response, actions, now)
            case Unanswered(request_id, why, code) if request_id == self._in_flight:
                self._in_flight = None
                self._unanswered(why, code, actions, now)
            case Tick() if self._poll_deadline_ms is not None and now.mono_ms >= self._poll_deadline_ms:
                self._leave_as_stale(actions, now)
            case _:
                pass
        self._send_if_due(actions, now)
        return actions

    # the owner

    def _subscribe(self, topics: tuple[str, ...], now: Instant) -> None:
        self._topics = tuple(sorted(dict.fromkeys(topics)))
        self._rearm_poll(now)
        if self.state is MembershipState.UNSUBSCRIBED:
            self._join(now)

    def _adopt(self, incarnation: int, adopted: Assignment) -> None:
        if incarnation != self._incarnation or self.state not in (
            MembershipState.RECONCILING,
            MembershipState.ACKNOWLEDGING,
            MembershipState.STABLE,
        ):
            return  # the word of an earlier incarnation, or of a member that is no longer in the group
        if minus(minus(adopted, self._owned), self._target or ()):
            return  # an offer that was taken back since: another member may have got it
        if adopted != self._owned:
            self._owned = adopted
            self._enter(MembershipState.ACKNOWLEDGING)

    def _polled(self, now: Instant) -> None:
        self._rearm_poll(now)
        if self.state is MembershipState.STALE:
            self._join(now)

    def _leave(self, actions: list[Action], for_good: bool) -> None:
        self._becomes_stale, self._poll_deadline_ms = False, None
        if self.state is MembershipState.LEAVING:
            return
        self._leaves_for_good = for_good or self.settings.instance_id is None
        if self.state is MembershipState.JOINING or self.state in SILENT or not self._coordinator_known:
            in_doubt = self.state is MembershipState.JOINING and self._in_flight is not None and self._coordinator_known
            if not in_doubt:
                # A member with an epoch that goes silent stays in the group until its session expires.
                self._finish_leaving(actions, heard=self._epoch == JOIN)
                return
        self._enter(MembershipState.LEAVING)

    def _leave_as_stale(self, actions: list[Action], now: Instant) -> None:
        self._poll_deadline_ms = None
        if self.state in SILENT or self.state is MembershipState.LEAVING:
            return
        limit = self.settings.poll_limit_ms
        actions.append(Note("warning", f"member {self.settings.member_id} leaves: its owner did not come back within {limit} ms"))
        actions.append(Lost(self._incarnation, self._owned))
        self._owned, self._target = (), None
        self._becomes_stale = True
        if self._coordinator_known:
            self._enter(MembershipState.LEAVING)
        else:
            self._finish_leaving(actions, heard=False)

    # the coordinator

    def _answered(self, response: ConsumerGroupHeartbeatResponse, actions: list[Action], now: Instant) -> None:
        if self.state is MembershipState.LEAVING:
            self._finish_leaving(actions, heard=response.error_code == Code.NONE)
            return
        meant = reaction("ConsumerGroupHeartbeat", response.error_code)
        if meant is Reaction.ACCEPT:
            self._accepted(response, actions, now)
            return
        self._last_sent = None
        code = Code.of(response.error_code)
        why = response.error_message or code.sentence
        if code is Code.GROUP_ID_NOT_FOUND and self.state is MembershipState.JOINING:
            meant = Reaction.WAIT  # a classic group that may not be upgraded, or not now
        if meant is Reaction.REJOIN:
            self._lose_membership(code, actions, now)
        elif meant is Reaction.SEEK:
            self._coordinator_known = False
            self._pause(now, free=1)
        elif meant is Reaction.RETRY or (meant is Reaction.WAIT and self._backoff.may_keep_waiting(now)):
            actions.append(Note("warning", f"heartbeat of {self.settings.member_id}: {code.name}: {why}"))
            self._pause(now)
        else:
            self._fail(code, why, actions)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, actions: list[Action], now: Instant) -> None:
        self._epoch = response.member_epoch
        self._last_accepted_ms = now.mono_ms
        self._backoff.record_success()
        self._heartbeat_at_ms += response.heartbeat_interval_ms - self._interval_ms
        self._interval_ms = response.heartbeat_interval_ms
        joined = self.state is MembershipState.JOINING
        if response.assignment is not None:
            target = from_wire(response.assignment.topic_partitions)
        elif joined:
            target = ()
        else:
            return
        if target != self._target:  # None until now, if it has just joined
            actions.append(Offer(self._incarnation, target, minus(self._owned, target), minus(target, self._owned)))
        self._target = target
        if self.state is not MembershipState.ACKNOWLEDGING:  # what was adopted is said first
            self._enter(MembershipState.STABLE if target == self._owned else MembershipState.RECONCILING)

    def _unanswered(self, why: str, code: Code, actions: list[Action], now: Instant) -> None:
        self._last_sent = None
        if self.state is MembershipState.LEAVING:
            self._finish_leaving(actions, heard=False)
        elif reaction("FindCoordinator", code) is Reaction.RAISE:
            self._fail(code, why, actions)
        else:
            self._coordinator_known = False
            actions.append(Note("warning", f"no answer for member {self.settings.member_id}: {why}"))
            self._pause(now)

    def _lose_membership(self, code: Code, actions: list[Action], now: Instant) -> None:
        actions.append(Note("warning", f"member {self.settings.member_id} lost its place at epoch {self._epoch}: {code.name}"))
        rejoining = self._epoch == JOIN
        actions.append(Lost(self._incarnation, self._owned))
        self._join(now)
        if rejoining:
            self._pause(now)

    # moves

    def _enter(self, state: MembershipState) -> None:
        assert state is self.state or state in NEXT[self.state], (self.state, state)
        self.state = state

    def _join(self, now: Instant) -> None:
        self._enter(MembershipState.JOINING)
        self._epoch, self._owned, self._target, self._last_sent, self._error = JOIN, (), None, None, None
        self._incarnation += 1
        self._heartbeat_at_ms = now.mono_ms
        self._backoff.reset_delay(now)

    def _finish_leaving(self, actions: list[Action], *, heard: bool) -> None:
        if self.state is not MembershipState.UNSUBSCRIBED:
            self._enter(MembershipState.STALE if self._becomes_stale else MembershipState.UNSUBSCRIBED)
        self._epoch, self._owned, self._target, self._in_flight = JOIN, (), None, None
        if not self._becomes_stale:
            actions.append(Left(heard))

    def _fail(self, code: Code, why: str, actions: list[Action]) -> None:
        if code is Code.UNSUPPORTED_VERSION:
            why = f"{why.rstrip('.')}; a broker without KIP-848 has classic groups only, so choose the classic protocol"
        self._error = Failed(code, why)
        self._poll_deadline_ms = None
        actions += [Lost(self._incarnation, self._owned), self._error]
        self._enter(MembershipState.FATAL)
        self._epoch, self._owned, self._target = JOIN, (), None

    def _pause(self, now: Instant, free: int = 0) -> None:
        """The next heartbeat waits for this alone; the first `free` failures in a row cost nothing."""
        self._backoff.record_failure(now, free)
        self._heartbeat_at_ms = now.mono_ms

    def _rearm_poll(self, now: Instant) -> None:
        limit = self.settings.poll_limit_ms
        self._poll_deadline_ms = None if limit is None or self.state is MembershipState.FATAL else now.mono_ms + limit

    # heartbeats

    def _due_at(self) -> int:
        not_before_ms = self._backoff.not_before_ms
        return not_before_ms if self.state in WITHOUT_INTERVAL else max(self._heartbeat_at_ms, not_before_ms)

    def _send_if_due(self, actions: list[Action], now: Instant) -> None:
        leaving = self.state is MembershipState.LEAVING
        if self.state in SILENT or (self._in_flight is not None and not leaving) or (not leaving and now.mono_ms < self._due_at()):
            return
        if leaving and self._has_sent_leave():
            return
        self._last_request_id += 1
        self._in_flight = self._last_request_id
        if not self._coordinator_known:
            actions.append(FindCoordinator(self._last_request_id, self.settings.group_id))
            return
        self._heartbeat_at_ms = now.mono_ms + self._interval_ms
        actions.append(SendToCoordinator(self._last_request_id, self._build_heartbeat(), self.settings.request_timeout_ms))

    def _has_sent_leave(self) -> bool:
        return self._epoch < 0

    def _build_heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat of this moment, which is remembered as said; an acknowledgement or a leave is thereby made."""
        mine = self.settings
        if self.state is MembershipState.LEAVING:
            self._epoch = LEAVE_FOR_GOOD if self._leaves_for_good else LEAVE_FOR_NOW
            return ConsumerGroupHeartbeatRequest(
                group_id=mine.group_id, member_id=mine.member_id, member_epoch=self._epoch, instance_id=mine.instance_id
            )
        full = self._last_sent is None
        topics, before = self._last_sent or (None, None)
        owned = acknowledged(self._owned, self._target)
        self._last_sent = (self._topics, owned)
        if self.state is MembershipState.ACKNOWLEDGING:
            self._enter(MembershipState.STABLE if self._owned == self._target else MembershipState.RECONCILING)
        return ConsumerGroupHeartbeatRequest(
            group_id=mine.group_id,
            member_id=mine.member_id,
            member_epoch=self._epoch,
            instance_id=mine.instance_id,
            rack_id=mine.rack_id if full else None,
            rebalance_timeout_ms=mine.rebalance_timeout_ms if full else -1,
            subscribed_topic_names=self._topics if full or topics != self._topics else None,
            server_assignor=mine.server_assignor if full else None,
            topic_partitions=to_wire(owned) if full or owned != before else None,
        )
