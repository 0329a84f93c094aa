"""The guards: each rule that keeps a group safe is one predicate with a name, and `admit` asks them in Kafka's order.

Who calls a guard calls it through this module, so that a test can switch one off and watch what breaks.
"""

from typing import NamedTuple

from apportion.coord.consumer.beat import AWAY, JOINING, Beat
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.errors import Code, Refused


class AdmittedMember(NamedTuple):
    """Who is behind a heartbeat: a member as it stands, and a static member whose place it takes; neither means a new one."""

    member: ConsumerGroupMember | None
    predecessor: ConsumerGroupMember | None


def is_blocked(group: ConsumerGroup, member_id: str, unit: int) -> bool:
    """The unit may not be given to the member: somebody else has it."""
    holder = group.saved.owners.owner_or_none(unit)
    return holder is not None and holder != member_id


def has_room(group: ConsumerGroup, member_id: str, limit: int) -> bool:
    """The group may serve that member: it has a seat, or one is free."""
    return len(group.saved.members) < limit or member_id in group.saved.members


def is_same_member(member: ConsumerGroupMember, member_id: str) -> bool:
    """The static member is the one that speaks: another with the same instance id is a zombie, or an impostor."""
    return member.member_id == member_id


def uses_classic_protocol(member: ConsumerGroupMember, beat: Beat) -> bool:
    """The member or its successor knows only the classic protocol, in which whoever comes last has the place."""
    return member.is_classic or beat.classic is not None


def has_released_instance(member: ConsumerGroupMember) -> bool:
    """The static member left its place open, so that another member may take it."""
    return member.epoch == AWAY


def may_use_previous_epoch(member: ConsumerGroupMember, epoch: int, owned: frozenset[int] | None) -> bool:
    """The member missed one answer at the most: it speaks of the epoch before, and uses nothing that it may not use."""
    return epoch == member.previous_epoch and owned is not None and owned.issubset(member.assigned.units.tolist())


def is_epoch_valid(member: ConsumerGroupMember, epoch: int, owned: frozenset[int] | None) -> bool:
    """The member may go on from what it knows: it joins again, or its epoch is the one that it was told, or the one before."""
    if epoch in (JOINING, member.epoch):
        return True
    return epoch < member.epoch and may_use_previous_epoch(member, epoch, owned)


def is_state_known(member: ConsumerGroupMember, owned: frozenset[int] | None) -> bool:
    """The member's saved state is one we know; if a newer coordinator wrote it, the member has to hold nothing."""
    return member.state is not MemberState.UNKNOWN or (owned is not None and not owned)


def admit(group: ConsumerGroup | None, beat: Beat, owned: frozenset[int] | None, limit: int) -> AdmittedMember:
    """Who sent the heartbeat, if it may be heard. Changes nothing.

    Errors, in this order: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID,
    FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    if group is None:
        if beat.epoch != JOINING:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {beat.group_id}.")
        return AdmittedMember(None, None)
    if not has_room(group, beat.member_id, limit):
        raise group_full_error(beat.group_id, limit)
    admission = _dynamic(group, beat) if beat.instance_id is None else _static(group, beat, beat.instance_id)
    member = admission.member
    if member is None:
        return admission
    if not is_epoch_valid(member, beat.epoch, owned):
        raise Refused(
            Code.FENCED_MEMBER_EPOCH,
            f"Member {beat.member_id} is at epoch {member.epoch}, not {beat.epoch}: it has to give up everything and join again.",
        )
    if not is_state_known(member, owned):
        raise Refused(
            Code.FENCED_MEMBER_EPOCH,
            f"Member {beat.member_id} is in a state of a newer coordinator: it has to give up everything and join again.",
        )
    return admission


def _dynamic(group: ConsumerGroup, beat: Beat) -> AdmittedMember:
    member = group.saved.members.get(beat.member_id)
    if member is None and beat.epoch != JOINING:
        raise unknown_member_error(beat)
    return AdmittedMember(member, None)


def _static(group: ConsumerGroup, beat: Beat, instance_id: str) -> AdmittedMember:
    seated = group.static_member_or_none(instance_id)
    if seated is None:
        if beat.epoch != JOINING:
            raise unknown_member_error(beat)
        return AdmittedMember(group.saved.members.get(beat.member_id), None)
    if beat.epoch != JOINING:
        if not is_same_member(seated, beat.member_id):
            raise fenced_instance_error(beat)
        return AdmittedMember(seated, None)
    if not uses_classic_protocol(seated, beat) and not has_released_instance(seated):
        raise Refused(Code.UNRELEASED_INSTANCE_ID, f"Instance {instance_id} is member {seated.member_id}, which has not left yet.")
    return AdmittedMember(seated, None) if seated.member_id == beat.member_id else AdmittedMember(None, seated)


def group_full_error(group_id: str, limit: int) -> Refused:
    """The refusal of one member too many."""
    return Refused(Code.GROUP_MAX_SIZE_REACHED, f"Group {group_id} has its {limit} members already.")


def unknown_member_error(beat: Beat) -> Refused:
    """The refusal of somebody who is no member."""
    return Refused(Code.UNKNOWN_MEMBER_ID, f"Group {beat.group_id} has no member {beat.member_id!r}.")


def fenced_instance_error(beat: Beat) -> Refused:
    """The refusal of a member whose instance is another member now."""
    return Refused(Code.FENCED_INSTANCE_ID, f"Instance {beat.instance_id} is another member than {beat.member_id} now.")
