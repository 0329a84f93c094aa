"""The KIP-848 member of a consumer group, as a Machine: when it beats, what it says, and what an answer makes of it.

The owner (a Consumer, a Spark source) does the work; the machine only tells it what to let go of and what to take (`Offer`).
The coordinator hears that something is free once the owner has said so (`Adopted`), and not before. The machine refuses to know
topic names of partitions, positions, offsets, sockets and where the coordinator lives. Being fenced is a moment, not a state: what
was held is `Lost` and the member is JOINING again, in a new life.
"""

from dataclasses import dataclass

from apportion.errors import Code
from apportion.machine import Instant, Note, Tick
from apportion.member.backoff import Pauses
from apportion.member.membership import (
    MAY_END,
    Action,
    Adopted,
    Answered,
    Assignment,
    Event,
    Failed,
    FindCoordinator,
    Found,
    Leave,
    Left,
    Lost,
    Offer,
    Polled,
    Send,
    State,
    Subscribe,
    Unanswered,
    assignment,
    from_wire,
    minus,
    to_wire,
)
from apportion.member.reactions import Reaction, reaction
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

NEXT = {  # state -> states it may go to
    State.UNSUBSCRIBED: {State.JOINING},
    State.JOINING: {State.RECONCILING, State.STABLE} | MAY_END,
    State.RECONCILING: {State.ACKNOWLEDGING, State.STABLE} | MAY_END,
    State.ACKNOWLEDGING: {State.RECONCILING, State.STABLE} | MAY_END,
    State.STABLE: {State.RECONCILING, State.ACKNOWLEDGING} | MAY_END,
    State.LEAVING: {State.UNSUBSCRIBED, State.STALE},
    State.STALE: {State.JOINING, State.UNSUBSCRIBED},
    State.FATAL: {State.UNSUBSCRIBED},
}

SILENT = (State.UNSUBSCRIBED, State.STALE, State.FATAL)
AT_ONCE = (State.JOINING, State.ACKNOWLEDGING, State.LEAVING)  # these do not wait for the interval
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


@dataclass(frozen=True, slots=True)
class View:
    """A member at one moment.

    lives: grows by one whenever the member joins; nothing that was held in an earlier life is held in this one.
    target: what the coordinator wants it to hold; None until it has said so in this life. owned: what the owner has adopted.
    last_accepted_ms: when the coordinator last accepted a heartbeat (monotonic); None if it never did.
    """

    member_id: str
    epoch: int
    state: State
    lives: int
    target: Assignment | None
    owned: Assignment
    last_accepted_ms: int | None
    error: str | None


def acknowledged(owned: Assignment, target: Assignment | None) -> Assignment:
    """What the coordinator hears that the member owns: all that the owner has adopted, also what `target` takes away, and all that
    it was given, which it may adopt while the heartbeat is under way.

    A revocation is acknowledged by what is missing here, so nothing may be missing before the owner has let go of it; and an offer
    that is taken back before it was adopted must have been here, or nobody would hear that it is not used.
    """
    return owned if target is None or target == owned else assignment((*owned, *target))


class ConsumerMember:
    """One member of one group; see the module."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = State.UNSUBSCRIBED
        self._epoch = 0
        self._lives = 0
        self._topics: tuple[str, ...] = ()
        self._target: Assignment | None = None
        self._owned: Assignment = ()
        self._said: tuple[tuple[str, ...], Assignment] | None = None  # topics and owned as last sent; None: say everything
        self._error: str | None = None
        self._coordinator_known = False
        self._flight: int | None = None  # the request, or the search, that is under way
        self._requests = 0
        self._pauses = Pauses(settings.backoff_ms, settings.backoff_limit_ms, settings.wait_limit_ms)
        self._interval_ms = 0
        self._beat_at_ms = 0
        self._poll_at_ms: int | None = None
        self._goes_stale = False
        self._leaves_for_good = settings.instance_id is None
        self._last_accepted_ms: int | None = None

    def view(self) -> View:
        """What can be seen of the member now."""
        return View(
            self.settings.member_id,
            self._epoch,
            self.state,
            self._lives,
            self._target,
            self._owned,
            self._last_accepted_ms,
            self._error,
        )

    def wake_at(self) -> int | None:
        """When the member next wants a Tick; None while it waits for others."""
        times = [] if self._poll_at_ms is None else [self._poll_at_ms]
        if self._flight is None and self.state not in SILENT:
            times.append(self._due_at())
        return min(times, default=None)

    def step(self, event: Event, now: Instant) -> list[Action]:
        """The actions that `event` causes, in order."""
        actions: list[Action] = []
        match event:
            case Subscribe(topics):
                self._subscribe(topics, now)
            case Adopted(life, adopted):
                self._adopt(life, adopted)
            case Polled():
                self._polled(now)
            case Leave(for_good):
                self._leave(actions, for_good)
            case Found(request_id) if request_id == self._flight:
                self._flight, self._coordinator_known = None, True
            case Answered(request_id, ConsumerGroupHeartbeatResponse() as response) if request_id == self._flight:
                self._flight = None
                self._answered(response, actions, now)
            case Unanswered(request_id, why, code) if request_id == self._flight:
                self._flight = None
                self._unanswered(why, code, actions, now)
            case Tick() if self._poll_at_ms is not None and now.mono_ms >= self._poll_at_ms:
                self._go_stale(actions, now)
            case _:
                pass
        self._beat_if_due(actions, now)
        return actions

    # the owner

    def _subscribe(self, topics: tuple[str, ...], now: Instant) -> None:
        self._topics = tuple(sorted(dict.fromkeys(topics)))
        self._rearm_poll(now)
        if self.state is State.UNSUBSCRIBED:
            self._join(now)

    def _adopt(self, life: int, adopted: Assignment) -> None:
        if life != self._lives or self.state not in (State.RECONCILING, State.ACKNOWLEDGING, State.STABLE):
            return  # the word of an earlier life, or of a member that is no longer in the group
        if minus(minus(adopted, self._owned), self._target or ()):
            return  # an offer that was taken back since: another member may have got it
        if adopted != self._owned:
            self._owned = adopted
            self._enter(State.ACKNOWLEDGING)

    def _polled(self, now: Instant) -> None:
        self._rearm_poll(now)
        if self.state is State.STALE:
            self._join(now)

    def _leave(self, actions: list[Action], for_good: bool) -> None:
        self._goes_stale, self._poll_at_ms = False, None
        if self.state is State.LEAVING:
            return
        self._leaves_for_good = for_good or self.settings.instance_id is None
        if self.state is State.JOINING or self.state in SILENT or not self._coordinator_known:
            in_doubt = self.state is State.JOINING and self._flight is not None and self._coordinator_known
            if not in_doubt:
                self._end(actions, heard=self._epoch == JOIN)  # with an epoch, the coordinator waits for its session to end
                return
        self._enter(State.LEAVING)

    def _go_stale(self, actions: list[Action], now: Instant) -> None:
        self._poll_at_ms = None
        if self.state in SILENT or self.state is State.LEAVING:
            return
        limit = self.settings.poll_limit_ms
        actions.append(Note("warning", f"member {self.settings.member_id} leaves: its owner did not come back within {limit} ms"))
        actions.append(Lost(self._lives, self._owned))
        self._owned, self._target = (), None
        self._goes_stale = True
        if self._coordinator_known:
            self._enter(State.LEAVING)
        else:
            self._end(actions, heard=False)

    # the coordinator

    def _answered(self, response: ConsumerGroupHeartbeatResponse, actions: list[Action], now: Instant) -> None:
        if self.state is State.LEAVING:
            self._end(actions, heard=response.error_code == Code.NONE)
            return
        meant = reaction("ConsumerGroupHeartbeat", response.error_code)
        if meant is Reaction.ACCEPT:
            self._accepted(response, actions, now)
            return
        self._said = None
        code = Code.of(response.error_code)
        why = response.error_message or code.sentence
        if code is Code.GROUP_ID_NOT_FOUND and self.state is State.JOINING:
            meant = Reaction.WAIT  # a classic group that may not be upgraded, or not now
        if meant is Reaction.REJOIN:
            self._fenced(code, actions, now)
        elif meant is Reaction.SEEK:
            self._coordinator_known = False
            self._pause(now, free=1)
        elif meant is Reaction.RETRY or (meant is Reaction.WAIT and self._pauses.may_wait(now)):
            actions.append(Note("warning", f"heartbeat of {self.settings.member_id}: {code.name}: {why}"))
            self._pause(now)
        else:
            self._fail(code, why, actions)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, actions: list[Action], now: Instant) -> None:
        self._epoch = response.member_epoch
        self._last_accepted_ms = now.mono_ms
        self._pauses.over()
        self._beat_at_ms += response.heartbeat_interval_ms - self._interval_ms
        self._interval_ms = response.heartbeat_interval_ms
        joined = self.state is State.JOINING
        if response.assignment is not None:
            target = from_wire(response.assignment.topic_partitions)
        elif joined:
            target = ()
        else:
            return
        if target != self._target:  # None until now, if it has just joined
            actions.append(Offer(self._lives, target, minus(self._owned, target), minus(target, self._owned)))
        self._target = target
        if self.state is not State.ACKNOWLEDGING:  # what was adopted is said first
            self._enter(State.STABLE if target == self._owned else State.RECONCILING)

    def _unanswered(self, why: str, code: Code, actions: list[Action], now: Instant) -> None:
        self._said = None
        if self.state is State.LEAVING:
            self._end(actions, heard=False)
        elif reaction("FindCoordinator", code) is Reaction.RAISE:
            self._fail(code, why, actions)
        else:
            self._coordinator_known = False
            actions.append(Note("warning", f"no answer for member {self.settings.member_id}: {why}"))
            self._pause(now)

    def _fenced(self, code: Code, actions: list[Action], now: Instant) -> None:
        actions.append(Note("warning", f"member {self.settings.member_id} lost its place at epoch {self._epoch}: {code.name}"))
        rejoining = self._epoch == JOIN
        actions.append(Lost(self._lives, self._owned))
        self._join(now)
        if rejoining:
            self._pause(now)

    # moves

    def _enter(self, state: State) -> None:
        assert state is self.state or state in NEXT[self.state], (self.state, state)
        self.state = state

    def _join(self, now: Instant) -> None:
        self._enter(State.JOINING)
        self._epoch, self._owned, self._target, self._said, self._error = JOIN, (), None, None, None
        self._lives += 1
        self._beat_at_ms = now.mono_ms
        self._pauses.none(now)

    def _end(self, actions: list[Action], *, heard: bool) -> None:
        if self.state is not State.UNSUBSCRIBED:
            self._enter(State.STALE if self._goes_stale else State.UNSUBSCRIBED)
        self._epoch, self._owned, self._target, self._flight = JOIN, (), None, None
        if not self._goes_stale:
            actions.append(Left(heard))

    def _fail(self, code: Code, why: str, actions: list[Action]) -> None:
        if code is Code.UNSUPPORTED_VERSION:
            why = f"{why.rstrip('.')}; a broker without KIP-848 has classic groups only, so choose the classic protocol"
        self._error = f"{code.name}: {why}"
        self._poll_at_ms = None
        actions += [Lost(self._lives, self._owned), Failed(code, why)]
        self._enter(State.FATAL)
        self._epoch, self._owned, self._target = JOIN, (), None

    def _pause(self, now: Instant, free: int = 0) -> None:
        """The next heartbeat waits for this alone; the first `free` failures in a row cost nothing."""
        self._pauses.after(now, free)
        self._beat_at_ms = now.mono_ms

    def _rearm_poll(self, now: Instant) -> None:
        limit = self.settings.poll_limit_ms
        self._poll_at_ms = None if limit is None or self.state is State.FATAL else now.mono_ms + limit

    # heartbeats

    def _due_at(self) -> int:
        not_before_ms = self._pauses.not_before_ms
        return not_before_ms if self.state in AT_ONCE else max(self._beat_at_ms, not_before_ms)

    def _beat_if_due(self, actions: list[Action], now: Instant) -> None:
        leaving = self.state is State.LEAVING
        if self.state in SILENT or (self._flight is not None and not leaving) or (not leaving and now.mono_ms < self._due_at()):
            return
        if leaving and self._said_goodbye():
            return
        self._requests += 1
        self._flight = self._requests
        if not self._coordinator_known:
            actions.append(FindCoordinator(self._requests, self.settings.group_id))
            return
        self._beat_at_ms = now.mono_ms + self._interval_ms
        actions.append(Send(self._requests, self._heartbeat(), self.settings.request_timeout_ms))

    def _said_goodbye(self) -> bool:
        return self._epoch < 0

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat of this moment, which is remembered as said; an acknowledgement or a leave is thereby made."""
        mine = self.settings
        if self.state is State.LEAVING:
            self._epoch = LEAVE_FOR_GOOD if self._leaves_for_good else LEAVE_FOR_NOW
            return ConsumerGroupHeartbeatRequest(
                group_id=mine.group_id, member_id=mine.member_id, member_epoch=self._epoch, instance_id=mine.instance_id
            )
        full = self._said is None
        topics, before = self._said or (None, None)
        owned = acknowledged(self._owned, self._target)
        self._said = (self._topics, owned)
        if self.state is State.ACKNOWLEDGING:
            self._enter(State.STABLE if self._owned == self._target else State.RECONCILING)
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
