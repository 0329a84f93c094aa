"""What those who wait on a parked ticket are told. Whose connection is closed is told nothing; the group goes on as if it were.

A refusal has no protocol name: null, which versions before 7 of JoinGroup write as "".
"""

from apportion.coord.classic.state import ClassicGroup, Live, Member
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Ticket
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupResponse

Roll = tuple[JoinGroupResponseMember, ...]


def roll(live: Live) -> Roll:
    """All members with what they say in the chosen protocol, as the leader sees them."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata(live.protocol)
        )
        for member in live.members.values()
    )


def joined(
    live: Live, member: Member, members: Roll = (), *, led_by: str | None = None, skips_assignment: bool = False
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


def not_joined(code: Code, member_id: str, version: int) -> JoinGroupResponse:
    """A join that came to nothing."""
    return JoinGroupResponse(error_code=int(code), protocol_name=None if version >= 7 else "", member_id=member_id)


def synced(live: Live, member: Member) -> SyncGroupResponse:
    """What the leader gave the member."""
    return SyncGroupResponse(protocol_type=live.protocol_type, protocol_name=live.protocol, assignment=member.assignment)


def tell_joined(turn: Turn, live: Live, member: Member, members: Roll = ()) -> None:
    """The member waits no more, and knows the current generation."""
    ticket = live.unpark_join(member)
    if ticket is not None and turn.release(ticket) is not None:
        turn.reply(ticket, joined(live, member, members))


def tell_synced(turn: Turn, live: Live, member: Member) -> None:
    """The member waits no more, and knows its assignment."""
    ticket, member.sync = member.sync, None
    if ticket is not None and turn.release(ticket) is not None:
        turn.reply(ticket, synced(live, member))


def send_away(turn: Turn, group: ClassicGroup, member: Member, code: Code, member_id: str = "") -> None:
    """The member waits for nothing any more, because of `code`. member_id: what a join is told that its id is."""
    refuse_join(turn, group.live.unpark_join(member), code, member_id)
    refuse_sync(turn, member, code)


def refuse_join(turn: Turn, ticket: Ticket | None, code: Code, member_id: str) -> None:
    """The join that was parked on `ticket`, if there was one, came to nothing."""
    version = turn.release(ticket)
    if ticket is not None and version is not None:
        turn.reply(ticket, not_joined(code, member_id, version))


def refuse_sync(turn: Turn, member: Member, code: Code) -> None:
    """The sync that the member waits for, if it does, came to nothing."""
    ticket, member.sync = member.sync, None
    if ticket is not None and turn.release(ticket) is not None:
        turn.reply(ticket, SyncGroupResponse(error_code=int(code)))
