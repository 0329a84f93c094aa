"""The state of a classic group: `saved`, its last generation with an assignment, and `live`.

`states.py` explains the cycle of a group. A generation without an assignment is never saved, as in
Kafka: after a crash the group is in the state of its last assignment. Members may then name a
generation that is gone. Nobody was assigned anything in it: such a member still owns what the saved
generation gave it, and gets REBALANCE_IN_PROGRESS. Kafka, once it has loaded its groups, answers
ILLEGAL_GENERATION, upon which clients give up their partitions without a commit. They seldom get
that answer there, because a broker that has just started is not their coordinator yet
(NOT_COORDINATOR), so they rejoin by themselves; this broker coordinates as soon as it listens.

The number of a lost generation comes again, with the next generation. That one may assign the
partitions of a member that did not join it to others. So a member that does not join it is removed,
also a static one, which otherwise keeps its place (`rebalance.may_miss_generation`): no member
knows a lost generation by the time at which its number is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.coord import records
from apportion.coord.classic.live_state import ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.group import CONSUMER_PROTOCOL_TYPE, CommitClaim, FetchClaim, checked_member
from apportion.errors import Code, DecodeError, Refused
from apportion.lazy_imports import lazy_module
from apportion.machine import Caller
from apportion.wire.group_states import GroupState
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import decode
from apportion.wire.records.groups import GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from apportion.coord.records import CoordinatorRecord
    from apportion.deadlines import Key
    from apportion.topics import Topics
else:
    np = lazy_module("numpy")

SESSION = "classic session"
"""Deadline of a session timeout: that of a member, or of a member id that was given out and not
used yet.
"""


class ClassicGroup:
    """One classic group: its last saved generation, and what its members do now.

    saved: only `replay.apply_classic_group` writes it.
    """

    __slots__ = ("group_id", "live", "saved")

    type_name = "classic"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.saved: GroupMetadataValue | None = None
        self.live = ClassicGroupLiveState()

    @property
    def protocol_type(self) -> str:
        """The protocol type: consumer, connect...; "" before the first member."""
        return self.live.protocol_type

    @property
    def member_count(self) -> int:
        """The number of members."""
        return len(self.live.members)

    @property
    def epoch(self) -> int:
        """The generation."""
        return self.live.generation

    @property
    def assignment_epoch_or_none(self) -> int | None:
        """None: the members of a classic group assign for themselves."""
        return None

    @property
    def state(self) -> GroupState:
        """The state."""
        return self.live.state

    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return self.state is GroupState.EMPTY

    def subscribes_to(self, topic: str) -> bool:
        """Return whether the group's generation began with the topic subscribed.

        Asked before committed offsets of the topic are deleted, by OffsetDelete or by retention.
        True as well if a subscription cannot be decoded, since it may name the topic.
        """
        # Connect's workers, for example: their metadata names no topics.
        if self.live.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        subscriptions = self.live.generation_subscriptions
        topics = None if subscriptions is None else subscriptions.topics_or_none
        return topics is None or topic in topics

    def unowned_partitions_or_none(self, topics: Topics) -> int | None:
        """Return how many partitions of the subscribed topics no member was assigned.

        None if the topics cannot be known. What counts is the assignment that each member got last;
        one that cannot be decoded assigns nothing.
        """
        if self.live.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            return None
        subscriptions = self.live.generation_subscriptions
        names = {} if subscriptions is None else subscriptions.topics_or_none
        if names is None:
            return None
        is_owned = {
            topic.name: np.zeros(topic.partitions, np.bool_)
            for name in names
            if (topic := topics.named(name)) is not None
        }
        for member in self.live.members.values():
            for assigned in assigned_partitions(member.assignment):
                owned = is_owned.get(assigned.topic)
                if owned is not None:
                    indexes = np.array(assigned.partitions, np.int64)
                    owned[indexes[(indexes >= 0) & (indexes < len(owned))]] = True
        return sum(len(owned) - int(np.count_nonzero(owned)) for owned in is_owned.values())

    def expirable_since_ms_or_none(self, topic: str, committed_ms: int) -> int | None:
        """Return since when an offset of `topic` may expire (wall ms); None while it may not.

        In a group without members it may since the group became empty, or since the commit
        (`committed_ms`) where that time is unknown. In a stable group of consumers it may since the
        commit, if nobody subscribes to the topic. In any other group it may not.
        """
        live = self.live
        if live.state is GroupState.EMPTY:
            return (
                # KIP-211: the retention counts from the moment at which the last member was gone. A
                # group without a protocol type never had members.
                live.state_since_ms
                if live.protocol_type and live.state_since_ms >= 0
                else committed_ms
            )
        if (
            # As in Kafka only in Stable: during a rebalance the subscriptions are changing.
            live.state is GroupState.STABLE
            and live.protocol_type == CONSUMER_PROTOCOL_TYPE
            and not self.subscribes_to(topic)
        ):
            return committed_ms
        return None

    def check_commit(self, claim: CommitClaim) -> None:
        """Refuse an OffsetCommit that its sender may not make in this classic group.

        Errors, in this order: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        REBALANCE_IN_PROGRESS (also, in place of the last two, for a generation that a crash of the
        broker has lost).
        """
        live = self.live
        # A consumer without a subscription, or a tool that resets offsets.
        if claim.epoch < 0 and live.state is GroupState.EMPTY:
            return
        # Any of the three is the claim of a member, and has to be true. Members may commit in
        # PreparingRebalance: that is when they give up partitions.
        if claim.epoch >= 0 or claim.member_id or claim.instance_id is not None:
            checked_member(live.members, live.instances, claim.member_id, claim.instance_id)
            if self.has_lost_generation(claim.epoch):
                raise Refused(
                    Code.REBALANCE_IN_PROGRESS,
                    f"Generation {claim.epoch} had no assignment when the broker ended.",
                )
            self.check_generation(claim.epoch)
        elif live.state is not GroupState.EMPTY:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID,
                f"Group {self.group_id} has members, so only they may commit.",
            )
        # The leader is about to assign this member's partitions to others. A commit now could set
        # the offset of their next owner back.
        if live.state is GroupState.COMPLETING_REBALANCE:
            raise Refused(Code.REBALANCE_IN_PROGRESS)

    def check_fetch(self, claim: FetchClaim) -> None:
        """Refuse nothing: the classic protocol lets everybody fetch offsets."""

    def check_offset_deletion(self) -> None:
        """Refuse OffsetDelete while the classic group reads topics that cannot be known.

        Errors: NON_EMPTY_GROUP.
        """
        # Which topics these members read cannot be known, so every offset may be in use (as in
        # Kafka).
        if not self.is_empty() and self.live.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(Code.NON_EMPTY_GROUP)

    def session_or_none(self, member_id: str) -> tuple[Key, int] | None:
        """Return the deadline that a member's OffsetCommit restarts, and its timeout (ms).

        Returns None if there is no such member.
        """
        member = self.live.members.get(member_id)
        return (
            None
            if member is None
            else ((SESSION, self.group_id, member_id), member.session_timeout_ms)
        )

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """Yield the records that delete the group, which must be empty."""
        yield records.classic_group(self.group_id, None)

    def check_generation(self, generation: int) -> None:
        """Refuse SyncGroup, Heartbeat or OffsetCommit that names another generation.

        Errors: ILLEGAL_GENERATION.
        """
        if generation != self.live.generation:
            raise Refused(
                Code.ILLEGAL_GENERATION,
                f"Group {self.group_id} is at generation {self.live.generation}.",
            )

    def has_lost_generation(self, generation: int) -> bool:
        """Return whether a crash of the broker has lost the generation: it had no assignment."""
        return self.live.is_restored and generation > self.live.generation

    def to_record(self) -> CoordinatorRecord:
        """Return the GroupMetadata record that saves the classic group as it is now."""
        live = self.live
        value = GroupMetadataValue(
            protocol_type=live.protocol_type,
            generation=live.generation,
            protocol=live.protocol,
            leader=live.leader,
            current_state_timestamp=live.state_since_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(live.protocol),
                    assignment=member.assignment,
                )
                for member in live.members.values()
            ),
        )
        return records.classic_group(self.group_id, value)

    def restore(self) -> None:
        """Restore the classic group from its GroupMetadata record, without parked requests."""
        saved = self.saved
        assert saved is not None, f"group {self.group_id} was never saved"
        live = self.live = ClassicGroupLiveState()
        live.generation = saved.generation
        live.protocol = saved.protocol
        live.state_since_ms = saved.current_state_timestamp
        for saved_member in saved.members:
            member = ClassicGroupMember(
                saved_member.member_id,
                saved_member.group_instance_id,
                Caller(saved_member.client_id, saved_member.client_host),
                saved.protocol_type,
            )
            member.session_timeout_ms = saved_member.session_timeout
            # version 0 of the record has no rebalance timeout
            member.rebalance_timeout_ms = (
                saved_member.session_timeout
                if saved_member.rebalance_timeout < 0
                else saved_member.rebalance_timeout
            )
            # The record has only the metadata of the chosen protocol. The others come back with
            # the next JoinGroup.
            member.protocols = ((saved.protocol or "", bytes(saved_member.subscription)),)
            member.assignment = bytes(saved_member.assignment)
            live.add(member)
        # After the members: `add` made the first one the leader. A group that comes from a
        # downgrade has none.
        live.protocol_type, live.leader = saved.protocol_type, saved.leader
        # Only these two are ever saved, because a generation is saved with its assignment or
        # without members.
        live.state = GroupState.STABLE if live.members else GroupState.EMPTY
        live.capture_metadata()


def assigned_partitions(assignment: bytes) -> tuple[ConsumerProtocolTopicPartition, ...]:
    """Return what a classic consumer was assigned; nothing if that cannot be decoded."""
    if not assignment:
        return ()
    try:
        return decode(ConsumerProtocolAssignment, assignment)[1].assigned_partitions
    except DecodeError:
        return ()
