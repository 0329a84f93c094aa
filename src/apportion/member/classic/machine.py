"""The member of a classic group, as a Machine: JoinGroup to LeaveGroup, eager or cooperative, leader or not.

It has the events, the actions and the `View` of the KIP-848 member, with the generation for an epoch, so whoever drives the one
drives the other. Before it joins again it takes back what may not be kept meanwhile: all of it if the group rebalances eagerly,
else what is not subscribed any more. JoinGroup says as owned what the owner uses or may use at any moment; what the owner lets go
of is free for others with the next JoinGroup, which is not sent before. The machine refuses to know how to share out
(`leader.py`), positions, offsets and sockets. A generation that is reset is a moment, not a state: what was held is `Lost`.
"""

from collections.abc import Callable, Sequence

from apportion.errors import Code, Refused
from apportion.machine import Instant, Note, Tick
from apportion.member.backoff import Pauses
from apportion.member.classic.generation import Standing
from apportion.member.classic.lookups import Looks
from apportion.member.classic.metadata import Atlas
from apportion.member.classic.ownership import Holding
from apportion.member.classic.requests import NO_GENERATION, ClassicSettings, why_refused
from apportion.member.consumer.machine import View
from apportion.member.membership import (
    MAY_END,
    Action,
    Adopted,
    Answered,
    Ask,
    Assignment,
    Event,
    Failed,
    FindCoordinator,
    Found,
    JoinAgain,
    Known,
    Leave,
    Left,
    LookUp,
    Lost,
    Polled,
    Request,
    Response,
    SeenTopic,
    Send,
    State,
    Subscribe,
    Told,
    Unanswered,
)
from apportion.member.reactions import Reaction, reaction
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NEXT = {  # state -> states it may go to
    State.UNSUBSCRIBED: {State.JOINING},
    State.JOINING: {State.SYNCING} | MAY_END,
    State.SYNCING: {State.RECONCILING, State.STABLE} | MAY_END,
    State.RECONCILING: {State.STABLE} | MAY_END,
    State.STABLE: {State.RECONCILING} | MAY_END,
    State.LEAVING: {State.UNSUBSCRIBED, State.STALE},
    State.STALE: {State.JOINING, State.UNSUBSCRIBED},
    State.FATAL: {State.UNSUBSCRIBED, State.LEAVING},
}
SILENT = (State.UNSUBSCRIBED, State.STALE, State.FATAL)
IN_A_GENERATION = (State.SYNCING, State.RECONCILING, State.STABLE)


class ClassicMember:
    """One member of one classic group; see the module. ValueError if its assignors do not go together."""

    def __init__(self, settings: ClassicSettings) -> None:
        self.settings = settings
        self.state = State.UNSUBSCRIBED
        self._member_id = ""
        self._atlas = Atlas()
        self._standing = Standing(settings, self._atlas, 0, ())
        self._error: str | None = None
        self._coordinator_known = False
        self._flight: FindCoordinator | Send | None = None
        self._requests = 0
        self._pauses = Pauses(settings.backoff_ms, settings.backoff_limit_ms, settings.wait_limit_ms)
        self._looks = Looks()
        self._beat_at_ms = self._follow_up_at_ms = 0
        self._poll_at_ms: int | None = None
        self._goes_stale = False
        self._last_accepted_ms: int | None = None
        self._sent_ms = self._vouched_ms = 0  # when the last request went out, and the last one that was accepted

    def view(self) -> View:
        """What can be seen of the member now; its epoch is the generation, -1 without one."""
        return self._standing.view(self._member_id, self.state, self._last_accepted_ms, self._error)

    def wake_at(self) -> int | None:
        """When the member next wants a Tick; None while it waits for others."""
        times = [] if self._poll_at_ms is None else [self._poll_at_ms]
        if self._flight is None and self.state not in SILENT:
            times.append(self._due_at())
        if self._may_look:
            times.append(self._looks.at_ms)
        if self._follows_up:
            times.append(self._follow_up_at_ms)
        return min(times, default=None)

    def step(self, event: Event, now: Instant) -> list[Action]:
        """The actions that `event` causes, in order."""
        actions: list[Action] = []
        flight, look = self._flight, self._looks.under_way
        match event:
            case Subscribe(topics):
                self._subscribe(topics, now)
            case Adopted(life, adopted):
                self._adopt(life, adopted)
            case Polled():
                self._polled(now)
            case Leave(for_good):
                self._leave(actions, for_good)
            case JoinAgain(why):
                self._standing.rejoins = why
            case Found(request_id) if flight is not None and request_id == flight.request_id:
                self._flight, self._coordinator_known = None, True
            case Answered(request_id, response) if isinstance(flight, Send) and request_id == flight.request_id:
                self._flight = None
                self._answered(flight.request, response, actions, now)
            case Unanswered(request_id, why, code) if flight is not None and request_id == flight.request_id:
                self._flight = None
                self._unanswered(flight, why, code, actions, now)
            case Known(request_id, seen) if look is not None and self._looks.answered(request_id):
                self._learn(look, seen, actions, now)
            case Told(request_id, answer) if self._looks.answered(request_id):
                self._settle(lambda: self._standing.told(answer), actions, now)
            case Unanswered(request_id, why, code) if self._looks.answered(request_id):
                if isinstance(look, Ask):
                    self._settle(lambda: self._standing.untold(why, code), actions, now)
                self._looks.next(now, self.settings.backoff_limit_ms)
                actions.append(Note("warning", f"{self._name()} cannot look up its topics: {why}"))
            case Tick() if self._poll_at_ms is not None and now.mono_ms >= self._poll_at_ms:
                self._go_stale(actions)
            case Tick() if self._follows_up and now.mono_ms >= self._follow_up_at_ms:
                self._standing.follow_up_now()
        self._rejoin_if_ready(actions)
        self._look_if_due(actions, now)
        self._send_if_due(actions, now)
        return actions

    # the owner

    def _subscribe(self, topics: tuple[str, ...], now: Instant) -> None:
        self._standing.topics = tuple(sorted(dict.fromkeys(topics)))
        self._rearm_poll(now)
        if self.state is State.UNSUBSCRIBED:
            self._join(now)
        elif self.state in IN_A_GENERATION:
            self._standing.rejoin_if_told_otherwise()

    def _adopt(self, life: int, adopted: Assignment) -> None:
        """The word of an earlier life changes nothing, nor of a member that is no longer in the group."""
        if life == self._standing.life and self.state in (State.JOINING, *IN_A_GENERATION):
            changed = self._standing.holding.adopt(adopted)
            if changed and self.state in IN_A_GENERATION:
                self._standing.rejoin_if_told_otherwise()
                self._enter(self._standing.state)

    def _polled(self, now: Instant) -> None:
        self._rearm_poll(now)
        if self.state is State.STALE:
            self._join(now)

    def _leave(self, actions: list[Action], for_good: bool) -> None:
        self._goes_stale, self._poll_at_ms = False, None
        if self.state is not State.LEAVING:
            self._go(actions, for_good)

    def _go_stale(self, actions: list[Action]) -> None:
        self._poll_at_ms = None
        if self.state in SILENT or self.state is State.LEAVING:
            return
        limit = self.settings.poll_limit_ms
        actions.append(Note("warning", f"{self._name()} leaves: its owner did not come back within {limit} ms"))
        actions.append(self._lost())
        self._standing.holding, self._goes_stale = Holding(), True
        self._go(actions)

    def _go(self, actions: list[Action], for_good: bool = False) -> None:
        """Goodbye is said if the coordinator knows the member, and a static one does not keep its place."""
        nothing_to_say = not self._member_id or (self.settings.instance_id is not None and not for_good)
        if nothing_to_say or not self._coordinator_known:
            self._end(actions, heard=nothing_to_say)
        else:
            self._enter(State.LEAVING)

    # the coordinator

    def _answered(self, request: Request, response: Response, actions: list[Action], now: Instant) -> None:
        if self.state is State.LEAVING:
            if isinstance(request, LeaveGroupRequest) and isinstance(response, LeaveGroupResponse):
                codes = [response.error_code, *(member.error_code for member in response.members)]
                self._end(actions, heard=not any(codes))
            return
        api = type(request).__name__.removesuffix("Request")
        code = Code.of(response.error_code)
        meant = reaction(api, code)
        if meant is Reaction.ACCEPT:
            self._accepted(response, actions, now)
        elif meant is Reaction.FOLLOW:
            self._follow(request, code, actions, now)
        elif meant is Reaction.TAKE_ID and isinstance(response, JoinGroupResponse):
            if self._member_id:  # which it sent: no broker should ask for another
                self._retry(request, now)
            self._member_id = response.member_id
        elif meant in (Reaction.REJOIN, Reaction.RENEW):
            self._fenced(code, meant is Reaction.REJOIN, actions, now)
        elif meant is Reaction.SEEK:
            self._coordinator_known = False
            self._retry(request, now, free=1)
        elif meant is Reaction.RETRY or (meant is Reaction.WAIT and self._pauses.may_wait(now)):
            actions.append(Note("warning", f"{api} of {self._name()}: {code.name}: {code.sentence}"))
            self._retry(request, now)
        else:
            self._member_id = ""
            self._fail(code, why_refused(self.settings, code), actions)

    def _accepted(self, response: Response, actions: list[Action], now: Instant) -> None:
        silent_ms = now.mono_ms - self._vouched_ms
        self._heard(now)
        if isinstance(response, JoinGroupResponse):
            if self._standing.may_be_forgotten(response, silent_ms):
                self._fenced(Code.UNKNOWN_MEMBER_ID, True, actions, now)
            else:
                self._joined(response, actions, now)
            return
        self._pauses.over()
        if isinstance(response, SyncGroupResponse) and self.state is State.SYNCING:
            self._synced(response, actions, now)

    def _heard(self, now: Instant) -> None:
        """The coordinator takes the member for one, and did when it had the request."""
        self._last_accepted_ms, self._vouched_ms = now.mono_ms, self._sent_ms

    def _follow(self, request: Request, code: Code, actions: list[Action], now: Instant) -> None:
        """The member joins the next generation with all that it holds."""
        self._heard(now)
        if isinstance(request, HeartbeatRequest):
            self._pauses.over()
            self._standing.rejoins = self._standing.rejoins or "the group rebalances"
        else:
            self._retry(request, now, free=1)

    def _retry(self, request: Request, now: Instant, free: int = 0) -> None:
        """The request is made again after a pause; SyncGroup is not, as the member may have been given up meanwhile: it rejoins."""
        self._pauses.after(now, free)
        self._beat_at_ms = now.mono_ms
        if isinstance(request, SyncGroupRequest) and self.state is State.SYNCING:
            self._enter(State.JOINING)

    def _unanswered(self, flight: FindCoordinator | Send, why: str, code: Code, actions: list[Action], now: Instant) -> None:
        if self.state is State.LEAVING:
            self._end(actions, heard=False)
        elif reaction("FindCoordinator", code) is Reaction.RAISE:
            self._fail(code, why, actions)
        else:
            self._coordinator_known = False
            actions.append(Note("warning", f"no answer for {self._name()}: {why}"))
            if isinstance(flight, Send):
                self._retry(flight.request, now)
            else:
                self._pauses.after(now)

    def _fenced(self, code: Code, keeps_id: bool, actions: list[Action], now: Instant) -> None:
        number = self._standing.generation.number
        actions.append(Note("warning", f"{self._name()} lost its place in generation {number}: {code.name}"))
        actions.append(self._lost())
        if not keeps_id:
            self._member_id = ""
        self._join(now)
        if number == NO_GENERATION:
            self._pauses.after(now)

    # a generation

    def _joined(self, answer: JoinGroupResponse, actions: list[Action], now: Instant) -> None:
        self._member_id = answer.member_id
        self._beat_at_ms = now.mono_ms + self.settings.heartbeat_interval_ms
        self._enter(State.SYNCING)
        self._settle(lambda: self._standing.joined(answer), actions, now)
        self._pauses.none(now)

    def _synced(self, answer: SyncGroupResponse, actions: list[Action], now: Instant) -> None:
        self._settle(lambda: self._standing.synced(answer), actions, now)
        if self.state is State.SYNCING and (why := self._standing.rejoins) and self._standing.may_sync:
            actions.append(Note("warning", f"{self._name()} joins again: {why}"))
            self._pauses.after(now, free=1)
            self._enter(State.JOINING)

    def _learn(self, look: LookUp | Ask, seen: tuple[SeenTopic, ...], actions: list[Action], now: Instant) -> None:
        names = look.names if isinstance(look, LookUp) else tuple(topic.name for topic in seen)
        if self.state not in IN_A_GENERATION:  # asked in a generation that the member has left to join the next
            self._atlas.learn(names, seen)
            return
        self._settle(lambda: self._standing.learn(names, seen), actions, now)

    def _settle(self, change: Callable[[], Sequence[Action]], actions: list[Action], now: Instant) -> None:
        """The change is made, and it is known when to look again and when to join again."""
        self._do(change, actions)
        self._looks.next(now, self._standing.look_wait_ms)
        if (follow_up := self._standing.follow_up) is not None:
            self._follow_up_at_ms = now.mono_ms + max(0, follow_up.at_ms - now.wall_ms)

    def _do(self, change: Callable[[], Sequence[Action]], actions: list[Action]) -> None:
        """The change is made and the state follows it; if the member cannot go on with it, it has failed."""
        try:
            actions += change()
        except Refused as refused:
            self._fail(refused.code, refused.why, actions)
        if self.state in IN_A_GENERATION:
            self._enter(self._standing.state)

    def _rejoin_if_ready(self, actions: list[Action]) -> None:
        """If a new generation is wanted, the member joins once its owner is free of what cannot be kept on the way."""
        if self._standing.rejoins is not None and self.state in (State.RECONCILING, State.STABLE):
            self._do(self._standing.make_ready, actions)
            if self.state in IN_A_GENERATION and self._standing.is_ready:
                self._enter(State.JOINING)

    def _name(self) -> str:
        return f"member {self._member_id or self.settings.instance_id or 'without an id'}"

    def _enter(self, state: State) -> None:
        assert state is self.state or state in NEXT[self.state], (self.state, state)
        self.state = state

    def _join(self, now: Instant) -> None:
        self._enter(State.JOINING)
        self._begin_life(1)
        self._error = None
        self._pauses.none(now)

    def _begin_life(self, number: int) -> None:
        """Nothing is left of what the member was; 0 for a number: it is none for now, and the life is not counted."""
        old = self._standing
        self._standing = Standing(self.settings, self._atlas, old.life + number, old.topics, farewell=old.farewell)

    def _lost(self) -> Lost:
        return Lost(self._standing.life, self._standing.holding.owned)

    def _end(self, actions: list[Action], *, heard: bool) -> None:
        if self.state is not State.UNSUBSCRIBED:
            self._enter(State.STALE if self._goes_stale else State.UNSUBSCRIBED)
        self._begin_life(0)
        self._member_id, self._flight, self._looks = "", None, Looks()
        if not self._goes_stale:
            actions.append(Left(heard))

    def _fail(self, code: Code, why: str, actions: list[Action]) -> None:
        self._error = f"{code.name}: {why}"
        self._poll_at_ms = None
        actions += [self._lost(), Failed(code, why)]
        self._enter(State.FATAL)
        self._begin_life(0)

    def _rearm_poll(self, now: Instant) -> None:
        limit = self.settings.poll_limit_ms
        self._poll_at_ms = None if limit is None or self.state is State.FATAL else now.mono_ms + limit

    @property
    def _may_look(self) -> bool:
        return self._looks.under_way is None and self.state in IN_A_GENERATION and self._standing.wonders

    @property
    def _follows_up(self) -> bool:
        return self._standing.follow_up is not None and self.state in (State.RECONCILING, State.STABLE)

    def _look_if_due(self, actions: list[Action], now: Instant) -> None:
        if self._may_look and now.mono_ms >= self._looks.at_ms:
            self._requests += 1
            actions.append(self._looks.ask(self._requests, self._standing.watched(), self._standing.question))

    def _due_at(self) -> int:
        at_once = self.state is State.JOINING or (self.state is State.SYNCING and self._standing.may_sync)
        return self._pauses.not_before_ms if at_once else max(self._beat_at_ms, self._pauses.not_before_ms)

    def _send_if_due(self, actions: list[Action], now: Instant) -> None:
        leaving = self.state is State.LEAVING
        if self.state in SILENT or (not leaving and (self._flight is not None or now.mono_ms < self._due_at())):
            return
        if leaving and isinstance(self._flight, Send) and isinstance(self._flight.request, LeaveGroupRequest):
            return
        self._requests += 1
        if not self._coordinator_known:
            self._flight = FindCoordinator(self._requests, self.settings.group_id)
        else:
            try:
                request = self._standing.request(self.state, self._member_id)
            except Refused as refused:
                self._fail(refused.code, refused.why, actions)
                self._send_if_due(actions, now)  # a goodbye, if anything
                return
            self._sent_ms, self._beat_at_ms = now.mono_ms, now.mono_ms + self.settings.heartbeat_interval_ms
            parks = isinstance(request, JoinGroupRequest | SyncGroupRequest)
            self._flight = Send(self._requests, request, self.settings.parked_ms if parks else self.settings.request_timeout_ms)
        actions.append(self._flight)
