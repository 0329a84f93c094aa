"""Responses to JoinGroup and SyncGroup, and the completion of those that are parked.

A parked request whose connection has closed gets nothing (`Turn.reply`); the group goes on as if it
had been answered. In an error response the protocol name is null, which JoinGroup writes as ""
before version 7.
"""

from apportion.coord.classic.live_state import ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic_protocol import join_error
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Ticket
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupResponse

JoinedMembers = tuple[JoinGroupResponseMember, ...]


def members_for_leader(live: ClassicGroupLiveState) -> JoinedMembers:
    """Return every member with its subscription, for the leader's JoinGroup response."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            # KIP-345: assignors order members by instance id first, so a restart moves no
            # partition.
            group_instance_id=member.instance_id,
            # Of the chosen protocol only: the leader runs just this assignor.
            metadata=member.metadata(live.protocol),
        )
        for member in live.members.values()
    )


def join_response(
    live: ClassicGroupLiveState,
    member: ClassicGroupMember,
    members: JoinedMembers = (),
    *,
    led_by: str | None = None,
    skips_assignment: bool = False,
) -> JoinGroupResponse:
    """Return JoinGroup's response to a member of a classic group's current generation.

    led_by: the leader to name in place of the real one; None for the real one.
    """
    return JoinGroupResponse(
        generation_id=live.generation,
        protocol_type=live.protocol_type,
        protocol_name=live.protocol,
        leader=(live.leader or "") if led_by is None else led_by,
        skip_assignment=skips_assignment,
        member_id=member.member_id,
        members=members,
    )


def sync_response(live: ClassicGroupLiveState, member: ClassicGroupMember) -> SyncGroupResponse:
    """Return the SyncGroup response with the assignment that the leader made for the member."""
    return SyncGroupResponse(
        protocol_type=live.protocol_type, protocol_name=live.protocol, assignment=member.assignment
    )


def complete_pending_join(
    turn: Turn, live: ClassicGroupLiveState, member: ClassicGroupMember, members: JoinedMembers = ()
) -> None:
    """Answer a classic member's parked JoinGroup, if any, with the current generation."""
    ticket = live.unpark_join(member)
    if ticket is not None:
        turn.reply(ticket, join_response(live, member, members))


def complete_pending_sync(
    turn: Turn, live: ClassicGroupLiveState, member: ClassicGroupMember
) -> None:
    """Answer a classic member's parked SyncGroup, if any, with its assignment."""
    ticket, member.sync_ticket = member.sync_ticket, None
    if ticket is not None:
        turn.reply(ticket, sync_response(live, member))


def fail_pending_requests(
    turn: Turn, group: ClassicGroup, member: ClassicGroupMember, code: Code, *, member_id: str = ""
) -> None:
    """Answer a classic member's parked JoinGroup and SyncGroup, if any, with an error.

    member_id: the one to name in the JoinGroup response.
    """
    fail_pending_join(turn, group.live.unpark_join(member), code, member_id)
    fail_pending_sync(turn, member, code)


def fail_pending_join(turn: Turn, ticket: Ticket | None, code: Code, member_id: str) -> None:
    """Answer the JoinGroup parked under `ticket`, if any, with `code`."""
    request = None if ticket is None else turn.waiting.request_or_none(ticket)
    if request is not None:
        turn.reply(request.ticket, join_error(code, member_id, request.version))


def fail_pending_sync(turn: Turn, member: ClassicGroupMember, code: Code) -> None:
    """Answer a classic member's parked SyncGroup, if any, with an error code."""
    ticket, member.sync_ticket = member.sync_ticket, None
    if ticket is not None:
        turn.reply(ticket, SyncGroupResponse(error_code=int(code)))
