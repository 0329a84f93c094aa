"""The door of DescribeGroups: what an administrator sees of classic groups. Versions 0-6 (6 tells what is missing, KIP-1043)."""

from apportion.coord.classic.state import ClassicGroup, Member, State
from apportion.coord.group import ALL_OPERATIONS
from apportion.coord.turn import Ask, Turn
from apportion.errors import Code
from apportion.wire.messages.describe_groups import (
    NOT_ASKED,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def describe(turn: Turn, ask: Ask[DescribeGroupsRequest]) -> None:
    """Every group that was named is described. Before version 6 a group that is not there is Dead, then GROUP_ID_NOT_FOUND."""
    operations = ALL_OPERATIONS if ask.body.include_authorized_operations else NOT_ASKED
    groups = tuple(described(turn, group_id, ask.version, operations) for group_id in ask.body.groups)
    turn.reply(ask.ticket, DescribeGroupsResponse(groups=groups))


def described(turn: Turn, group_id: str, version: int, operations: int) -> DescribedGroup:
    """One group. Nobody but offsets in it: Empty. Of another kind: it is not there."""
    group = turn.ledger.classic_or_none(group_id)
    if group is not None:
        return shown(group, operations)
    if group_id in turn.ledger.offsets and group_id not in turn.ledger.groups:
        return DescribedGroup(group_id=group_id, group_state=State.EMPTY.value, authorized_operations=operations)
    code, why = (Code.GROUP_ID_NOT_FOUND, f"There is no classic group {group_id}.") if version >= 6 else (Code.NONE, None)
    return DescribedGroup(
        error_code=int(code),
        error_message=why,
        group_id=group_id,
        group_state=State.DEAD.value,
        authorized_operations=operations if version < 6 else NOT_ASKED,
    )


def shown(group: ClassicGroup, operations: int) -> DescribedGroup:
    """The group with its members; what they said is only told while it is stable."""
    live = group.live
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(),
        protocol_type=live.protocol_type,
        protocol_data=(live.protocol or "") if live.state is State.STABLE else "",
        members=tuple(_member(member, live.protocol, live.state is State.STABLE) for member in live.members.values()),
        authorized_operations=operations,
    )


def _member(member: Member, protocol: str | None, is_told: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if is_told else b"",
        member_assignment=member.assignment,
    )
