"""A member of a classic group: JoinGroup to LeaveGroup, eager or cooperative, leader or follower.

A classic member has the events, actions and `View` of the KIP-848 member, with the generation as
the epoch. Before it rejoins it revokes what may not be kept meanwhile: everything under the eager
protocol, unsubscribed topics under the cooperative one (KIP-429). A partition that the owner
stopped using is free for others with the next JoinGroup, which claims the rest. The states are in
`states.py`, what the responses change in `incarnation.py`. The machine knows no positions, offsets
or sockets.
"""

from collections.abc import Callable, Sequence

from apportion.errors import Code, Refused
from apportion.machine import Instant, Note, Tick
from apportion.member.classic.contact import CoordinatorContact
from apportion.member.classic.generation import NO_GENERATION
from apportion.member.classic.incarnation import Incarnation
from apportion.member.classic.metadata import MetadataRefresh, TopicMetadataCache
from apportion.member.classic.ownership import OwnedPartitions
from apportion.member.classic.requests import ClassicSettings, failure_text
from apportion.member.classic.states import IN_A_GENERATION, NEXT, WITH_ASSIGNMENT
from apportion.member.machine import MemberMachine
from apportion.member.membership import (
    Action,
    Event,
    FetchMetadata,
    Lost,
    MemberAssignment,
    MembershipRequest,
    MembershipResponse,
    MembershipState,
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    Rejoin,
    SendToCoordinator,
    TopicDescription,
    Unanswered,
    View,
)
from apportion.member.reactions import Reaction, reaction
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMember(MemberMachine[ClassicSettings]):
    """One member of one classic group. Raises ValueError if its assignors do not go together."""

    transitions = NEXT
    # It may wait for its JoinGroup response, fetch metadata and send LeaveGroup at the same time.
    concurrent_calls = 3

    def __init__(self, settings: ClassicSettings) -> None:
        super().__init__(settings)
        self._member_id = ""
        self._metadata = TopicMetadataCache()
        self._incarnation = Incarnation(settings, self._metadata, 0, ())
        self._refresh = MetadataRefresh()
        self._follow_up_at_ms = 0
        self._contact = CoordinatorContact(settings)

    def view(self) -> View:
        """Return a snapshot of the member; its epoch is the generation, -1 without one."""
        incarnation = self._incarnation
        return View(
            self._member_id,
            incarnation.generation.number,
            self.state,
            incarnation.number,
            incarnation.ownership.target,
            incarnation.ownership.owned,
            self._contact.accepted_ms,
            self._error,
        )

    def _wake_times(self) -> list[int]:
        times = super()._wake_times()
        if self._may_refresh():
            times.append(self._refresh.not_before_ms)
        if self._has_follow_up():
            times.append(self._follow_up_at_ms)
        return times

    def _apply_event(self, event: Event, actions: list[Action], now: Instant) -> None:
        lookup = self._refresh.in_flight
        match event:
            case Rejoin(why):
                self._incarnation.rejoin_reason = why
            case MetadataFetched(request_id, topics) if (
                lookup is not None and self._refresh.take_answer(request_id)
            ):
                self._apply_metadata(lookup, topics, actions, now)
            case QueryAnswered(request_id, answer) if self._refresh.take_answer(request_id):
                self._apply(lambda: self._incarnation.apply_query_answer(answer), actions, now)
            case Unanswered(request_id, why, code) if self._refresh.take_answer(request_id):
                if isinstance(lookup, QueryCluster):
                    self._apply(
                        lambda: self._incarnation.apply_query_failure(why, code), actions, now
                    )
                self._refresh.schedule(now, self.settings.backoff_limit_ms)
                actions.append(Note("warning", f"{self._label()} cannot look up its topics: {why}"))
            case _:
                super()._apply_event(event, actions, now)
        if isinstance(event, Tick) and self._is_follow_up_due(now):
            self._incarnation.rejoin_for_follow_up()
        # In this order: a rejoin makes a metadata request pointless, and a request is built last.
        self._rejoin_if_possible(actions)
        self._refresh_if_due(actions, now)

    # the owner

    def _subscribe(self, topics: tuple[str, ...], now: Instant) -> None:
        self._incarnation.topics = topics
        self._restart_poll_timer(now)
        if self.state is MembershipState.UNSUBSCRIBED:
            self._join(now)
        elif self.state in IN_A_GENERATION:
            self._incarnation.rejoin_if_outdated()

    def _adopt(self, incarnation: int, adopted: MemberAssignment) -> None:
        # While it is joining, too: under KIP-429 the owner uses what it keeps all the time.
        if incarnation == self._incarnation.number and self.state in (
            MembershipState.JOINING,
            *IN_A_GENERATION,
        ):
            changed = self._incarnation.ownership.adopt(adopted)
            if changed and self.state in IN_A_GENERATION:
                self._incarnation.rejoin_if_outdated()
                self._enter(self._incarnation.state)

    def _leave(self, actions: list[Action], for_good: bool) -> None:
        # KIP-345: a static member sends no LeaveGroup, so it keeps its partitions until its
        # session expires. Without a member id the coordinator does not know the member.
        is_silent = not self._member_id or (self.settings.instance_id is not None and not for_good)
        # Looking up a coordinator to leave at would delay the close; the session timeout does the
        # same work.
        if is_silent or not self._link.is_known:
            self._finish_leaving(actions, is_confirmed=is_silent)
        else:
            self._enter(MembershipState.LEAVING)

    def _send_stale_leave(self, actions: list[Action]) -> None:
        self._leave(actions, for_good=False)

    # the coordinator

    def _apply_response(
        self,
        request: MembershipRequest,
        response: MembershipResponse,
        actions: list[Action],
        now: Instant,
    ) -> None:
        if self.state is MembershipState.LEAVING:
            if isinstance(request, LeaveGroupRequest) and isinstance(response, LeaveGroupResponse):
                codes = [response.error_code, *(member.error_code for member in response.members)]
                self._finish_leaving(actions, is_confirmed=not any(codes))
            return
        code = Code.of(response.error_code)
        on_error = reaction(api_name(request), code)
        if on_error is Reaction.ACCEPT:
            self._accept(response, actions, now)
        elif on_error is Reaction.REJOIN_KEEPING:
            self._rejoin_next_generation(request, now)
        elif on_error is Reaction.RETRY_WITH_MEMBER_ID and isinstance(response, JoinGroupResponse):
            # KIP-394: the first JoinGroup is refused with an id, and repeated with it at once.
            if self._member_id:  # which it sent: no broker should require another one
                self._retry(request, now)
            self._member_id = response.member_id
        elif on_error in (Reaction.REJOIN, Reaction.REJOIN_AS_NEW):
            self._lose_membership(code, on_error is Reaction.REJOIN, actions, now)
        else:
            self._apply_error(request, code, code.sentence, on_error, actions, now)

    def _name_request(self, request: MembershipRequest) -> str:
        return f"{api_name(request)} of {self._label()}"

    def _fail_by_response(self, code: Code, why: str, actions: list[Action]) -> None:  # noqa: ARG002 (the classic protocol's errors come without a sentence)
        self._member_id = ""
        self._fail(code, failure_text(self.settings, code), actions)

    def _accept(self, response: MembershipResponse, actions: list[Action], now: Instant) -> None:
        """Apply the response to a classic member's request, which has no error."""
        may_have_been_removed = self._contact.may_have_been_removed(now.mono_ms)
        self._contact.record(now.mono_ms, self._link.sent_at_ms, is_settled=True)
        if isinstance(response, JoinGroupResponse):
            # A group under the consumer protocol (KIP-848) names no leader, and admits a member
            # that it has removed as a new member with the same id. Checked before the response is
            # applied, or the owner would be offered partitions beside those that others may have
            # taken over.
            had_generation = self._incarnation.generation.number != NO_GENERATION
            if had_generation and not response.leader and may_have_been_removed:
                self._lose_membership(Code.UNKNOWN_MEMBER_ID, True, actions, now)
            else:
                self._apply_join(response, actions, now)
            return
        self._link.backoff.record_success()
        # A SyncGroup response that arrives after the state was left belongs to an older generation.
        if isinstance(response, SyncGroupResponse) and self.state is MembershipState.SYNCING:
            self._apply_sync(response, actions, now)

    def _rejoin_next_generation(self, request: MembershipRequest, now: Instant) -> None:
        """Rejoin after REBALANCE_IN_PROGRESS, keeping what is owned (KIP-429)."""
        self._contact.record(now.mono_ms, self._link.sent_at_ms, is_settled=False)
        # Kafka acts on this code in a heartbeat only while the member is stable: the join that is
        # due anyway carries the reason.
        if isinstance(request, HeartbeatRequest):
            self._link.backoff.record_success()
            self._incarnation.rejoin_reason = (
                self._incarnation.rejoin_reason or "the group rebalances"
            )
        else:
            self._retry(request, now, free=1)

    def _retry(self, request: MembershipRequest | None, now: Instant, free: int = 0) -> None:
        self._link.backoff.record_failure(now, free)
        if request is not None:
            self._link.heartbeat_at_ms = now.mono_ms
        # SyncGroup is not repeated: the member may have been removed meanwhile. It rejoins.
        if isinstance(request, SyncGroupRequest) and self.state is MembershipState.SYNCING:
            self._enter(MembershipState.JOINING)

    def _lose_membership(
        self, code: Code, keeps_id: bool, actions: list[Action], now: Instant
    ) -> None:
        """Report all that a classic member owns as lost, and join again in a new incarnation.

        keeps_id: join with the same member id (ILLEGAL_GENERATION), not as a new member.
        """
        number = self._incarnation.generation.number
        actions.append(
            Note("warning", f"{self._label()} lost its place in generation {number}: {code.name}")
        )
        # Before the new incarnation begins: the report names the one in which the partitions were
        # owned.
        actions.append(self._lost())
        if not keeps_id:
            self._member_id = ""
        self._join(now)
        if number == NO_GENERATION:
            # Two refused joins in a row must not become a loop without a pause.
            self._link.backoff.record_failure(now)

    # a generation

    def _apply_join(self, response: JoinGroupResponse, actions: list[Action], now: Instant) -> None:
        # The coordinator may have replaced the id of a static member (KIP-345).
        self._member_id = response.member_id
        self._link.heartbeat_at_ms = now.mono_ms + self.settings.heartbeat_interval_ms
        # Before the response is applied: applying it may fail the member, and FATAL must be the
        # last state.
        self._enter(MembershipState.SYNCING)
        self._apply(lambda: self._incarnation.apply_join(response), actions, now)
        self._link.backoff.reset_delay(now)

    def _apply_sync(self, response: SyncGroupResponse, actions: list[Action], now: Instant) -> None:
        self._apply(lambda: self._incarnation.apply_sync(response), actions, now)
        if (
            self.state is MembershipState.SYNCING
            and (why := self._incarnation.rejoin_reason)
            and self._incarnation.generation.may_sync
        ):
            # The assignment was dropped: it has a topic that is no longer subscribed.
            actions.append(Note("warning", f"{self._label()} joins again: {why}"))
            self._link.backoff.record_failure(now, free=1)
            self._enter(MembershipState.JOINING)

    def _apply_metadata(
        self,
        lookup: FetchMetadata | QueryCluster,
        topics: tuple[TopicDescription, ...],
        actions: list[Action],
        now: Instant,
    ) -> None:
        """Apply the topic metadata that `lookup` asked for, to a classic member's incarnation."""
        names = (
            lookup.names
            if isinstance(lookup, FetchMetadata)
            else tuple(topic.name for topic in topics)
        )
        # Asked in a generation that the member has left to join the next: only that one may
        # change what the owner uses.
        if self.state not in IN_A_GENERATION:
            self._metadata.replace_topics(names, topics)
            return
        self._apply(lambda: self._incarnation.apply_metadata(names, topics), actions, now)

    def _apply(
        self, change: Callable[[], Sequence[Action]], actions: list[Action], now: Instant
    ) -> None:
        """Apply a change to the classic member; set its next metadata request and follow-up."""
        self._apply_or_fail(change, actions)
        self._refresh.schedule(now, self._incarnation.metadata_delay_ms)
        if (follow_up := self._incarnation.follow_up) is not None:
            # The assignor names a wall-clock time; deadlines use the monotonic clock.
            self._follow_up_at_ms = now.mono_ms + max(0, follow_up.at_ms - now.wall_ms)

    def _apply_or_fail(self, change: Callable[[], Sequence[Action]], actions: list[Action]) -> None:
        """Apply a change to the classic member; fail if it raises Refused, else enter the state."""
        try:
            actions += change()
        except Refused as refused:
            self._fail(refused.code, refused.why, actions)
        if self.state in IN_A_GENERATION:
            self._enter(self._incarnation.state)

    def _rejoin_if_possible(self, actions: list[Action]) -> None:
        """Join again if there is a reason, once the owner uses nothing that it may not keep."""
        if self._incarnation.rejoin_reason is not None and self.state in WITH_ASSIGNMENT:
            self._apply_or_fail(self._incarnation.revoke_before_rejoin, actions)
            if self.state in IN_A_GENERATION and self._incarnation.may_rejoin:
                self._enter(MembershipState.JOINING)

    # transitions

    def _join(self, now: Instant) -> None:
        self._enter(MembershipState.JOINING)
        self._start_incarnation(self._incarnation.number + 1)
        self._error = None
        self._link.backoff.reset_delay(now)

    def _start_incarnation(self, number: int) -> None:
        """Begin a classic member's next incarnation, with the subscription and a fatal error."""
        old = self._incarnation
        self._incarnation = Incarnation(
            self.settings, self._metadata, number, old.topics, fatal=old.fatal
        )

    def _reset_membership(self) -> None:
        self._start_incarnation(self._incarnation.number)

    def _forget_partitions(self) -> None:
        self._incarnation.ownership = OwnedPartitions()

    def _finish_leaving(self, actions: list[Action], *, is_confirmed: bool) -> None:
        super()._finish_leaving(actions, is_confirmed=is_confirmed)
        self._member_id, self._refresh = "", MetadataRefresh()

    def _lost(self) -> Lost:
        return Lost(self._incarnation.number, self._incarnation.ownership.owned)

    def _label(self) -> str:
        return f"member {self._member_id or self.settings.instance_id or 'without an id'}"

    # requests

    def _may_refresh(self) -> bool:
        """Return whether the next metadata request or assignor's query waits for its time only."""
        incarnation = self._incarnation
        return (
            self._refresh.in_flight is None
            and self.state in IN_A_GENERATION
            and (incarnation.pending_query is not None or bool(incarnation.watched_topics()))
        )

    def _has_follow_up(self) -> bool:
        """Return whether the assignor asked for a rebalance at a later time."""
        return self._incarnation.follow_up is not None and self.state in WITH_ASSIGNMENT

    def _is_follow_up_due(self, now: Instant) -> bool:
        return self._has_follow_up() and now.mono_ms >= self._follow_up_at_ms

    def _refresh_if_due(self, actions: list[Action], now: Instant) -> None:
        if self._may_refresh() and now.mono_ms >= self._refresh.not_before_ms:
            actions.append(
                self._refresh.start(
                    self._link.next_request_id(),
                    self._incarnation.watched_topics(),
                    self._incarnation.pending_query,
                )
            )

    def _sends_at_once(self) -> bool:
        return self.state is MembershipState.JOINING or (
            self.state is MembershipState.SYNCING and self._incarnation.generation.may_sync
        )

    def _heartbeat_interval_ms(self) -> int:
        return self.settings.heartbeat_interval_ms

    def _has_sent_leave(self) -> bool:
        in_flight = self._link.in_flight
        return isinstance(in_flight, SendToCoordinator) and isinstance(
            in_flight.request, LeaveGroupRequest
        )

    def _build_request(self) -> tuple[MembershipRequest, int]:
        request = self._incarnation.build_request(self.state, self._member_id)
        # The coordinator holds both back until all members have joined or synced.
        is_held_back = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        settings = self.settings
        return request, settings.join_timeout_ms if is_held_back else settings.response_timeout_ms


def api_name(request: MembershipRequest) -> str:
    """Return the name of the request's API, such as `JoinGroup`."""
    return type(request).__name__.removesuffix("Request")
