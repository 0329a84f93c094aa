"""LeaveGroup: members leave, or an administrator removes static members.

Versions 0-5 (3: several members, KIP-345).
"""

from apportion.coord.classic import rebalance
from apportion.coord.classic.rebalance import remove_member, remove_pending_member
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic_protocol import (
    check_group_id,
    leave_response,
    leaving_member_or_none,
    leaving_members,
)
from apportion.coord.group_counts import Removal
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Arrived
from apportion.wire.group_states import GroupState
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity


def leave(turn: Turn, arrived: Arrived) -> None:
    """Remove the members that LeaveGroup names from a classic group; start one rebalance.

    Errors: INVALID_GROUP_ID; for one member UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID, which up to
    version 2 is the error of the whole response.
    """
    request: LeaveGroupRequest = arrived.request
    check_group_id(request.group_id)
    group = turn.ledger.classic_group_or_none(request.group_id)
    leaving = leaving_members(arrived)
    codes = [
        # As in Kafka, an unknown group is an error of each member, not of the response (from
        # version 3 on).
        Code.UNKNOWN_MEMBER_ID if group is None else remove_identified(turn, group, identity)
        for identity in leaving
    ]
    # Once for the whole request, as in Kafka: a batch of removals costs one rebalance.
    if group is not None and Code.NONE in codes and group.live.state is not GroupState.EMPTY:
        rebalance.prepare_or_complete_join(turn, group)
    turn.reply(arrived.ticket, leave_response(arrived.version, leaving, codes))


def remove_identified(turn: Turn, group: ClassicGroup, identity: MemberIdentity) -> Code:
    """Remove one member that LeaveGroup names from a classic group; return NONE or the error.

    LeaveGroup names a member by member id, by group instance id or by both.
    """
    live = group.live
    # The client gave up between its two joins (KIP-394). While its id is pending, the others wait
    # for it.
    if identity.member_id in live.pending_joins:
        remove_pending_member(turn, group, identity.member_id)
        return Code.NONE
    member, code = leaving_member_or_none(identity, live.members, live.instances)
    if member is not None:
        remove_member(turn, group, member, Removal.LEFT)
    return code
