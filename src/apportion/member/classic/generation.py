"""Where a classic member stands in its group during one incarnation: its generation, its share, and what the group was told of it.

An incarnation begins without any of that, so nothing is left of an earlier one. It decides what a generation makes of the
answers, and when a new one is wanted; requests under way, pauses and goodbyes are the member's (`classic.py`).
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
from apportion.member.membership import Failed, MemberRequest, MembershipState, Offer, TopicDescription, View, minus
from apportion.topics import IdPartition, TopicId
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.sync_group import SyncGroupResponse


class GenerationState:
    """One incarnation of a member. topics: what its owner wants. rejoins: why a new generation is wanted; None if it is not.

    follow_up: when one will be wanted, as this one's assignor said; None: it did not. farewell: what the member is to end with, in
    this incarnation or, where it loses that before its owner has let go, in the next.
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
        self._topic_ids: dict[str, TopicId] = {}  # what topics were before the last join, or when they were first seen since

    def view(self, member_id: str, state: MembershipState, last_accepted_ms: int | None, error: Failed | None) -> View:
        """The member at this moment, with what others know of it."""
        held = self.ownership
        return View(member_id, self.generation.number, state, self.incarnation, held.target, held.owned, last_accepted_ms, error)

    @property
    def state(self) -> MembershipState:
        """SYNCING until the generation's share is known, then what the owner makes of it."""
        return self.ownership.state if self.generation.is_settled else MembershipState.SYNCING

    @property
    def may_sync(self) -> bool:
        """Whether all is known that SyncGroup says, and its answer is not there yet."""
        generation = self.generation
        return not generation.is_settled and generation.assignments is not None and generation.assigned is None

    @property
    def awaits_topic_metadata(self) -> bool:
        """Whether this is a leader that was told to assign nothing (KIP-814), and has not seen its topics yet.

        It takes its share only once it has: how they are then is what it compares with, so nothing that comes later is missed.
        """
        generation = self.generation
        return generation.group_subscription is not None and generation.assignments is not None and generation.topic_shapes is None

    @property
    def pending_query(self) -> Any:
        """What this leader's assignor must know before there is a plan; None if there is nothing."""
        return None if self._pending_assignment is None else self._pending_assignment.query

    @property
    def has_query(self) -> bool:
        """Whether there is anything to ask the cluster."""
        return self.pending_query is not None or bool(self.watched_topics())

    @property
    def metadata_delay_ms(self) -> int:
        """How long the next look waits that has just been made possible: not at all while the generation waits for it."""
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
        """Whether this leads a generation in which something is nobody's until a member joins again; that member may be gone."""
        return self.generation.is_settled and self.generation.has_pending_revocation

    @property
    def is_missing_topics(self) -> bool:
        """Whether something was given of a topic that does not exist, or not yet where the cluster was asked."""
        return self._metadata.is_missing_any(self._assigned.partitions)

    def watched_topics(self) -> tuple[str, ...]:
        """The topics to look up: what a follower's share consists of, or else all that the generation is about."""
        given = self.generation.assigned
        if given is not None and not self.awaits_topic_metadata:
            return tuple(parts.topic for parts in given.partitions)
        return () if self.may_sync else self.generation.topics

    # a generation

    def build_request(self, state: MembershipState, member_id: str) -> MemberRequest:
        """What the member says in that state. Refused with the farewell where it would join once more."""
        if state is MembershipState.LEAVING:
            return leave_request(self._settings, member_id)
        if state is MembershipState.JOINING:
            if self.farewell is not None:
                raise Refused(*self.farewell)
            return self._build_join(member_id)
        say = sync_request if self.may_sync else heartbeat_request
        return say(self._settings, member_id, self.generation)

    def _build_join(self, member_id: str) -> JoinGroupRequest:
        """JoinGroup of this moment, remembered as said."""
        owned = self._metadata.to_topic_parts(self.ownership.claim())
        self._topic_ids = self._metadata.topic_ids()
        self._joined_topics, reason, self.rejoin_reason, self._pending_assignment = self.topics, self.rejoin_reason, None, None
        return join_request(self._settings, member_id, self.topics, owned, self._owned_generation, reason)

    def may_have_been_removed(self, answer: JoinGroupResponse, silent_ms: int) -> bool:
        """Whether what is held may have been given to others before this answer, which does not tell.

        A KIP-848 group, which is one that names no leader, takes a member that it has put out for a new one of the same id.
        """
        held = self.generation.number != NO_GENERATION
        return held and not answer.leader and silent_ms > self._settings.session_timeout_ms

    def apply_join(self, answer: JoinGroupResponse) -> list[Note]:
        """The member is in a new generation. Refused if that is led by an assignor that the member does not have."""
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
        self._update_generation(group_subscription=heard, topics=topics, assignments=() if answer.skip_assignment else None)
        return [Note("error", f"a member gets nothing: {why}") for why in heard.unreadable]

    def apply_sync(self, answer: SyncGroupResponse) -> list[Offer]:
        """What the leader gave this member is taken, once its topics are known. Refused if it cannot be read.

        If it has topics that are not wanted, given before the leader heard so, nothing of it is taken and the member rejoins.
        """
        try:
            given = (
                decode_assignment(answer.assignment) if len(answer.assignment) else Given()
            )  # no bytes: the leader forgot this member
        except DecodeError as error:
            raise Refused(Code.INVALID_REQUEST, f"what the group's leader gave this member cannot be read: {error}") from error
        strange = next((parts.topic for parts in given.partitions if parts.topic not in self.topics), None)
        if strange is not None:
            self.rejoin_reason = f"topic {strange} was given and is not subscribed"
        elif given.partitions or (self.awaits_topic_metadata and self.generation.topics):
            self._update_generation(assigned=given)
        else:
            return self._accept_assignment(given)
        return []

    def apply_metadata(self, names: Iterable[str], seen: Iterable[TopicDescription]) -> list[Offer]:
        """The topics are known: the leader shares out, the share is taken, or changes are noticed. Refused as by `share_out`.

        Where the leader's assignor had them made, they are the answer that it waits for.
        """
        seen = tuple(seen)
        self._metadata.replace_topics(names, seen)
        generation = self.generation
        if generation.is_settled:
            return self._check_topics() if self.rejoin_reason is None else []
        if self._pending_assignment is not None:
            self._resume_assignment(
                lambda inquiry, shapes: inquiry.resume({topic.name: topic.partitions for topic in seen}, shapes)
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
            shapes, assign_partitions(assignor, shapes, generation.group_subscription.members, checks=self._cooperative)
        )

    def apply_query_answer(self, answer: Any) -> list[Offer]:
        """The assignor's question has this answer. Refused as by `share_out`."""
        self._resume_assignment(lambda inquiry, shapes: inquiry.resume(answer, shapes))
        return []

    def apply_query_failure(self, why: str, code: Code) -> list[Offer]:
        """The assignor's question has no answer, now or, by `code`, ever. Refused as by `share_out`."""
        never = code is not Code.NONE and not code.retriable
        error = Refused(code, why) if never else Unanswerable(why)
        self._resume_assignment(lambda inquiry, shapes: inquiry.fail(error, shapes))
        return []

    def _resume_assignment(self, step: Callable[[PendingAssignment, Cluster], EncodedAssignments | None]) -> None:
        if self._pending_assignment is not None:
            shapes = self._metadata.topic_shapes(self.generation.topics)
            self._set_assignment(shapes, step(self._pending_assignment, shapes) or self._pending_assignment)

    def _set_assignment(self, shapes: Cluster, outcome: EncodedAssignments | PendingAssignment) -> None:
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
        """What was given in this generation is what the owner is to hold."""
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
        """The time has come that the assignor spoke of."""
        if self.follow_up is not None:
            self.rejoin_reason, self.follow_up = self.rejoin_reason or self.follow_up.why, None

    def _update_target(self) -> list[Offer]:
        """The owner is to hold the share, but for topics that were made again since the join: a coordinator that reckons with ids
        may have meant the older one, and only a new generation can give the younger.
        """
        ids = self._metadata.topic_ids_of(self._assigned.partitions)
        self._topic_ids = ids | self._topic_ids
        same = (parts for parts in self._assigned.partitions if ids.get(parts.topic) == self._topic_ids.get(parts.topic))
        offers = self.ownership.set_target(self.incarnation, self._metadata.to_assignment(same))
        self.rejoin_if_outdated()
        again = next((topic for topic, now in ids.items() if now != self._topic_ids[topic]), None)
        if again is not None:
            self.rejoin_reason = f"topic {again} was made again"
        return offers

    def _check_topics(self) -> list[Offer]:
        """Topics that were made again are let go of; and a leader that sees its topics changed wants a new generation.

        One that was told to assign nothing (KIP-814) does not know what its predecessor withheld.
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
        """Whether partitions were given that do not exist: they went while nobody led."""
        shapes = self._metadata.topic_shapes(self.generation.topics)
        known = ((shapes[topic].partitions, numbers) for topic, numbers in self._assigned.partitions if topic in shapes)
        return any(number >= count for count, numbers in known for number in numbers)

    def _update_generation(self, **news: Any) -> None:
        self.generation = replace(self.generation, **news)

    # the owner

    def rejoin_if_outdated(self) -> None:
        """A new generation is wanted if the last JoinGroup said other topics, or claimed what is not held any more."""
        if not self.generation.is_settled:
            return
        if self._joined_topics != self.topics:
            self.rejoin_reason = "the subscription has changed"
        elif self.ownership.has_freed_partitions:
            self.rejoin_reason = self.rejoin_reason or "partitions were given up"

    def revoke_before_rejoin(self) -> list[Offer]:
        """What cannot be kept while the member joins again is taken back: unsubscribed topics, and everything if it is eager.

        Refused with the farewell, if there is one, of a member that has nothing any more.
        """
        if self.farewell is not None and not self.ownership.owned:
            raise Refused(*self.farewell)
        return self.ownership.restrict_target(self.incarnation, self._may_keep)

    @property
    def may_rejoin(self) -> bool:
        """Whether the owner uses nothing that it must not use while the member joins again."""
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
