"""What a classic member knows of its group during one incarnation: generation, assignment, owned
partitions.

An incarnation begins when the member joins and ends when it loses its membership, so nothing
survives from an earlier one. This module decides what JoinGroup and SyncGroup responses and topic
metadata change, and when the member has to rejoin. It sends nothing itself: requests in flight,
backoff and leaving are in `machine.py`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from apportion.errors import Code, DecodeError, Refused, Unanswerable
from apportion.machine import Note
from apportion.member.assignors.interface import Cluster, Farewell, FollowUp, Given, Rebalance
from apportion.member.assignors.serde import decode_assignment
from apportion.member.assignors.strategy import rebalance_of
from apportion.member.classic.leader import (
    EncodedAssignments,
    PendingAssignment,
    assign_partitions,
    call_assignor,
    decode_group_subscription,
)
from apportion.member.classic.metadata import TopicMetadataCache
from apportion.member.classic.ownership import OwnedPartitions
from apportion.member.classic.requests import (
    NO_GENERATION,
    ClassicSettings,
    Generation,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from apportion.member.membership import (
    Failed,
    MemberRequest,
    MembershipState,
    Offer,
    TopicDescription,
    View,
    minus,
)
from apportion.topics import IdPartition, TopicId
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.sync_group import SyncGroupResponse


class GenerationState:
    """The state of one incarnation of a classic member.

    topics: the owner's subscription.
    rejoin_reason: why the member has to rejoin (JoinGroup carries it, KIP-800); None if it has not.
    follow_up: the rebalance that the assignor asked for at a later time; None if it asked for none.
    farewell: the error with which the membership ends as soon as the owner has let go of
    everything. It is handed on to the next incarnation, where the member loses its membership
    before that.
    """

    def __init__(
        self,
        settings: ClassicSettings,
        atlas: TopicMetadataCache,
        incarnation: int,
        topics: tuple[str, ...],
        *,
        farewell: Farewell | None = None,
    ) -> None:
        self.incarnation = incarnation
        self.topics = topics
        self.generation = Generation()
        self.ownership = OwnedPartitions()
        self.rejoin_reason: str | None = None
        self.follow_up: FollowUp | None = None
        self.farewell = farewell
        self._pending_assignment: PendingAssignment | None = None
        self._settings = settings
        self._cooperative = rebalance_of(settings.assignors) is Rebalance.COOPERATIVE
        self._metadata = atlas
        self._joined_topics: tuple[str, ...] = ()  # the topics, as in the last JoinGroup
        self._owned_generation = NO_GENERATION  # the newest generation that something was given in
        self._assigned = Given()  # what was given then
        # what topics were before the last join, or when they were first seen since
        self._topic_ids: dict[str, TopicId] = {}

    def view(
        self,
        member_id: str,
        state: MembershipState,
        last_accepted_ms: int | None,
        error: Failed | None,
    ) -> View:
        """Return a snapshot of the member."""
        held = self.ownership
        return View(
            member_id,
            self.generation.number,
            state,
            self.incarnation,
            held.target,
            held.owned,
            last_accepted_ms,
            error,
        )

    @property
    def state(self) -> MembershipState:
        """SYNCING until this generation's assignment is known; then RECONCILING or STABLE."""
        return self.ownership.state if self.generation.is_settled else MembershipState.SYNCING

    @property
    def may_sync(self) -> bool:
        """Whether SyncGroup can be sent: the assignments are decided and none was received."""
        generation = self.generation
        return (
            not generation.is_settled
            and generation.assignments is not None
            and generation.assigned is None
        )

    @property
    def awaits_topic_metadata(self) -> bool:
        """Whether this leader skips the assignment (KIP-814) and has no topic metadata yet.

        It accepts its own assignment only then, to compare later metadata with: no change is
        missed.
        """
        generation = self.generation
        return (
            generation.group_subscription is not None
            and generation.assignments is not None
            and generation.topic_shapes is None
        )

    @property
    def pending_query(self) -> Any:
        """What the leader's assignor must ask the cluster before it can assign; None if nothing."""
        return None if self._pending_assignment is None else self._pending_assignment.query

    @property
    def has_query(self) -> bool:
        """Whether there is an assignor's query or topic metadata to ask the cluster for."""
        return self.pending_query is not None or bool(self.watched_topics())

    @property
    def metadata_delay_ms(self) -> int:
        """How long the next metadata request waits; 0 while the generation depends on it."""
        settings = self._settings
        if self.state is MembershipState.SYNCING:
            return 0
        if self.is_missing_topics:
            return min(settings.metadata_interval_ms, settings.backoff_limit_ms)
        if self.has_pending_revocation:
            return min(settings.metadata_interval_ms, settings.rebalance_timeout_ms)
        return settings.metadata_interval_ms

    @property
    def has_pending_revocation(self) -> bool:
        """Whether this leader left partitions unassigned until their previous owner rejoins
        (KIP-429).

        That owner may be gone without a word, so the leader looks again after a rebalance timeout.
        """
        return self.generation.is_settled and self.generation.has_pending_revocation

    @property
    def is_missing_topics(self) -> bool:
        """Whether an assigned topic or partition is missing in the topic metadata."""
        return self._metadata.is_missing_any(self._assigned.partitions)

    def watched_topics(self) -> tuple[str, ...]:
        """Return the topics to watch: a follower's assigned ones, or all of a leader's group."""
        given = self.generation.assigned
        if given is not None and not self.awaits_topic_metadata:
            return tuple(parts.topic for parts in given.partitions)
        return () if self.may_sync else self.generation.topics

    # a generation

    def build_request(self, state: MembershipState, member_id: str) -> MemberRequest:
        """Return the request that `state` calls for.

        Raises Refused with the farewell where the member would join once more although it has to
        end.
        """
        if state is MembershipState.LEAVING:
            return leave_request(self._settings, member_id)
        if state is MembershipState.JOINING:
            if self.farewell is not None:
                raise Refused(*self.farewell)
            return self._build_join(member_id)
        say = sync_request if self.may_sync else heartbeat_request
        return say(self._settings, member_id, self.generation)

    def _build_join(self, member_id: str) -> JoinGroupRequest:
        """Return a JoinGroup request, and remember what it claims."""
        owned = self._metadata.to_topic_parts(self.ownership.claim())
        self._topic_ids = self._metadata.topic_ids()
        self._joined_topics, reason, self.rejoin_reason, self._pending_assignment = (
            self.topics,
            self.rejoin_reason,
            None,
            None,
        )
        return join_request(
            self._settings, member_id, self.topics, owned, self._owned_generation, reason
        )

    def may_have_been_removed(self, answer: JoinGroupResponse, silent_ms: int) -> bool:
        """Return whether others may own this member's partitions although the join was accepted.

        A group under the consumer protocol (KIP-848) names no leader, and takes in a member that it
        has removed as a new member with the same id. So after more than a session without contact
        the claim cannot be trusted.
        """
        held = self.generation.number != NO_GENERATION
        return held and not answer.leader and silent_ms > self._settings.session_timeout_ms

    def apply_join(self, answer: JoinGroupResponse) -> list[Note]:
        """Enter the generation of a JoinGroup response.

        Log the members whose subscription cannot be decoded.

        Raises Refused if the group chose an assignor that this member does not have.
        """
        name = answer.protocol_name or ""
        self.follow_up = self._pending_assignment = None
        self.generation = Generation(answer.generation_id, name, self._joined_topics)
        if self._settings.assignor_or_none(name) is None:
            why = f"the group has chosen the assignor {name!r}, which this member does not have"
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, why)
        if answer.leader != answer.member_id:
            return []
        heard = decode_group_subscription(answer.members)
        topics = tuple(sorted(dict.fromkeys((*heard.topics, *self._joined_topics))))
        self._update_generation(
            group_subscription=heard,
            topics=topics,
            assignments=() if answer.skip_assignment else None,
        )
        return [Note("error", f"a member gets nothing: {why}") for why in heard.unreadable]

    def apply_sync(self, answer: SyncGroupResponse) -> list[Offer]:
        """Take the assignment of a SyncGroup response once its topics' metadata is known.

        Return the offer, if any.

        An assignment with a topic that is no longer subscribed is dropped, and the member rejoins:
        the leader made it before it heard of the new subscription. Raises Refused if the assignment
        cannot be decoded.
        """
        try:
            given = (
                decode_assignment(answer.assignment) if len(answer.assignment) else Given()
            )  # no bytes: the leader forgot this member
        except DecodeError as error:
            raise Refused(
                Code.INVALID_REQUEST,
                f"what the group's leader gave this member cannot be read: {error}",
            ) from error
        strange = next(
            (parts.topic for parts in given.partitions if parts.topic not in self.topics), None
        )
        if strange is not None:
            self.rejoin_reason = f"topic {strange} was given and is not subscribed"
        elif given.partitions or (self.awaits_topic_metadata and self.generation.topics):
            self._update_generation(assigned=given)
        else:
            return self._accept_assignment(given)
        return []

    def apply_metadata(self, names: Iterable[str], seen: Iterable[TopicDescription]) -> list[Offer]:
        """Go on with new topic metadata: assign as the leader, accept the assignment, or compare
        with the last look.

        Where the assignor created the topics, this is the answer that it waits for.
        Raises Refused as `assign_partitions` does.
        """
        seen = tuple(seen)
        self._metadata.replace_topics(names, seen)
        generation = self.generation
        if generation.is_settled:
            return self._check_topics() if self.rejoin_reason is None else []
        if self._pending_assignment is not None:
            self._resume_assignment(
                lambda inquiry, shapes: inquiry.resume(
                    {topic.name: topic.partitions for topic in seen}, shapes
                )
            )
        elif generation.assignments is None:
            self._assign_partitions()
        elif generation.assigned is not None:
            return self._accept_assignment(generation.assigned)
        return []

    def _assign_partitions(self) -> None:
        generation = self.generation
        assignor = self._settings.assignor_or_none(generation.protocol)
        assert generation.group_subscription is not None
        assert assignor is not None
        shapes = self._metadata.topic_shapes(generation.topics)
        self._set_assignment(
            shapes,
            assign_partitions(
                assignor, shapes, generation.group_subscription.members, checks=self._cooperative
            ),
        )

    def apply_query_answer(self, answer: Any) -> list[Offer]:
        """Resume the assignor with an answer. Raises Refused as `assign_partitions` does."""
        self._resume_assignment(lambda inquiry, shapes: inquiry.resume(answer, shapes))
        return []

    def apply_query_failure(self, why: str, code: Code) -> list[Offer]:
        """Fail the assignor's query: for now, or for good if `code` is not retriable."""
        never = code is not Code.NONE and not code.retriable
        error = Refused(code, why) if never else Unanswerable(why)
        self._resume_assignment(lambda inquiry, shapes: inquiry.fail(error, shapes))
        return []

    def _resume_assignment(
        self, step: Callable[[PendingAssignment, Cluster], EncodedAssignments | None]
    ) -> None:
        if self._pending_assignment is not None:
            shapes = self._metadata.topic_shapes(self.generation.topics)
            self._set_assignment(
                shapes, step(self._pending_assignment, shapes) or self._pending_assignment
            )

    def _set_assignment(
        self, shapes: Cluster, outcome: EncodedAssignments | PendingAssignment
    ) -> None:
        if isinstance(outcome, PendingAssignment):
            self._pending_assignment = outcome
        else:
            self._pending_assignment = None
            self._update_generation(
                topic_shapes=shapes,
                has_pending_revocation=outcome.has_pending_revocation,
                assignments=outcome.assignments,
            )

    def _accept_assignment(self, given: Given) -> list[Offer]:
        """Make `given` the target of this generation."""
        generation = self.generation
        if returns := self.awaits_topic_metadata:
            self._update_generation(topic_shapes=self._metadata.topic_shapes(generation.topics))
        self._update_generation(assigned=None, is_settled=True)
        self._owned_generation, self._assigned = generation.number, given
        assignor = self._settings.assignor_or_none(generation.protocol)
        assert assignor is not None
        wish = call_assignor(assignor, lambda: assignor.on_assignment(given, generation.number))
        self.follow_up = wish if isinstance(wish, FollowUp) else None
        if isinstance(wish, Farewell):
            self.farewell, self._assigned, self.rejoin_reason = wish, Given(), wish.why
        offers = self._update_target()
        if returns and self._has_missing_partitions():
            self.rejoin_reason = "topics have changed"
        if self.follow_up is not None and self.follow_up.at_ms == 0:
            self.rejoin_for_follow_up()
        return offers

    def rejoin_for_follow_up(self) -> None:
        """Rejoin, since the time that the assignor named has come."""
        if self.follow_up is not None:
            self.rejoin_reason, self.follow_up = self.rejoin_reason or self.follow_up.why, None

    def _update_target(self) -> list[Offer]:
        """Make the assignment the owner's target, but for topics that were recreated since the
        join.

        A coordinator that keeps topic ids (a KIP-848 group with classic members) may have assigned
        the older topic; only a new generation can assign the younger one.
        """
        ids = self._metadata.topic_ids_of(self._assigned.partitions)
        self._topic_ids = ids | self._topic_ids
        same = (
            parts
            for parts in self._assigned.partitions
            if ids.get(parts.topic) == self._topic_ids.get(parts.topic)
        )
        offers = self.ownership.set_target(self.incarnation, self._metadata.to_assignment(same))
        self.rejoin_if_outdated()
        again = next((topic for topic, now in ids.items() if now != self._topic_ids[topic]), None)
        if again is not None:
            self.rejoin_reason = f"topic {again} was made again"
        return offers

    def _check_topics(self) -> list[Offer]:
        """Let go of recreated topics.

        As the leader, rejoin if topics changed or revoked partitions can be assigned.

        A leader that skipped the assignment (KIP-814) does not know what its predecessor left
        unassigned.
        """
        offers = self._update_target()
        generation = self.generation
        if generation.group_subscription is not None:
            shapes = self._metadata.topic_shapes(generation.topics)
            if generation.has_pending_revocation and not self.is_missing_topics:
                self.rejoin_reason = "what was taken from a member was not given on"
            if generation.topic_shapes != shapes:
                self.rejoin_reason = "topics have changed"
            self._update_generation(topic_shapes=shapes)
        return offers

    def _has_missing_partitions(self) -> bool:
        shapes = self._metadata.topic_shapes(self.generation.topics)
        known = (
            (shapes[topic].partitions, numbers)
            for topic, numbers in self._assigned.partitions
            if topic in shapes
        )
        return any(number >= count for count, numbers in known for number in numbers)

    def _update_generation(self, **news: Any) -> None:
        self.generation = replace(self.generation, **news)

    # the owner

    def rejoin_if_outdated(self) -> None:
        """Rejoin if the last JoinGroup had another subscription or claims what is free by now."""
        if not self.generation.is_settled:
            return
        if self._joined_topics != self.topics:
            self.rejoin_reason = "the subscription has changed"
        elif self.ownership.has_freed_partitions:
            self.rejoin_reason = self.rejoin_reason or "partitions were given up"

    def revoke_before_rejoin(self) -> list[Offer]:
        """Revoke what may not be kept while rejoining: unsubscribed topics, or everything under the
        eager protocol.

        Raises Refused with the farewell, if there is one, once the owner uses nothing any more.
        """
        if self.farewell is not None and not self.ownership.owned:
            raise Refused(*self.farewell)
        return self.ownership.restrict_target(self.incarnation, self._may_keep)

    @property
    def may_rejoin(self) -> bool:
        """Whether the owner has let go of everything that it may not keep while rejoining."""
        held = self.ownership
        if self.farewell is not None:
            return False
        if self._settings.revokes_before_rejoin and minus(held.owned, held.target or ()):
            return False
        return all(self._may_keep(partition) for partition in held.owned)

    def _may_keep(self, partition: IdPartition) -> bool:
        return (
            self._cooperative
            and self._metadata.topic_name(partition) in self.topics
            and not self._metadata.was_recreated(partition)
        )
