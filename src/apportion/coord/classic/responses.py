"""What those who wait on a parked ticket are told. Whose connection is closed is told nothing; the group goes on as if it were.

A refusal has no protocol name: null, which versions before 7 of JoinGroup write as "".
"""

from apportion.coord.classic.state import ClassicGroup, ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Ticket
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupResponse

JoinedMembers = tuple[JoinGroupResponseMember, ...]


def members_for_leader(live: ClassicGroupLiveState) -> JoinedMembers:
    """All members with what they say in the chosen protocol, as the leader sees them."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata(live.protocol)
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
    """The current generation, as a member of it hears of it. led_by: None for who really leads."""
    return JoinGroupResponse(
        generation_id=live.generation,
        protocol_type=live.protocol_type,
        protocol_name=live.protocol,
        leader=(live.leader or "") if led_by is None else led_by,
        skip_assignment=skips_assignment,
        member_id=member.member_id,
        members=members,
    )


def join_error(code: Code, member_id: str, version: int) -> JoinGroupResponse:
    """A join that came to nothing."""
    return JoinGroupResponse(error_code=int(code), protocol_name=None if version >= 7 else "", member_id=member_id)


def sync_response(live: ClassicGroupLiveState, member: ClassicGroupMember) -> SyncGroupResponse:
    """What the leader gave the member."""
    return SyncGroupResponse(protocol_type=live.protocol_type, protocol_name=live.protocol, assignment=member.assignment)


def complete_pending_join(turn: Turn, live: ClassicGroupLiveState, member: ClassicGroupMember, members: JoinedMembers = ()) -> None:
    """The member waits no more, and knows the current generation."""
    ticket = live.unpark_join(member)
    if ticket is not None and turn.unpark(ticket) is not None:
        turn.reply(ticket, join_response(live, member, members))


def complete_pending_sync(turn: Turn, live: ClassicGroupLiveState, member: ClassicGroupMember) -> None:
    """The member waits no more, and knows its assignment."""
    ticket, member.sync_ticket = member.sync_ticket, None
    if ticket is not None and turn.unpark(ticket) is not None:
        turn.reply(ticket, sync_response(live, member))


def fail_pending_requests(turn: Turn, group: ClassicGroup, member: ClassicGroupMember, code: Code, member_id: str = "") -> None:
    """The member waits for nothing any more, because of `code`. member_id: what a join is told that its id is."""
    fail_pending_join(turn, group.live.unpark_join(member), code, member_id)
    fail_pending_sync(turn, member, code)


def fail_pending_join(turn: Turn, ticket: Ticket | None, code: Code, member_id: str) -> None:
    """The join that was parked on `ticket`, if there was one, came to nothing."""
    version = turn.unpark(ticket)
    if ticket is not None and version is not None:
        turn.reply(ticket, join_error(code, member_id, version))


def fail_pending_sync(turn: Turn, member: ClassicGroupMember, code: Code) -> None:
    """The sync that the member waits for, if it does, came to nothing."""
    ticket, member.sync_ticket = member.sync_ticket, None
    if ticket is not None and turn.unpark(ticket) is not None:
        turn.reply(ticket, SyncGroupResponse(error_code=int(code)))
