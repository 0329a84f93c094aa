"""The saved state of a shard, `Ledger`, and the `apply_*` functions that alone write it.

There is one for each kind of record. A running shard and a recovering one call the same functions.
A compacted log may lack older records, or have them after newer ones; so no function demands a
predecessor, and a conflicting claim is resolved and never refused (KAFKA-19862).
"""

from collections.abc import Iterator
from typing import Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.consumer.client_assignors import metadata_bytes, offer_of
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import (
    FIRST_EPOCH,
    ConsumerGroup,
    ConsumerGroupMember,
    ConsumerGroupSavedState,
)
from apportion.coord.consumer.target_records import TargetRecords
from apportion.coord.consumer.units import no_assigned_units
from apportion.coord.records import NO_ANSWER, TargetAnswer
from apportion.wire.fields import replaced
from apportion.wire.records import groups


class Ledger:
    """The saved state of one shard: its groups and all committed offsets.

    offsets: also those of groups without members, by group, topic and partition.
    """

    __slots__ = ("groups", "offsets")

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup | ClassicGroup] = {}
        # group -> topic -> partition -> committed
        self.offsets: dict[str, dict[str, dict[int, groups.OffsetCommitValue]]] = {}

    def has_group(self, group_id: str) -> bool:
        """Return whether there is a group of that id, of any kind or of offsets alone."""
        return group_id in self.groups or group_id in self.offsets

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return the coordinator shard's consumer group of that id, which must exist."""
        group = self.groups.get(group_id)
        assert isinstance(group, ConsumerGroup), f"{group_id} is no consumer group"
        return group

    def consumer_group_or_none(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group of that id; None if there is none."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def consumer_member_or_none(self, group_id: str, member_id: str) -> ConsumerGroupMember | None:
        """Return the member of a consumer group; None if there is no such member or group."""
        group = self.consumer_group_or_none(group_id)
        return None if group is None else group.saved.members.get(member_id)

    def classic_group_or_none(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group of that id; None if there is none."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_groups(self) -> Iterator[ConsumerGroup]:
        """Return an iterator over the consumer groups."""
        return (group for group in self.groups.values() if isinstance(group, ConsumerGroup))

    def classic_groups(self) -> Iterator[ClassicGroup]:
        """Return every classic group."""
        return (group for group in self.groups.values() if isinstance(group, ClassicGroup))


def apply_offset_commit(
    ledger: Ledger, key: groups.OffsetCommitKey, value: groups.OffsetCommitValue | None
) -> None:
    """Apply an OffsetCommit record: set or delete one committed offset.

    A group without offsets has no entry.
    """
    if value is not None:
        ledger.offsets.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = value
        return
    topics = ledger.offsets.get(key.group, {})
    partitions = topics.get(key.topic, {})
    partitions.pop(key.partition, None)
    if not partitions:
        topics.pop(key.topic, None)
    if not topics:
        ledger.offsets.pop(key.group, None)


def apply_classic_group(
    ledger: Ledger, key: groups.GroupMetadataKey, value: groups.GroupMetadataValue | None
) -> None:
    """Apply a GroupMetadata record: set or delete the saved state of a classic group.

    A consumer group of that id is replaced. The live state is left alone: `Shard.loaded` makes it
    for a group that was read from the log.
    """
    group = ledger.classic_group_or_none(key.group)
    if value is None:
        # The tombstone is that of a classic group only. An upgrade leaves it in the log beside the
        # records of the consumer group with the same id.
        if group is not None:
            del ledger.groups[key.group]
        return
    if group is None:
        ledger.groups.pop(key.group, None)
        group = ledger.groups[key.group] = ClassicGroup(key.group)
    group.saved = _without_views(value)


def _without_views(value: groups.GroupMetadataValue) -> groups.GroupMetadataValue:
    """Return a classic group's saved value with copies of its bytes, so that it can be kept.

    A record that was just written has views of the request's buffer, which is reused.
    """
    if all(
        isinstance(member.subscription, bytes) and isinstance(member.assignment, bytes)
        for member in value.members
    ):
        return value
    members = (
        replaced(
            member, subscription=bytes(member.subscription), assignment=bytes(member.assignment)
        )
        for member in value.members
    )
    return replaced(value, members=tuple(members))


def apply_group_epoch(
    ledger: Ledger,
    key: groups.ConsumerGroupMetadataKey,
    value: groups.ConsumerGroupMetadataValue | None,
) -> None:
    """Apply a consumer group's epoch record: set epoch and metadata hash, or delete the group."""
    if value is None:
        if ledger.consumer_group_or_none(key.group_id) is not None:
            del ledger.groups[key.group_id]
        return
    saved = _find_or_create_group(ledger, key.group_id).saved
    saved.epoch, saved.metadata_hash = value.epoch, value.metadata_hash


def apply_member_metadata(
    ledger: Ledger,
    key: groups.ConsumerGroupMemberMetadataKey,
    value: groups.ConsumerGroupMemberMetadataValue | None,
) -> None:
    """Apply a member's metadata record; a tombstone deletes the member with its assignment."""
    if value is not None:
        saved = _find_or_create_group(ledger, key.group_id).saved
        member = _find_or_create_member(saved, key.member_id)
        _count_metadata(saved, member, -1)
        # Before the new id is set: a member that joins with another instance id gives the old one
        # up. Kafka keeps both until a restart, so nobody can use the old one.
        _release_instance(saved, member)
        member.metadata = _with_own_metadata(value)
        _count_metadata(saved, member, 1)
        if value.instance_id is not None:
            saved.instances[value.instance_id] = member.member_id
        return
    group = ledger.consumer_group_or_none(key.group_id)
    if group is None or key.member_id not in group.saved.members:
        return
    saved, member = group.saved, group.saved.members[key.member_id]
    _count_metadata(saved, member, -1)
    _count_stable(saved, member, -1)
    _release_instance(saved, member)
    # A compacted log may lack the tombstone of the current assignment, so the units are freed here,
    # too.
    saved.owners.release(member.member_id, member.units())
    del saved.members[member.member_id]
    saved.agreement = None


def _with_own_metadata(
    value: groups.ConsumerGroupMemberMetadataValue,
) -> groups.ConsumerGroupMemberMetadataValue:
    """Return a member's metadata with copies of what its client-side assignors say.

    A record of a log that is read has views of the reader's buffer, all of which they would keep.
    """
    if all(isinstance(assignor.metadata, bytes) for assignor in value.client_assignors):
        return value
    copies = (
        replaced(assignor, metadata=bytes(assignor.metadata)) for assignor in value.client_assignors
    )
    return replaced(value, client_assignors=tuple(copies))


def apply_assignment_epoch(
    ledger: Ledger,
    key: groups.ConsumerGroupTargetAssignmentMetadataKey,
    value: groups.ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    """Apply a consumer group's record of its target assignment's epoch.

    A tombstone resets the epoch as in a new group: it may be the end of an older group of that id.
    """
    if value is not None:
        _find_or_create_group(ledger, key.group_id).saved.assignment_epoch = value.assignment_epoch
    elif (group := ledger.consumer_group_or_none(key.group_id)) is not None:
        group.saved.assignment_epoch = FIRST_EPOCH


def apply_target_assignment(
    ledger: Ledger,
    key: groups.ConsumerGroupTargetAssignmentMemberKey,
    value: groups.ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    """Apply a consumer group member's target assignment record: set or delete it."""
    if value is not None:
        saved = _find_or_create_group(ledger, key.group_id).saved
        member = _find_or_create_member(saved, key.member_id)
        member.target = saved.units.assign_units(value.topic_partitions)
        member.target_answer = TargetAnswer(
            value.error, value.metadata_version, bytes(value.metadata)
        )
    elif (known := ledger.consumer_member_or_none(key.group_id, key.member_id)) is not None:
        known.target, known.target_answer = None, NO_ANSWER


def apply_targets(ledger: Ledger, result: TargetRecords) -> None:
    """Apply target assignment records of a group's members that were encoded beforehand.

    As `apply_target_assignment` for each of them.
    """
    saved = _find_or_create_group(ledger, result.group_id).saved
    saved.units.adopt(result.ids)
    for member_id, units in zip(result.member_ids, result.units, strict=True):
        member = _find_or_create_member(saved, member_id)
        member.target, member.target_answer = units, NO_ANSWER


def apply_current_assignment(
    ledger: Ledger,
    key: groups.ConsumerGroupCurrentMemberAssignmentKey,
    value: groups.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    """Apply a consumer group member's current assignment record.

    After a tombstone the member has no assignment, and no epoch.
    """
    # The member may be gone already: its tombstone must not create it again.
    if value is None and ledger.consumer_member_or_none(key.group_id, key.member_id) is None:
        return
    saved = _find_or_create_group(ledger, key.group_id).saved
    member = _find_or_create_member(saved, key.member_id)
    _count_stable(saved, member, -1)
    # Both lists as a whole (KAFKA-16147): applied one by one, a unit that goes straight from
    # pending revocation back to assigned would end up free.
    saved.owners.release(member.member_id, member.units())
    if value is None:
        member.epoch, member.previous_epoch, member.state = -1, -1, MemberState.STABLE
        member.assigned = member.pending_revocation = no_assigned_units()
    else:
        member.epoch, member.previous_epoch = value.member_epoch, value.previous_member_epoch
        member.state = MemberState.of(value.state)
        member.assigned = saved.units.assign_units_with_epochs(
            value.assigned_partitions, value.member_epoch
        )
        member.pending_revocation = saved.units.assign_units_with_epochs(
            value.partitions_pending_revocation, value.member_epoch
        )
    # Release came first, so a unit that the member keeps is not freed by its own record.
    saved.owners.claim(member.member_id, member.units())
    _count_stable(saved, member, 1)


def apply_regular_expression(
    ledger: Ledger,
    key: groups.ConsumerGroupRegularExpressionKey,
    value: groups.ConsumerGroupRegularExpressionValue | None,
) -> None:
    """Apply a record of the topics that an expression matches: set or delete them."""
    group = (
        ledger.consumer_group_or_none(key.group_id)
        if value is None
        else _find_or_create_group(ledger, key.group_id)
    )
    if group is None:
        return
    saved = group.saved
    for topic in saved.resolutions.pop(key.regular_expression, ()):
        _count(saved.subscriber_counts, topic, -1)
    if value is not None:
        saved.resolutions[key.regular_expression] = value.topics
        for topic in value.topics:
            _count(saved.subscriber_counts, topic, 1)


def ignore_record(ledger: Ledger, key: Any, value: Any) -> None:
    """Ignore a record of a kind that is known and not used."""


def _find_or_create_group(ledger: Ledger, group_id: str) -> ConsumerGroup:
    """Find the consumer group that a record names, or create it, and return it.

    A classic group of that id is replaced.
    """
    group = ledger.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        group = ledger.groups[group_id] = ConsumerGroup(group_id)
    return group


def _find_or_create_member(saved: ConsumerGroupSavedState, member_id: str) -> ConsumerGroupMember:
    """Find the consumer group's member that a record names, or create it, and return it."""
    member = saved.members.get(member_id)
    if member is None:
        member = saved.members[member_id] = ConsumerGroupMember(member_id)
        saved.agreement = None
        _count_stable(saved, member, 1)
    return member


def _count_metadata(saved: ConsumerGroupSavedState, member: ConsumerGroupMember, step: int) -> None:
    """Count a member's subscription, assignor and protocols in (`step` 1) or out (-1).

    The topics of its expression are counted by `apply_regular_expression`.
    """
    if member.metadata.subscribed_topic_regex:
        _count(saved.expression_counts, member.metadata.subscribed_topic_regex, step)
    for topic in member.metadata.subscribed_topic_names:
        _count(saved.subscriber_counts, topic, step)
    if member.metadata.server_assignor is not None:
        _count(saved.assignor_votes, member.metadata.server_assignor, step)
    if member.metadata.client_assignors:
        _count(saved.client_offers, offer_of(member.metadata.client_assignors), step)
        saved.client_metadata_bytes += step * metadata_bytes(member.metadata.client_assignors)
        saved.agreement = None
    classic = member.metadata.classic_member_metadata
    if classic is not None:
        saved.classic_member_count += step
        names = [protocol.name for protocol in classic.supported_protocols]
        for protocol in dict.fromkeys(names):
            _count(saved.protocol_counts, protocol, step)


def _count_stable(saved: ConsumerGroupSavedState, member: ConsumerGroupMember, step: int) -> None:
    """Count the member in (`step` 1) or out (-1) if it is STABLE."""
    if member.state is MemberState.STABLE:
        _count(saved.stable_members_by_epoch, member.epoch, step)


def _count(counts: dict[Any, int], name: Any, step: int) -> None:
    counts[name] = counts.get(name, 0) + step
    # The keys themselves mean something: those of `subscriber_counts` are the subscribed topics.
    if not counts[name]:
        del counts[name]


def _release_instance(saved: ConsumerGroupSavedState, member: ConsumerGroupMember) -> None:
    """Free the member's group instance id, unless another member has it already."""
    instance_id = member.metadata.instance_id
    if instance_id is not None and saved.instances.get(instance_id) == member.member_id:
        del saved.instances[instance_id]
