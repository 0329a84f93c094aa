"""The spine: what a heartbeat does to a group, whichever door it came through.

admit (may refuse) -> enroll -> bump the epoch if it mattered -> retarget -> reconcile -> re-arm deadlines -> verdict. A steady
heartbeat passes through all of it, emits nothing, and looks at no other member.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from apportion.coord import records
from apportion.coord.consumer import fencing, timers
from apportion.coord.consumer.beat import AWAY, JOINING, LEAVING, Beat, merge_metadata
from apportion.coord.consumer.fencing import AdmittedMember, admit
from apportion.coord.consumer.reconcile import CurrentAssignment, MemberState, reconcile
from apportion.coord.consumer.state import NO_METADATA, ConsumerGroup, ConsumerGroupMember, to_current_assignment_value
from apportion.coord.consumer.targets import metadata_hash, retarget
from apportion.coord.consumer.units import SHIFT
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.wire.records.groups import ConsumerGroupMemberMetadataValue


class HeartbeatResult(NamedTuple):
    """The group and the member after the heartbeat, and whether the member must be told its assignment (again)."""

    group: ConsumerGroup
    member: ConsumerGroupMember
    includes_assignment: bool


def heartbeat(turn: Turn, beat: Beat) -> HeartbeatResult:
    """The member lives, has said what is in `beat`, and is as close to its target as the others allow.

    Errors: those of `fencing.admit`.
    """
    group = turn.ledger.consumer_group_or_none(beat.group_id)
    owned = None if beat.owned is None else frozenset() if group is None else group.saved.units.known_units(beat.owned)
    admission = admit(group, beat, owned, turn.settings.group_consumer_max_size)
    has_changed_wishes = create_or_update_member(turn, beat, admission)
    group = turn.ledger.consumer_group(beat.group_id)
    bump_epoch_if_changed(turn, group, has_changed_wishes)
    if group.saved.epoch > group.saved.assignment_epoch:
        retarget(turn, group)
    member = group.saved.members[beat.member_id]
    has_moved = reconcile_member(turn, group, member, owned, has_changed_wishes)
    timers.arm_session(turn, group, member)
    return HeartbeatResult(group, member, has_moved or beat.epoch == JOINING or beat.is_full)


def create_or_update_member(turn: Turn, beat: Beat, admission: AdmittedMember) -> bool:
    """The member is in the group with all that it has said; True if that changes who may get what.

    So does a member that takes over another's place beside its own: what it had is to be given away.
    """
    member, predecessor = admission
    known = member or predecessor
    said = merge_metadata(NO_METADATA if known is None else known.metadata, beat)
    before = () if known is None else known.metadata.subscribed_topic_names
    leaves_own_place = False
    if predecessor is not None:
        leaves_own_place = beat.member_id in turn.ledger.consumer_group(beat.group_id).saved.members
        replace_static_member(turn, beat, predecessor, said)
    elif member is None or said is not member.metadata:
        turn.emit(records.member_metadata(beat.group_id, beat.member_id, said))
    return leaves_own_place or said.subscribed_topic_names != before


def replace_static_member(turn: Turn, beat: Beat, predecessor: ConsumerGroupMember, said: ConsumerGroupMemberMetadataValue) -> None:
    """The member has the target and the hold of the static member whose place it takes, and begins at epoch 0."""
    group = turn.ledger.consumer_group(beat.group_id)
    units = group.saved.units
    target = [] if predecessor.target is None else list(units.by_topic(predecessor.target.tolist()))
    hold = predecessor.current
    assigned, revoking = dict.fromkeys(hold.assigned, JOINING), dict.fromkeys(hold.pending_revocation, JOINING)
    hold = replace(hold, epoch=0, previous_epoch=0, assigned=assigned, pending_revocation=revoking)
    timers.disarm(turn, group, predecessor)
    turn.emit_all(records.member_tombstones(group.group_id, predecessor.member_id))
    turn.emit(records.member_metadata(group.group_id, beat.member_id, said))
    turn.emit(records.target_assignment(group.group_id, beat.member_id, target))
    turn.emit(records.current_assignment(group.group_id, beat.member_id, to_current_assignment_value(hold, units)))


def bump_epoch_if_changed(turn: Turn, group: ConsumerGroup, has_changed_wishes: bool) -> None:
    """The group has a new epoch if its wishes or its topics changed. At most one a heartbeat."""
    saved, live = group.saved, group.live
    has_seen_topics = live.seen_topics is turn.topics
    live.seen_topics = turn.topics
    if has_seen_topics and not has_changed_wishes:
        return
    hashed = metadata_hash(group, turn.topics)
    if has_changed_wishes or hashed != saved.metadata_hash:
        turn.emit(records.group_epoch(group.group_id, saved.epoch + 1, hashed))


def reconcile_member(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember, owned: frozenset[int] | None, has_changed_wishes: bool
) -> bool:
    """The member has moved toward its target as far as it can; True if what it may use is not what it was."""
    saved = group.saved
    if member.state is MemberState.STABLE and member.epoch == saved.assignment_epoch:
        return False
    before = member.current
    wanted = subscribed_units(turn, group, member)
    hold = reconcile(
        _as_rejoining(before),
        saved.assignment_epoch,
        [] if member.target is None else [unit for unit in member.target.tolist() if wanted(unit)],
        owned,
        lambda unit: fencing.is_blocked(group, member.member_id, unit),
        lambda unit: has_changed_wishes and not wanted(unit),
    )
    if hold == before:
        return False
    turn.emit(records.current_assignment(group.group_id, member.member_id, to_current_assignment_value(hold, saved.units)))
    timers.arm_rebalance(turn, group, member)
    return hold.assigned != before.assigned


def leave(turn: Turn, beat: Beat) -> None:
    """The member is gone, or (epoch -2) its place waits for the next member of its instance, with all that it may use.

    Who comes next may commit from its first epoch on, so what waits counts as given at epoch 0.

    Errors, in this order: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. No epoch is compared.
    """
    group = turn.ledger.consumer_group_or_none(beat.group_id)
    if group is None:
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {beat.group_id}.")
    instance_id = beat.instance_id
    member = group.saved.members.get(beat.member_id) if instance_id is None else group.static_member_or_none(instance_id)
    if member is None:
        raise fencing.unknown_member_error(beat)
    if not fencing.is_same_member(member, beat.member_id):
        raise fencing.fenced_instance_error(beat)
    if beat.epoch == LEAVING:
        timers.remove_members(turn, group, member)
        return
    hold = member.current
    hold = replace(hold, epoch=AWAY, assigned=dict.fromkeys(hold.assigned, JOINING), pending_revocation={})
    turn.emit(records.current_assignment(group.group_id, member.member_id, to_current_assignment_value(hold, group.saved.units)))
    timers.arm_rebalance(turn, group, member)


def subscribed_units(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> Callable[[int], bool]:
    """Whether the member still subscribes to the topic of a unit, and the topic still exists."""
    names = frozenset(member.metadata.subscribed_topic_names)
    ids = group.saved.units.ids
    topics = turn.topics

    def wanted(unit: int) -> bool:
        topic = topics.with_id(ids[unit >> SHIFT])
        return topic is not None and topic.name in names

    return wanted


def _as_rejoining(hold: CurrentAssignment[int]) -> CurrentAssignment[int]:
    """The hold to go on from: a static member that was away begins again."""
    return replace(hold, epoch=0, previous_epoch=0) if hold.epoch == AWAY else hold
