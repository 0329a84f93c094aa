"""The members of a classic group: how they come, wait for their responses, and go.

A member's JoinGroup or SyncGroup is parked until the group is ready (`rebalance.py`), and then
completed, or failed with an error. A parked request whose connection has closed gets nothing
(`Turn.reply`); the group goes on as if it had been answered.

Removal forgets a member, its session and its parked requests, whatever the reason: leaving,
silence, lateness. The caller decides on a rebalance, because several members may go at once.
"""

from apportion.coord.classic.live_state import ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.classic_protocol import Joiner, join_error
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Ticket
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from apportion.wire.messages.sync_group import SyncGroupResponse

# Kafka has no bound. But any client may ask for ids, and each costs memory for a session timeout.
MAX_PENDING_JOINS = 10_000
MIN_PENDING_JOINS = 100
"""Bounds for the number of pending member ids; within them, `group.max.size` is the limit."""

JoinedMembers = tuple[JoinGroupResponseMember, ...]


def require_member_id(turn: Turn, group: ClassicGroup, joiner: Joiner) -> None:
    """Answer JoinGroup with MEMBER_ID_REQUIRED and a new id (KIP-394).

    The id is valid for one session timeout. The oldest pending ids are dropped when there are too
    many.
    """
    pending = group.live.pending_joins
    while len(pending) >= max(
        MIN_PENDING_JOINS, min(MAX_PENDING_JOINS, turn.settings.group_max_size)
    ):
        remove_pending_member(turn, group, next(iter(pending)))
    pending[joiner.member_id] = None
    turn.deadlines.arm(
        (SESSION, group.group_id, joiner.member_id), turn.now.mono_ms + joiner.session_timeout_ms
    )
    turn.reply(joiner.ticket, join_error(Code.MEMBER_ID_REQUIRED, joiner.member_id, joiner.version))


def replace_member(
    turn: Turn, group: ClassicGroup, old: ClassicGroupMember, joiner: Joiner
) -> ClassicGroupMember:
    """Give a static member's place and assignment to its successor, and return that (KIP-345).

    The old id is fenced, though the successor may have the same one.
    """
    # Now, because no later event would answer them: the old id is in no generation any more.
    release_member(turn, group, old, Code.FENCED_INSTANCE_ID)
    new = new_member(joiner)
    new.assignment = old.assignment
    group.live.replace(old, new)
    arm_session(turn, group, new)
    return new


def new_member(joiner: Joiner) -> ClassicGroupMember:
    """Return a new member with the metadata of its JoinGroup, not in the group yet."""
    member = ClassicGroupMember(
        joiner.member_id, joiner.instance_id, joiner.caller, joiner.protocol_type
    )
    member.session_timeout_ms = joiner.session_timeout_ms
    member.rebalance_timeout_ms = joiner.rebalance_timeout_ms
    member.protocols = joiner.protocols
    return member


def arm_session(
    turn: Turn, group: ClassicGroup, member: ClassicGroupMember, timeout_ms: int | None = None
) -> None:
    """Restart a member's session timeout, or give it `timeout_ms`."""
    wait_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    turn.deadlines.arm((SESSION, group.group_id, member.member_id), turn.now.mono_ms + wait_ms)


def remove_member(turn: Turn, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Remove a member; answer its parked JoinGroup or SyncGroup with UNKNOWN_MEMBER_ID."""
    fail_pending_requests(turn, group, member, Code.UNKNOWN_MEMBER_ID)
    turn.deadlines.disarm((SESSION, group.group_id, member.member_id))
    group.live.remove(member)


def remove_pending_member(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Forget a member id from MEMBER_ID_REQUIRED with which nobody has joined yet."""
    turn.deadlines.disarm((SESSION, group.group_id, member_id))
    group.live.pending_joins.pop(member_id, None)


def release_member(turn: Turn, group: ClassicGroup, member: ClassicGroupMember, code: Code) -> None:
    """End a membership that another one takes over, or whose group is about to go.

    Its parked requests get `code`, with its member id.
    """
    fail_pending_requests(turn, group, member, code, member_id=member.member_id)
    turn.deadlines.disarm((SESSION, group.group_id, member.member_id))


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


def static_member_response(
    live: ClassicGroupLiveState, member: ClassicGroupMember, led_by: str | None, version: int
) -> JoinGroupResponse:
    """Return JoinGroup's response to a restarted static member in a stable group.

    From version 9 on it names the new member as the leader and sets SkipAssignment (KIP-814).
    Before that it names the predecessor's id as the leader, so that the new member does not assign;
    where the id is the same, it names no leader.
    led_by: the member id of the leader before the replacement.
    """
    if version < 9:
        return join_response(live, member, led_by="" if led_by == member.member_id else led_by)
    leads = live.leader == member.member_id
    return join_response(
        live, member, members_for_leader(live) if leads else (), skips_assignment=leads
    )


def sync_response(live: ClassicGroupLiveState, member: ClassicGroupMember) -> SyncGroupResponse:
    """Return the SyncGroup response with the assignment that the leader made for the member."""
    return SyncGroupResponse(
        protocol_type=live.protocol_type, protocol_name=live.protocol, assignment=member.assignment
    )


def park_join(
    turn: Turn, live: ClassicGroupLiveState, member: ClassicGroupMember, ticket: Ticket
) -> None:
    """Park a member's JoinGroup; answer an earlier one of the member with REBALANCE_IN_PROGRESS."""
    fail_pending_join(
        turn, live.park_join(member, ticket), Code.REBALANCE_IN_PROGRESS, member.member_id
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
