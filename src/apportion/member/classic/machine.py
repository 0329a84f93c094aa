"""A member of a classic group: JoinGroup to LeaveGroup, eager or cooperative, leader or follower.

It has the events, actions and `View` of the KIP-848 member, with the generation as the epoch.
Before it rejoins it revokes what may not be kept meanwhile: everything under the eager protocol,
unsubscribed topics under the cooperative one (KIP-429). A partition that the owner has let go of is
free for others with the next JoinGroup, which claims the rest. The states are in `states.py`,
assigning in `leader.py`. The machine knows no positions, offsets or sockets.
"""

from collections.abc import Callable, Sequence

from apportion.errors import Code, Refused
from apportion.machine import Instant, Note, Tick
from apportion.member.backoff import Backoff
from apportion.member.classic.generation import GenerationState
from apportion.member.classic.metadata import MetadataRefresh, TopicMetadataCache
from apportion.member.classic.ownership import OwnedPartitions
from apportion.member.classic.requests import NO_GENERATION, ClassicSettings, failure_text
from apportion.member.classic.states import IN_A_GENERATION, NEXT, SILENT
from apportion.member.membership import (
    Action,
    Adopted,
    Answered,
    Assignment,
    CoordinatorFound,
    Event,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MemberRequest,
    MemberResponse,
    MembershipState,
    MetadataFetched,
    Polled,
    QueryAnswered,
    QueryCluster,
    Rejoin,
    SendToCoordinator,
    Subscribe,
    TopicDescription,
    Unanswered,
    View,
)
from apportion.member.reactions import Reaction, reaction
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMember:
    """One member of one classic group. Raises ValueError if its assignors do not go together."""

    def __init__(self, settings: ClassicSettings) -> None:
        self.settings = settings
        self.state = MembershipState.UNSUBSCRIBED
        self._member_id = ""
        self._metadata = TopicMetadataCache()
        self._generation = GenerationState(settings, self._metadata, 0, ())
        self._error: Failed | None = None
        self._coordinator_known = False
        self._in_flight: FindCoordinator | SendToCoordinator | None = None
        self._last_request_id = 0
        self._backoff = Backoff(
            settings.backoff_ms, settings.backoff_limit_ms, settings.wait_limit_ms
        )
        self._refresh = MetadataRefresh()
        self._heartbeat_at_ms = self._follow_up_at_ms = 0
        self._poll_deadline_ms: int | None = None
        self._becomes_stale = False
        self._last_accepted_ms: int | None = None
        # when the last request went out, and the last one that was accepted
        self._sent_ms = self._confirmed_ms = 0

    def view(self) -> View:
        """Return a snapshot of the member; its epoch is the generation, -1 without one."""
        return self._generation.view(
            self._member_id, self.state, self._last_accepted_ms, self._error
        )

    def wake_at(self) -> int | None:
        """Return when the member next needs a Tick; None while it waits for others."""
        times = [] if self._poll_deadline_ms is None else [self._poll_deadline_ms]
        if self._in_flight is None and self.state not in SILENT:
            times.append(self._due_at())
        if self._may_refresh:
            times.append(self._refresh.not_before_ms)
        if self._has_follow_up:
            times.append(self._follow_up_at_ms)
        return min(times, default=None)

    def step(self, event: Event, now: Instant) -> list[Action]:
        """Return the actions that `event` causes, in order."""
        actions: list[Action] = []
        flight, look = self._in_flight, self._refresh.in_flight
        match event:
            case Subscribe(topics):
                self._subscribe(topics, now)
            case Adopted(incarnation, adopted):
                self._adopt(incarnation, adopted)
            case Polled():
                self._polled(now)
            case Leave(for_good):
                self._leave(actions, for_good)
            case Rejoin(why):
                self._generation.rejoin_reason = why
            case CoordinatorFound(request_id) if (
                flight is not None and request_id == flight.request_id
            ):
                self._in_flight, self._coordinator_known = None, True
            case Answered(request_id, response) if (
                isinstance(flight, SendToCoordinator) and request_id == flight.request_id
            ):
                self._in_flight = None
                self._answered(flight.request, response, actions, now)
            case Unanswered(request_id, why, code) if (
                flight is not None and request_id == flight.request_id
            ):
                self._in_flight = None
                self._unanswered(flight, why, code, actions, now)
            case MetadataFetched(request_id, seen) if (
                look is not None and self._refresh.take_answer(request_id)
            ):
                self._apply_metadata(look, seen, actions, now)
            case QueryAnswered(request_id, answer) if self._refresh.take_answer(request_id):
                self._apply(lambda: self._generation.apply_query_answer(answer), actions, now)
            case Unanswered(request_id, why, code) if self._refresh.take_answer(request_id):
                if isinstance(look, QueryCluster):
                    self._apply(
                        lambda: self._generation.apply_query_failure(why, code), actions, now
                    )
                self._refresh.schedule(now, self.settings.backoff_limit_ms)
                actions.append(Note("warning", f"{self._label()} cannot look up its topics: {why}"))
            case Tick() if (
                self._poll_deadline_ms is not None and now.mono_ms >= self._poll_deadline_ms
            ):
                self._leave_as_stale(actions)
            case Tick() if self._has_follow_up and now.mono_ms >= self._follow_up_at_ms:
                self._generation.rejoin_for_follow_up()
        self._rejoin_if_possible(actions)
        self._refresh_if_due(actions, now)
        self._send_if_due(actions, now)
        return actions

    # the owner

    def _subscribe(self, topics: tuple[str, ...], now: Instant) -> None:
        self._generation.topics = tuple(sorted(dict.fromkeys(topics)))
        self._rearm_poll(now)
        if self.state is MembershipState.UNSUBSCRIBED:
            self._join(now)
        elif self.state in IN_A_GENERATION:
            self._generation.rejoin_if_outdated()

    def _adopt(self, incarnation: int, adopted: Assignment) -> None:
        if incarnation == self._generation.incarnation and self.state in (
            MembershipState.JOINING,
            *IN_A_GENERATION,
        ):
            changed = self._generation.ownership.adopt(adopted)
            if changed and self.state in IN_A_GENERATION:
                self._generation.rejoin_if_outdated()
                self._enter(self._generation.state)

    def _polled(self, now: Instant) -> None:
        self._rearm_poll(now)
        if self.state is MembershipState.STALE:
            self._join(now)

    def _leave(self, actions: list[Action], for_good: bool) -> None:
        self._becomes_stale, self._poll_deadline_ms = False, None
        if self.state is not MembershipState.LEAVING:
            self._start_leaving(actions, for_good)

    def _leave_as_stale(self, actions: list[Action]) -> None:
        self._poll_deadline_ms = None
        if self.state in SILENT or self.state is MembershipState.LEAVING:
            return
        limit = self.settings.poll_limit_ms
        actions.append(
            Note(
                "warning", f"{self._label()} leaves: its owner did not come back within {limit} ms"
            )
        )
        actions.append(self._lost())
        self._generation.ownership, self._becomes_stale = OwnedPartitions(), True
        self._start_leaving(actions)

    def _start_leaving(self, actions: list[Action], for_good: bool = False) -> None:
        """Send LeaveGroup if the coordinator knows the member; a static one keeps its place."""
        nothing_to_say = not self._member_id or (
            self.settings.instance_id is not None and not for_good
        )
        if nothing_to_say or not self._coordinator_known:
            self._finish_leaving(actions, heard=nothing_to_say)
        else:
            self._enter(MembershipState.LEAVING)

    # the coordinator

    def _answered(
        self, request: MemberRequest, response: MemberResponse, actions: list[Action], now: Instant
    ) -> None:
        if self.state is MembershipState.LEAVING:
            if isinstance(request, LeaveGroupRequest) and isinstance(response, LeaveGroupResponse):
                codes = [response.error_code, *(member.error_code for member in response.members)]
                self._finish_leaving(actions, heard=not any(codes))
            return
        api = type(request).__name__.removesuffix("Request")
        code = Code.of(response.error_code)
        meant = reaction(api, code)
        if meant is Reaction.ACCEPT:
            self._accepted(response, actions, now)
        elif meant is Reaction.REJOIN_KEEPING:
            self._rejoin_next_generation(request, code, actions, now)
        elif meant is Reaction.RETRY_WITH_MEMBER_ID and isinstance(response, JoinGroupResponse):
            if self._member_id:  # which it sent: no broker should ask for another
                self._retry(request, now)
            self._member_id = response.member_id
        elif meant in (Reaction.REJOIN, Reaction.REJOIN_AS_NEW):
            self._lose_membership(code, meant is Reaction.REJOIN, actions, now)
        elif meant is Reaction.FIND_COORDINATOR:
            self._coordinator_known = False
            self._retry(request, now, free=1)
        elif meant is Reaction.RETRY or (
            meant is Reaction.RETRY_FOR_A_TIME and self._backoff.may_keep_waiting(now)
        ):
            actions.append(
                Note("warning", f"{api} of {self._label()}: {code.name}: {code.sentence}")
            )
            self._retry(request, now)
        else:
            self._member_id = ""
            self._fail(code, failure_text(self.settings, code), actions)

    def _accepted(self, response: MemberResponse, actions: list[Action], now: Instant) -> None:
        silent_ms = now.mono_ms - self._confirmed_ms
        self._record_contact(now)
        if isinstance(response, JoinGroupResponse):
            if self._generation.may_have_been_removed(response, silent_ms):
                self._lose_membership(Code.UNKNOWN_MEMBER_ID, True, actions, now)
            else:
                self._joined(response, actions, now)
            return
        self._backoff.record_success()
        if isinstance(response, SyncGroupResponse) and self.state is MembershipState.SYNCING:
            self._synced(response, actions, now)

    def _record_contact(self, now: Instant) -> None:
        self._last_accepted_ms, self._confirmed_ms = now.mono_ms, self._sent_ms

    def _rejoin_next_generation(
        self, request: MemberRequest, code: Code, actions: list[Action], now: Instant
    ) -> None:
        self._record_contact(now)
        if isinstance(request, HeartbeatRequest):
            self._backoff.record_success()
            self._generation.rejoin_reason = (
                self._generation.rejoin_reason or "the group rebalances"
            )
        else:
            self._retry(request, now, free=1)

    def _retry(self, request: MemberRequest, now: Instant, free: int = 0) -> None:
        """Send the request again after a backoff.

        SyncGroup is not sent again, as the member may have been removed meanwhile: it rejoins.
        """
        self._backoff.record_failure(now, free)
        self._heartbeat_at_ms = now.mono_ms
        if isinstance(request, SyncGroupRequest) and self.state is MembershipState.SYNCING:
            self._enter(MembershipState.JOINING)

    def _unanswered(
        self,
        flight: FindCoordinator | SendToCoordinator,
        why: str,
        code: Code,
        actions: list[Action],
        now: Instant,
    ) -> None:
        if self.state is MembershipState.LEAVING:
            self._finish_leaving(actions, heard=False)
        elif reaction("FindCoordinator", code) is Reaction.RAISE:
            self._fail(code, why, actions)
        else:
            self._coordinator_known = False
            actions.append(Note("warning", f"no answer for {self._label()}: {why}"))
            if isinstance(flight, SendToCoordinator):
                self._retry(flight.request, now)
            else:
                self._backoff.record_failure(now)

    def _lose_membership(
        self, code: Code, keeps_id: bool, actions: list[Action], now: Instant
    ) -> None:
        number = self._generation.generation.number
        actions.append(
            Note("warning", f"{self._label()} lost its place in generation {number}: {code.name}")
        )
        actions.append(self._lost())
        if not keeps_id:
            self._member_id = ""
        self._join(now)
        if number == NO_GENERATION:
            self._backoff.record_failure(now)

    # a generation

    def _joined(self, answer: JoinGroupResponse, actions: list[Action], now: Instant) -> None:
        self._member_id = answer.member_id
        self._heartbeat_at_ms = now.mono_ms + self.settings.heartbeat_interval_ms
        self._enter(MembershipState.SYNCING)
        self._apply(lambda: self._generation.apply_join(answer), actions, now)
        self._backoff.reset_delay(now)

    def _synced(self, answer: SyncGroupResponse, actions: list[Action], now: Instant) -> None:
        self._apply(lambda: self._generation.apply_sync(answer), actions, now)
        if (
            self.state is MembershipState.SYNCING
            and (why := self._generation.rejoin_reason)
            and self._generation.may_sync
        ):
            actions.append(Note("warning", f"{self._label()} joins again: {why}"))
            self._backoff.record_failure(now, free=1)
            self._enter(MembershipState.JOINING)

    def _apply_metadata(
        self,
        look: FetchMetadata | QueryCluster,
        seen: tuple[TopicDescription, ...],
        actions: list[Action],
        now: Instant,
    ) -> None:
        names = (
            look.names if isinstance(look, FetchMetadata) else tuple(topic.name for topic in seen)
        )
        # asked in a generation that the member has left to join the next
        if self.state not in IN_A_GENERATION:
            self._metadata.replace_topics(names, seen)
            return
        self._apply(lambda: self._generation.apply_metadata(names, seen), actions, now)

    def _apply(
        self, change: Callable[[], Sequence[Action]], actions: list[Action], now: Instant
    ) -> None:
        """Apply a change to the generation, and set when to look at topics and when to rejoin."""
        self._change_generation(change, actions)
        self._refresh.schedule(now, self._generation.metadata_delay_ms)
        if (follow_up := self._generation.follow_up) is not None:
            self._follow_up_at_ms = now.mono_ms + max(0, follow_up.at_ms - now.wall_ms)

    def _change_generation(
        self, change: Callable[[], Sequence[Action]], actions: list[Action]
    ) -> None:
        """Apply a change; fail if it raises Refused, else follow the state that results."""
        try:
            actions += change()
        except Refused as refused:
            self._fail(refused.code, refused.why, actions)
        if self.state in IN_A_GENERATION:
            self._enter(self._generation.state)

    def _rejoin_if_possible(self, actions: list[Action]) -> None:
        """Rejoin if needed, once the owner uses nothing that it may not keep meanwhile."""
        if self._generation.rejoin_reason is not None and self.state in (
            MembershipState.RECONCILING,
            MembershipState.STABLE,
        ):
            self._change_generation(self._generation.revoke_before_rejoin, actions)
            if self.state in IN_A_GENERATION and self._generation.may_rejoin:
                self._enter(MembershipState.JOINING)

    def _label(self) -> str:
        return f"member {self._member_id or self.settings.instance_id or 'without an id'}"

    def _enter(self, state: MembershipState) -> None:
        assert state is self.state or state in NEXT[self.state], (self.state, state)
        self.state = state

    def _join(self, now: Instant) -> None:
        self._enter(MembershipState.JOINING)
        self._reset_generation(1)
        self._error = None
        self._backoff.reset_delay(now)

    def _reset_generation(self, number: int) -> None:
        """Begin an incarnation with an empty state; number 0: the member is in no group now."""
        old = self._generation
        self._generation = GenerationState(
            self.settings,
            self._metadata,
            old.incarnation + number,
            old.topics,
            farewell=old.farewell,
        )

    def _lost(self) -> Lost:
        return Lost(self._generation.incarnation, self._generation.ownership.owned)

    def _finish_leaving(self, actions: list[Action], *, heard: bool) -> None:
        if self.state is not MembershipState.UNSUBSCRIBED:
            self._enter(
                MembershipState.STALE if self._becomes_stale else MembershipState.UNSUBSCRIBED
            )
        self._reset_generation(0)
        self._member_id, self._in_flight, self._refresh = "", None, MetadataRefresh()
        if not self._becomes_stale:
            actions.append(Left(heard))

    def _fail(self, code: Code, why: str, actions: list[Action]) -> None:
        self._error = Failed(code, why)
        self._poll_deadline_ms = None
        actions += [self._lost(), self._error]
        self._enter(MembershipState.FATAL)
        self._reset_generation(0)

    def _rearm_poll(self, now: Instant) -> None:
        limit = self.settings.poll_limit_ms
        self._poll_deadline_ms = (
            None if limit is None or self.state is MembershipState.FATAL else now.mono_ms + limit
        )

    @property
    def _may_refresh(self) -> bool:
        return (
            self._refresh.in_flight is None
            and self.state in IN_A_GENERATION
            and self._generation.has_query
        )

    @property
    def _has_follow_up(self) -> bool:
        return self._generation.follow_up is not None and self.state in (
            MembershipState.RECONCILING,
            MembershipState.STABLE,
        )

    def _refresh_if_due(self, actions: list[Action], now: Instant) -> None:
        if self._may_refresh and now.mono_ms >= self._refresh.not_before_ms:
            self._last_request_id += 1
            actions.append(
                self._refresh.start(
                    self._last_request_id,
                    self._generation.watched_topics(),
                    self._generation.pending_query,
                )
            )

    def _due_at(self) -> int:
        at_once = self.state is MembershipState.JOINING or (
            self.state is MembershipState.SYNCING and self._generation.may_sync
        )
        return (
            self._backoff.not_before_ms
            if at_once
            else max(self._heartbeat_at_ms, self._backoff.not_before_ms)
        )

    def _send_if_due(self, actions: list[Action], now: Instant) -> None:
        leaving = self.state is MembershipState.LEAVING
        if self.state in SILENT or (
            not leaving and (self._in_flight is not None or now.mono_ms < self._due_at())
        ):
            return
        if (
            leaving
            and isinstance(self._in_flight, SendToCoordinator)
            and isinstance(self._in_flight.request, LeaveGroupRequest)
        ):
            return
        self._last_request_id += 1
        if not self._coordinator_known:
            self._in_flight = FindCoordinator(self._last_request_id, self.settings.group_id)
        else:
            try:
                request = self._generation.build_request(self.state, self._member_id)
            except Refused as refused:
                self._fail(refused.code, refused.why, actions)
                self._send_if_due(actions, now)  # a goodbye, if anything
                return
            self._sent_ms, self._heartbeat_at_ms = (
                now.mono_ms,
                now.mono_ms + self.settings.heartbeat_interval_ms,
            )
            parks = isinstance(request, JoinGroupRequest | SyncGroupRequest)
            self._in_flight = SendToCoordinator(
                self._last_request_id,
                request,
                self.settings.join_timeout_ms if parks else self.settings.request_timeout_ms,
            )
        actions.append(self._in_flight)
