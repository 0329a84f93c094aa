"""SyncGroup: the leader brings the assignment, and every member fetches its own.

Versions 0-5 (5: KIP-559).
"""

from apportion.coord.classic import rebalance
from apportion.coord.classic.live_state import ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.classic.rebalance import (
    SYNC,
    arm_session,
    checked_caller,
    fail_parked,
    prepare_rebalance,
)
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic_protocol import check_sync_request, names_protocol
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.group_states import GroupState
from apportion.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

MAX_GROUP_BYTES = 1 << 26  # of one group's record; Kafka limits records of any kind


def sync(turn: Turn, arrived: Arrived) -> None:
    """Answer a classic group's SyncGroup, or park it until the leader sends the assignment.

    The leader's assignment is saved before any member gets it.
    Errors, in this order: INCONSISTENT_GROUP_PROTOCOL for version 5 without a protocol,
    INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS (also, in place of the last three, for a
    generation that a crash of the broker has lost).
    """
    request: SyncGroupRequest = arrived.request
    check_sync_request(arrived)
    # Kafka's order: the generation before the protocol, because another generation may have another
    # protocol.
    group, member = checked_caller(turn, request)
    if group.has_lost_generation(request.generation_id):
        # Through the module: the simulator replaces the guard by a faulty one (docs/guards.md).
        rebalance.resume_lost_rebalance(turn, group, member)
        turn.reply(arrived.ticket, SyncGroupResponse(error_code=int(Code.REBALANCE_IN_PROGRESS)))
        return
    group.check_generation(request.generation_id)
    live = group.live
    if not names_protocol(request, live.protocol_type, live.protocol):
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            f"Group {group.group_id} speaks {live.protocol} ({live.protocol_type} protocol).",
        )
    if live.state is GroupState.PREPARING_REBALANCE:
        raise Refused(Code.REBALANCE_IN_PROGRESS)
    # In Stable as well: the leader has synced before this member, whose deadline SYNC still runs.
    live.pending_syncs.pop(member.member_id, None)
    if not live.pending_syncs:
        turn.deadlines.disarm((SYNC, group.group_id))
    if live.state is GroupState.STABLE:
        arm_session(turn, group, member)
        turn.reply(arrived.ticket, sync_response(live, member))
        return
    # of an earlier request on another connection
    fail_parked(turn, group, member, Code.REBALANCE_IN_PROGRESS)
    # The leader's request is parked like the others, so `store_assignment` has one way to answer.
    live.parked[member.member_id] = arrived.ticket
    # Assignments in a follower's SyncGroup are ignored, as in Kafka.
    if live.leader == request.member_id:
        store_assignment(turn, group, request.assignments)


def store_assignment(
    turn: Turn, group: ClassicGroup, requested: tuple[SyncGroupRequestAssignment, ...]
) -> None:
    """Save the assignment in the leader's SyncGroup; answer every parked SyncGroup with it.

    A member that the leader left out gets an empty assignment; assignments of unknown members are
    ignored. If the group is too large for one record, every member gets UNKNOWN_SERVER_ERROR and
    joins again, as in Kafka.
    """
    live = group.live
    assignments = {
        assigned.member_id: assigned.assignment
        for assigned in requested
        if assigned.member_id in live.members
    }
    # the parts of a group's record that may grow long
    metadata_bytes = sum(len(member.metadata(live.protocol)) for member in live.members.values())
    if metadata_bytes + sum(map(len, assignments.values())) > MAX_GROUP_BYTES:
        turn.note(
            "error",
            f"group {group.group_id} is not saved: the metadata and assignments of its members "
            f"are more than {MAX_GROUP_BYTES} bytes",
        )
        # Parked members could not heartbeat, so their sessions start anew before they rejoin.
        for member in live.members.values():
            arm_session(turn, group, member)
            fail_parked(turn, group, member, Code.UNKNOWN_SERVER_ERROR)
        prepare_rebalance(turn, group)
        return
    for member in live.members.values():
        member.assignment = bytes(assignments.get(member.member_id, b""))
    # Saved before the first response: a member that knows its assignment must find it again after
    # a crash of the broker.
    live.transition_to(GroupState.STABLE, turn.now)
    turn.emit(group.to_record())
    for member in live.members.values():
        # A member that has not sent SyncGroup was free to heartbeat: its session goes on.
        ticket = live.parked.pop(member.member_id, None)
        if ticket is not None:
            turn.reply(ticket, sync_response(live, member))
            arm_session(turn, group, member)


def sync_response(live: ClassicGroupLiveState, member: ClassicGroupMember) -> SyncGroupResponse:
    """Return the SyncGroup response with the assignment that the leader made for the member."""
    return SyncGroupResponse(
        protocol_type=live.protocol_type, protocol_name=live.protocol, assignment=member.assignment
    )
