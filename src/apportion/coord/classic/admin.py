"""DescribeGroups: classic groups as administrators see them.

Versions 0-6 (6: GROUP_ID_NOT_FOUND, KIP-1043).
"""

from apportion.coord.classic.live_state import ClassicGroupMember
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.group import ALL_OPERATIONS, not_described
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Arrived
from apportion.wire.group_states import GroupState
from apportion.wire.messages.describe_groups import (
    NOT_ASKED,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def describe_groups(turn: Turn, arrived: Arrived) -> None:
    """Describe every classic group that a DescribeGroups request names.

    A group that does not exist is reported as Dead; from version 6 on with GROUP_ID_NOT_FOUND.
    """
    request: DescribeGroupsRequest = arrived.request
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = tuple(
        described_group(turn, group_id, arrived.version, operations) for group_id in request.groups
    )
    turn.reply(arrived.ticket, DescribeGroupsResponse(groups=groups))


def described_group(turn: Turn, group_id: str, version: int, operations: int) -> DescribedGroup:
    """Return the description of one group for DescribeGroups.

    A group that has only offsets is Empty. A consumer group counts as not existing.
    """
    group = turn.ledger.classic_group_or_none(group_id)
    if group is not None:
        return described_members(group, operations)
    # As in Kafka, so that a tool can describe what ListGroups lists.
    if group_id in turn.ledger.offsets and group_id not in turn.ledger.groups:
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.EMPTY,
            authorized_operations=operations,
        )
    exists = turn.ledger.has_group(group_id)
    code, why = (
        (Code.GROUP_ID_NOT_FOUND, not_described(group_id, "classic", exists=exists))
        # KIP-1043. Older tools expect a group in state Dead, without an error.
        if version >= 6
        else (Code.NONE, None)
    )
    return DescribedGroup(
        error_code=int(code),
        error_message=why,
        group_id=group_id,
        group_state=GroupState.DEAD,
        authorized_operations=operations if version < 6 else NOT_ASKED,
    )


def described_members(group: ClassicGroup, operations: int) -> DescribedGroup:
    """Return the description of a classic group with its members, for DescribeGroups.

    The members' metadata is included only while the group is stable.
    """
    live = group.live
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=live.protocol_type,
        protocol_data=(live.protocol or "") if live.state is GroupState.STABLE else "",
        members=tuple(
            _described_member(member, live.protocol, live.state is GroupState.STABLE)
            for member in live.members.values()
        ),
        authorized_operations=operations,
    )


def _described_member(
    member: ClassicGroupMember, protocol: str | None, includes_metadata: bool
) -> DescribedGroupMember:
    """Return the description of a classic group's member for DescribeGroups."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if includes_metadata else b"",
        member_assignment=member.assignment,
    )
