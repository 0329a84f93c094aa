"""A member of a classic group: JoinGroup to LeaveGroup, eager or cooperative, leader or follower.

A classic member has the events, actions and `View` of the KIP-848 member, with the generation as
the epoch. Before it rejoins it revokes what may not be kept meanwhile: everything under the eager
protocol, unsubscribed topics under the cooperative one (KIP-429). A partition that the owner
stopped using is free for others with the next JoinGroup, which claims the rest. The states are in
`states.py`, what the responses change in `incarnation.py`. The machine knows no positions, offsets
or sockets.
"""

from typing import Any

from apportion.errors import Code
from apportion.machine import Tick
from apportion.member.assigning_member import AssigningMember
from apportion.member.classic.generation import NO_GENERATION
from apportion.member.classic.incarnation import Incarnation
from apportion.member.classic.metadata import TopicMetadataCache
from apportion.member.classic.requests import ClassicSettings
from apportion.member.classic.states import IN_A_GENERATION, NEXT, WITH_ASSIGNMENT
from apportion.member.follow_up import FollowUpDeadline
from apportion.member.lookups import FetchedTopics, LookupEvent, Lookups, NeededTopics, answer_of
from apportion.member.membership import (
    Event,
    MembershipRequest,
    MembershipResponse,
    MembershipState,
    MetadataFetched,
    Rejoin,
    Subscribe,
)
from apportion.member.reactions import Reaction
from apportion.member.step import Step
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def has_missed_generation(
    settings: ClassicSettings, generation: int, response: JoinGroupResponse
) -> bool:
    """Return whether a classic group has completed a generation without this static member.

    generation: the member's last one. Also True when only the response to a JoinGroup was lost: the
    member cannot tell the two apart.
    """
    # A classic group keeps a static member that misses a generation (KIP-345). The leader of that
    # one saw this member's last JoinGroup, which does not claim what the member was assigned in
    # return. Kafka's consumer goes on with its partitions instead.
    return settings.instance_id is not None and response.generation_id > generation + 1


class ClassicMember(AssigningMember[ClassicSettings]):
    """One member of one classic group. Raises ValueError if its assignors do not go together."""

    transitions = NEXT
    no_epoch, epoch_words = NO_GENERATION, "in generation"
    admitted_states = IN_A_GENERATION
    lookup_words = "its topics"
    # Not a heartbeat of the generation that it is leaving.
    admitting_requests = (JoinGroupRequest, SyncGroupRequest)
    # It may wait for its JoinGroup response, fetch metadata and send LeaveGroup at the same time.
    concurrent_calls = 3

    def __init__(self, settings: ClassicSettings) -> None:
        super().__init__(settings, interval_ms=settings.heartbeat_interval_ms)
        self._metadata = TopicMetadataCache()
        self._incarnation = Incarnation(settings, self._metadata, self._ownership, ())

    def _apply_event(self, step: Step, event: Event) -> None:
        super()._apply_event(step, event)
        match event:
            case Subscribe():
                self._incarnation.topics = self._topics
                if self.state in IN_A_GENERATION:
                    self._incarnation.rejoin_if_outdated()
            case Rejoin(why):
                self._incarnation.rejoin_reason = why
            case Tick() if step.is_due(self._follow_up_at_ms()):
                self._incarnation.rejoin_for_follow_up()
        # In this order: a rejoin makes a metadata request pointless, and a request is built last.
        self._rejoin_if_possible(step)
        if step.is_due(self._lookup_at_ms()):
            step.emit(self._start_lookup())

    # the owner

    def _report_adopted(self) -> None:
        # A claim for partitions that are free now is withdrawn by rejoining.
        if self.state in IN_A_GENERATION:
            self._incarnation.rejoin_if_outdated()
            self._enter(self._incarnation.state)

    def _leave_codes(self, response: MembershipResponse) -> set[int]:
        members = response.members if isinstance(response, LeaveGroupResponse) else ()
        return super()._leave_codes(response) | {each.error_code for each in members}

    def _must_send_leave(self) -> bool:
        # The first JoinGroup of a static member is held back before it has a member id: then
        # LeaveGroup names the instance id alone (KIP-345).
        is_joining = self.state is MembershipState.JOINING and self._may_be_member
        is_static = self.settings.instance_id is not None
        return bool(self._member_id or (is_joining and is_static)) and not self._keeps_place

    @property
    def _keeps_place(self) -> bool:
        # KIP-345: a static member sends no LeaveGroup, so it keeps its partitions until its
        # session expires.
        return self.settings.instance_id is not None and not self._leaves_for_good

    # topic metadata, and an assignor's queries

    @property
    def _query(self) -> Any:
        return self._incarnation.pending_query

    def _needed_topics(self) -> NeededTopics:
        return NeededTopics(self._incarnation.watched_topics())

    def _apply_query_answer(self, step: Step, event: LookupEvent) -> None:
        if isinstance(event, MetadataFetched):
            # It has created topics, whose metadata are the answer.
            names = tuple(each.name for each in event.topics)
            self._apply_metadata(step, FetchedTopics(names, event.topics))
        else:
            self._incarnation.resume_assignment(answer_of(event))
            self._settle(step)

    def _apply_metadata(self, step: Step, fetched: FetchedTopics) -> None:
        # Asked in a generation that the member has left to join the next: only that one may
        # change what the owner uses.
        if self.state not in IN_A_GENERATION:
            self._metadata.replace_topics(*fetched)
            return
        self._incarnation.apply_metadata(step, *fetched)
        self._settle(step)

    def _settle(self, step: Step) -> None:
        """Enter the incarnation's state, and set the next metadata request."""
        if self.state in IN_A_GENERATION:
            self._enter(self._incarnation.state)
        self._lookups.schedule(step.now, self._incarnation.metadata_delay_ms)

    @property
    def _follow_up(self) -> FollowUpDeadline:
        return self._incarnation.follow_up

    # the coordinator

    def _apply_error(self, step: Step, response: MembershipResponse, on_error: Reaction) -> None:
        if on_error is Reaction.REJOIN_KEEPING:
            self._rejoin_next_generation(step)
        elif on_error is Reaction.RETRY_WITH_MEMBER_ID:
            assert isinstance(response, JoinGroupResponse)
            # KIP-394: the first JoinGroup is refused with an id, and repeated with it at once.
            if self._member_id:  # which it sent: no broker should require another one
                self._retry(step)
            self._member_id = response.member_id
        else:
            super()._apply_error(step, response, on_error)

    def _rejoin_next_generation(self, step: Step) -> None:
        """Rejoin after REBALANCE_IN_PROGRESS, keeping what is owned (KIP-429)."""
        self._link.record_accepted(step.now, is_settled=False)
        # Kafka acts on this code in a heartbeat only while the member is stable: the join that is
        # due anyway carries the reason.
        if self._link.request_type is HeartbeatRequest:
            self._link.backoff.record_success()
            reason = self._incarnation.rejoin_reason or "the group rebalances"
            self._incarnation.rejoin_reason = reason
        else:
            self._retry(step, free=1)

    def _retry(self, step: Step, free: int = 0) -> None:
        super()._retry(step, free)
        # SyncGroup is not repeated: the member may have been removed meanwhile. It rejoins.
        if self._link.request_type is SyncGroupRequest and self.state is MembershipState.SYNCING:
            self._enter(MembershipState.JOINING)

    def _accept(self, step: Step, response: MembershipResponse) -> None:
        """Apply the response to a classic member's request, which has no error."""
        session_timeout_ms = self.settings.session_timeout_ms
        may_have_been_removed = self._link.may_have_been_removed(step.now, session_timeout_ms)
        self._link.record_accepted(step.now)
        if isinstance(response, JoinGroupResponse):
            lost = self._loss_code_or_none(response, may_have_been_removed=may_have_been_removed)
            # Checked before the response is applied, or the owner would be offered partitions
            # beside those that others may have taken over.
            if lost is None:
                self._accept_join(step, response)
            else:
                self._lose_membership(step, lost, keeps_id=True)
            return
        # A SyncGroup response that arrives after the state was left belongs to an older generation.
        if isinstance(response, SyncGroupResponse) and self.state is MembershipState.SYNCING:
            self._accept_sync(step, response)
        else:
            self._link.backoff.record_success()

    # a generation

    def _loss_code_or_none(
        self, response: JoinGroupResponse, *, may_have_been_removed: bool
    ) -> Code | None:
        """Return why others may use this member's partitions by now; None if they do not."""
        if self._epoch == NO_GENERATION:
            return None
        # A group under the consumer protocol (KIP-848) names no leader, and admits a member that
        # it has removed as a new member with the same id.
        if not response.leader:
            return Code.UNKNOWN_MEMBER_ID if may_have_been_removed else None
        has_missed_one = has_missed_generation(self.settings, self._epoch, response)
        return Code.ILLEGAL_GENERATION if has_missed_one and self._ownership.claimed else None

    def _accept_join(self, step: Step, response: JoinGroupResponse) -> None:
        # The coordinator may have replaced the id of a static member (KIP-345).
        self._member_id, self._epoch = response.member_id, response.generation_id
        self._link.restart_interval(step.now)
        self._enter(MembershipState.SYNCING)
        self._incarnation.apply_join(step, response)
        self._settle(step)
        self._link.backoff.reset_delay(step.now)

    def _accept_sync(self, step: Step, response: SyncGroupResponse) -> None:
        is_accepted = self._incarnation.apply_sync(step, response)
        self._settle(step)
        if is_accepted:
            self._link.backoff.record_success()
        else:
            step.warn(f"{self._label} joins again: {self._incarnation.rejoin_reason}")
            # The second time in a row with a pause: the leader may assign the same again and again.
            self._link.backoff.record_failure(step.now, free=1)
            self._enter(MembershipState.JOINING)

    def _rejoin_if_possible(self, step: Step) -> None:
        """Join again if there is a reason, once the owner uses nothing that it may not keep."""
        if self._incarnation.rejoin_reason is not None and self.state in WITH_ASSIGNMENT:
            self._incarnation.revoke_before_rejoin(step)
            self._enter(self._incarnation.state)
            if self._incarnation.may_rejoin:
                self._enter(MembershipState.JOINING)

    def _start_incarnation(self, number: int) -> None:
        super()._start_incarnation(number)
        fatal = self._incarnation.fatal
        self._incarnation = Incarnation(
            self.settings, self._metadata, self._ownership, self._topics, fatal=fatal
        )

    def _finish_leaving(self, step: Step) -> None:
        super()._finish_leaving(step)
        self._lookups = Lookups()

    # requests

    def _sends_at_once(self) -> bool:
        may_sync = self.state is MembershipState.SYNCING and self._incarnation.generation.may_sync
        return super()._sends_at_once() or may_sync

    def _build_request(self) -> MembershipRequest:
        return self._incarnation.build_request(self.state, self._member_id)
