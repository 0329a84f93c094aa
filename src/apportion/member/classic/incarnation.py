"""A classic member between two losses of its membership: generation, assignment, owned partitions.

An incarnation begins when the member joins and ends when it loses its membership, so nothing
survives from an earlier one. This module decides what JoinGroup and SyncGroup responses and topic
metadata change, and when the member has to rejoin. It sends nothing itself: requests in flight,
backoff and leaving are in `machine.py`, the assignor's run in `leader.py`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from apportion.assign.by_name import ClusterTopics, Given
from apportion.errors import Code, DecodeError, Refused
from apportion.machine import Note
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure, Rebalance
from apportion.member.assignors.runs import checked_reply
from apportion.member.assignors.serde import decode_assignment
from apportion.member.assignors.strategy import rebalance_of
from apportion.member.classic.generation import NO_GENERATION, Generation
from apportion.member.classic.leader import (
    AssignmentOutcome,
    EncodedAssignments,
    PendingAssignment,
    assign_partitions,
    decode_group_subscription,
)
from apportion.member.classic.metadata import TopicMetadataCache
from apportion.member.classic.requests import (
    ClassicSettings,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.follow_up import FollowUpDeadline
from apportion.member.membership import (
    MembershipRequest,
    MembershipState,
    minus,
)
from apportion.member.ownership import OwnedPartitions
from apportion.member.step import Step
from apportion.topics import IdPartition, TopicId
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.sync_group import SyncGroupResponse


class Incarnation:
    """One incarnation of a classic member: its generation and the partitions it owns.

    ownership: its partitions, and its number. topics: the owner's subscription.
    rejoin_reason: why the member has to rejoin (JoinGroup carries it, KIP-800); None if it has not.
    follow_up: when to rejoin because the assignor has asked for it.
    fatal: the error with which the membership ends as soon as the owner uses no partition. If
    the membership is lost before that, the next incarnation takes it over.
    """

    def __init__(
        self,
        settings: ClassicSettings,
        metadata: TopicMetadataCache,
        ownership: OwnedPartitions,
        topics: tuple[str, ...],
        *,
        fatal: MemberFailure | None = None,
    ) -> None:
        self.topics = topics
        self.generation = Generation()
        self.ownership = ownership
        self.rejoin_reason: str | None = None
        self.follow_up = FollowUpDeadline()
        self.fatal = fatal
        self._assignor: Assignor  # that the group chose, from the first JoinGroup response on
        self._pending_assignment: PendingAssignment | None = None
        self._settings = settings
        self._cooperative = rebalance_of(settings.assignors) is Rebalance.COOPERATIVE
        self._metadata = metadata
        self._joined_topics: tuple[str, ...] = ()  # the subscription in the last JoinGroup
        self._assigned = Given()  # the last assignment
        self._assigned_generation = NO_GENERATION  # the generation that assigned it
        # topic ids at the last JoinGroup, or when the topic was first seen since
        self._topic_ids: dict[str, TopicId] = {}

    @property
    def state(self) -> MembershipState:
        """SYNCING until this generation's assignment is known; then RECONCILING or STABLE."""
        return self.ownership.state if self.generation.is_settled else MembershipState.SYNCING

    @property
    def pending_query(self) -> Any:
        """The query that the leader's assignor has to the cluster; None if it has none."""
        return None if self._pending_assignment is None else self._pending_assignment.query

    @property
    def metadata_delay_ms(self) -> int:
        """Return a classic member's wait before its next Metadata request; 0 while syncing.

        Otherwise the wait is metadata.max.age.ms at the most, less where a change is expected.
        """
        settings = self._settings
        if self.state is MembershipState.SYNCING:
            return 0
        if self.is_missing_topics:
            # a topic that was just created is not known to every broker yet
            return min(settings.metadata_interval_ms, settings.backoff_limit_ms)
        if self.generation.has_pending_revocation:
            return min(settings.metadata_interval_ms, settings.rebalance_timeout_ms)
        return settings.metadata_interval_ms

    @property
    def is_missing_topics(self) -> bool:
        """Return whether an assigned topic or partition is missing in the topic metadata."""
        return self._metadata.is_missing_any(self._assigned.partitions)

    def watched_topics(self) -> tuple[str, ...]:
        """Return the topics that a classic member watches: its own, or all of a leader's group."""
        generation = self.generation
        if generation.unresolved is not None and not generation.awaits_topic_metadata:
            return tuple(parts.topic for parts in generation.unresolved.partitions)
        return () if generation.may_sync else generation.topics

    # a generation

    def build_request(self, state: MembershipState, member_id: str) -> MembershipRequest:
        """Return the request that a classic member's `state` calls for.

        Raises Refused with the fatal error, if there is one: such a member has to end.
        """
        if state is MembershipState.LEAVING:
            return leave_request(self._settings, member_id)
        if state is MembershipState.JOINING:
            if self.fatal is not None:
                raise Refused(*self.fatal)
            return self._build_join(member_id)
        build = sync_request if self.generation.may_sync else heartbeat_request
        return build(self._settings, member_id, self.generation)

    def _build_join(self, member_id: str) -> JoinGroupRequest:
        """Return a JoinGroup request for a classic member, and note the topics that it names.

        The request claims the partitions that the member owns. The reason to rejoin (KIP-800) has
        been given with it, and an assignment still being computed is dropped.
        """
        owned = self._metadata.to_topic_parts(self.ownership.claim())
        # The leader assigns by name; what a name means for this member is fixed when it joins.
        self._topic_ids = self._metadata.topic_ids()
        self._joined_topics, reason = self.topics, self.rejoin_reason
        self.rejoin_reason = self._pending_assignment = None
        return join_request(
            self._settings,
            member_id,
            self.topics,
            owned=owned,
            owned_generation=self._assigned_generation,
            reason=reason,
        )

    def apply_join(self, step: Step, response: JoinGroupResponse) -> None:
        """Enter the generation of a JoinGroup response.

        Raises Refused if the group chose an assignor that this member does not have.
        """
        name = response.protocol_name or ""
        self.follow_up.cancel()
        self._pending_assignment = None
        self.generation = Generation(response.generation_id, name, self._joined_topics)
        # The coordinator chooses a name that all members offer; another one is a defect.
        if (assignor := self._settings.assignor_or_none(name)) is None:
            why = f"the group has chosen the assignor {name!r}, which this member does not have"
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, why)
        self._assignor = assignor
        # Only the leader's response has the members' subscriptions.
        if response.leader != response.member_id:
            return
        group = decode_group_subscription(response.members)
        topics = tuple(sorted(dict.fromkeys((*group.topics, *self._joined_topics))))
        self._update_generation(
            group_subscription=group,
            topics=topics,
            # KIP-814: after a static leader rejoined, the group keeps the assignments it has.
            assignments=() if response.skip_assignment else None,
        )
        step.emit(*(Note("error", f"a member gets nothing: {why}") for why in group.unreadable))

    def apply_sync(self, step: Step, response: SyncGroupResponse) -> bool:
        """Make the assignment of a SyncGroup response the target, once its topics are known.

        Return False for an assignment with a topic that is no longer subscribed, and rejoin: the
        leader made it before it knew of the new subscription. Raises Refused if the assignment
        cannot be decoded.
        """
        try:
            # No bytes: the leader left this member out.
            given = decode_assignment(response.assignment) if len(response.assignment) else Given()
        except DecodeError as error:
            why = f"the assignment by the group's leader cannot be decoded: {error}"
            raise Refused(Code.INVALID_REQUEST, why) from error
        unsubscribed = next(
            (parts.topic for parts in given.partitions if parts.topic not in self.topics), None
        )
        # Kafka's consumer rejoins at once as well, without applying such an assignment.
        if unsubscribed is not None:
            self.rejoin_reason = f"topic {unsubscribed} was assigned and is not subscribed"
            return False
        if given.partitions or (self.generation.awaits_topic_metadata and self.generation.topics):
            self._update_generation(unresolved=given)
        else:
            self._accept_assignment(step, given)
        return True

    def apply_metadata(
        self, step: Step, names: Iterable[str], topics: Iterable[TopicDescription]
    ) -> None:
        """Apply a Metadata response: assign as the leader, accept an assignment, or find changes.

        names: the requested topics, of which `topics` exist. For an assignor that created topics,
        this is the answer that it waits for. Raises Refused as `assign_partitions` does.
        """
        topics = tuple(topics)
        self._metadata.replace_topics(names, topics)
        generation = self.generation
        # A rejoin that is due reads the metadata again anyway.
        if generation.is_settled:
            if self.rejoin_reason is None:
                self._check_topics(step)
        elif self._pending_assignment is not None:
            self.resume_assignment({topic.name: topic.partitions for topic in topics})
        elif generation.assignments is None:
            self._assign_partitions()
        elif generation.unresolved is not None:
            self._accept_assignment(step, generation.unresolved)

    def _assign_partitions(self) -> None:
        """Run the assignor that the classic group chose, as its leader."""
        generation = self.generation
        assert generation.group_subscription is not None
        shapes = self._metadata.topic_shapes(generation.topics)
        members = generation.group_subscription.members
        outcome = assign_partitions(self._assignor, shapes, members, checks=self._cooperative)
        self._set_assignment(shapes, outcome)

    def resume_assignment(self, answer: Any) -> None:
        """Resume the leader's assignor, as `PendingAssignment.resume` does."""
        if self._pending_assignment is not None:
            shapes = self._metadata.topic_shapes(self.generation.topics)
            self._set_assignment(shapes, self._pending_assignment.resume(answer, shapes))

    def _set_assignment(self, shapes: ClusterTopics, outcome: AssignmentOutcome) -> None:
        self._pending_assignment = outcome if isinstance(outcome, PendingAssignment) else None
        if isinstance(outcome, EncodedAssignments):
            self._update_generation(
                topic_shapes=shapes,
                has_unassigned_partitions=outcome.has_pending_revocation,
                assignments=outcome.assignments,
            )

    def _accept_assignment(self, step: Step, given: Given) -> None:
        """Make `given` the target of this generation, and tell the assignor (KIP-341)."""
        generation = self.generation
        if skips_assignment := generation.awaits_topic_metadata:
            self._update_generation(topic_shapes=self._metadata.topic_shapes(generation.topics))
        self._update_generation(unresolved=None, is_settled=True)
        self._assigned_generation, self._assigned = generation.number, given
        assignor = self._assignor
        reply = checked_reply(assignor, lambda: assignor.on_assignment(given, generation.number))
        self.follow_up.cancel()
        if isinstance(reply, FollowUp):
            self.follow_up.plan(assignor.name, reply, step.now)
        elif isinstance(reply, MemberFailure):
            self.fatal, self._assigned, self.rejoin_reason = reply, Given(), reply.why
        self._update_target(step)
        if skips_assignment and self._metadata.exceeds_any(
            self._assigned.partitions, generation.topics
        ):
            # KIP-814: a leader that did not assign finds out here what changed before it rejoined.
            self.rejoin_reason = "topics have changed"
        if isinstance(reply, FollowUp) and reply.at_ms == reply.after_ms == 0:
            self.rejoin_for_follow_up()

    def rejoin_for_follow_up(self) -> None:
        """Rejoin for the assignor's follow-up rebalance, whose time has come."""
        if (planned := self.follow_up.take()) is not None:
            _, follow_up = planned
            self.rejoin_reason = self.rejoin_reason or follow_up.why

    def _update_target(self, step: Step) -> None:
        """Make the assignment the target, without topics that were recreated since the join.

        A coordinator that keeps topic ids (a KIP-848 group with classic members) may have assigned
        the older topic; only a new generation can assign the younger one.
        """
        ids = self._metadata.topic_ids_of(self._assigned.partitions)
        self._topic_ids = ids | self._topic_ids
        unchanged = (
            parts
            for parts in self._assigned.partitions
            if ids.get(parts.topic) == self._topic_ids.get(parts.topic)
        )
        self.ownership.set_target(step, self._metadata.to_assignment(unchanged))
        self.rejoin_if_outdated()
        recreated = next(
            (topic for topic, topic_id in ids.items() if topic_id != self._topic_ids[topic]), None
        )
        if recreated is not None:
            self.rejoin_reason = f"topic {recreated} was recreated"

    def _check_topics(self, step: Step) -> None:
        """Give up recreated topics; as the leader, rejoin if topics changed.

        A leader rejoins as well if it left partitions unassigned: their owner had a rebalance
        timeout to rejoin. A leader that skipped the assignment (KIP-814) does not know what its
        predecessor left unassigned.
        """
        self._update_target(step)
        generation = self.generation
        if generation.is_leader:
            shapes = self._metadata.topic_shapes(generation.topics)
            if generation.has_pending_revocation and not self.is_missing_topics:
                self.rejoin_reason = "revoked partitions are not assigned yet"
            if generation.topic_shapes != shapes:
                self.rejoin_reason = "topics have changed"
            self._update_generation(topic_shapes=shapes)

    def _update_generation(self, **changes: Any) -> None:
        self.generation = replace(self.generation, **changes)

    # the owner

    def rejoin_if_outdated(self) -> None:
        """Rejoin if the last JoinGroup had another subscription, or claims partitions now free."""
        if not self.generation.is_settled:
            return
        if self._joined_topics != self.topics:
            self.rejoin_reason = "the subscription has changed"
        elif self.ownership.has_freed_partitions:
            self.rejoin_reason = self.rejoin_reason or "owned partitions were revoked"

    def revoke_before_rejoin(self, step: Step) -> None:
        """Revoke what may not be kept while rejoining.

        Under the eager protocol that is everything, under the cooperative one the topics that are
        no longer subscribed (KIP-429). Raises Refused with the fatal error, if there is one, once
        the owner uses no partition.
        """
        if self.fatal is not None and not self.ownership.owned:
            raise Refused(*self.fatal)
        self.ownership.restrict_target(step, self._may_keep)

    @property
    def may_rejoin(self) -> bool:
        """Return whether a classic member's owner uses nothing that it may not keep to rejoin."""
        ownership = self.ownership
        if self.fatal is not None:
            return False
        if self._settings.revokes_before_rejoin and minus(ownership.owned, ownership.target or ()):
            return False
        return all(self._may_keep(partition) for partition in ownership.owned)

    def _may_keep(self, partition: IdPartition) -> bool:
        return (
            self._cooperative
            and self._metadata.topic_name(partition) in self.topics
            and not self._metadata.was_recreated(partition)
        )
