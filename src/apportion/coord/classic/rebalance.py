"""The rebalance of a classic group: a barrier that opens, waits for every member, and closes.

`prepare_rebalance` opens it. It closes when every member has joined (`complete_join_if_all_joined`)
or at the deadline JOIN (`expire_join`); then `complete_join` begins a generation. The first
rebalance of an empty group waits `group.initial.rebalance.delay.ms` for more members, and again as
long as new ones come, up to the rebalance timeout. The essay on the whole cycle is in `states.py`.

A member's JoinGroup or SyncGroup is parked until then, and answered, or failed with an error. A
parked request whose connection has closed gets nothing (`Turn.reply`); the group goes on as if it
had been answered. Removal forgets a member, its session and its parked request, whatever the
reason: leaving, silence, lateness. The caller decides on a rebalance, because several members may
go at once.
"""

from apportion.coord.classic.live_state import ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.classic_protocol import check_group_id, join_error
from apportion.coord.group import checked_member
from apportion.coord.group_counts import Removal
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.errors import Code, Refused
from apportion.machine import Ticket
from apportion.wire.group_states import GroupState
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

JOIN = "classic join"
SYNC = "classic sync"
"""Deadlines of a group: every member must have sent JoinGroup; every member must have sent
SyncGroup.
"""
MIN_REJOIN_WAIT_MS = 1_000  # for static members that are away

JoinedMembers = tuple[JoinGroupResponseMember, ...]


def checked_caller(
    turn: Turn, request: SyncGroupRequest | HeartbeatRequest
) -> tuple[ClassicGroup, ClassicGroupMember]:
    """Return the group and the member that sent a SyncGroup or Heartbeat of any generation.

    Errors, in this order: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID (also without such a classic group),
    FENCED_INSTANCE_ID.
    """
    check_group_id(request.group_id)
    group = turn.ledger.classic_group_or_none(request.group_id)
    # Not GROUP_ID_NOT_FOUND, as in Kafka: after UNKNOWN_MEMBER_ID every client joins again.
    if group is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"There is no classic group {request.group_id}.")
    live = group.live
    return group, checked_member(
        live.members, live.instances, request.member_id, request.group_instance_id
    )


def resume_lost_rebalance(turn: Turn, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Begin the rebalance again that a crash of the broker has lost, for a member that knows of it.

    The caller tells the member to join again. Its session restarts, since it may be nearly over;
    the rebalance timeout ends the membership of one that goes on with heartbeats and does not join.
    """
    arm_session(turn, group, member)
    if group.live.state is not GroupState.PREPARING_REBALANCE:
        prepare_rebalance(turn, group)


def park_join(turn: Turn, group: ClassicGroup, member: ClassicGroupMember, ticket: Ticket) -> None:
    """Park a member's JoinGroup for the next generation, and go on with the rebalance.

    An earlier JoinGroup of the member gets REBALANCE_IN_PROGRESS.
    """
    if group.live.state is GroupState.PREPARING_REBALANCE:
        fail_parked(turn, group, member, Code.REBALANCE_IN_PROGRESS)
    else:
        _open_rebalance(turn, group)
    group.live.parked[member.member_id] = ticket
    complete_join_if_all_joined(turn, group)


def prepare_or_complete_join(turn: Turn, group: ClassicGroup) -> None:
    """Start a rebalance, or complete the open one, after a change of the group's members.

    Members change when one joins, leaves or expires, or has other assignors than before.
    """
    if group.live.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(turn, group)
    else:
        prepare_rebalance(turn, group)


def prepare_rebalance(turn: Turn, group: ClassicGroup) -> None:
    """Move a classic group to PreparingRebalance and wait for all members to rejoin.

    Members that waited for an assignment get REBALANCE_IN_PROGRESS for their SyncGroup.
    """
    _open_rebalance(turn, group)
    complete_join_if_all_joined(turn, group)


def _open_rebalance(turn: Turn, group: ClassicGroup) -> None:
    """Move a classic group to PreparingRebalance; the caller completes it if all have joined."""
    live = group.live
    # As in Kafka, the generation ends without an assignment, so that nobody can be given one of it
    # later.
    if live.state is GroupState.COMPLETING_REBALANCE:
        for member in live.members.values():
            member.assignment = b""
            # a parked member cannot heartbeat: its session may be over
            if member.member_id in live.parked:
                arm_session(turn, group, member)
            fail_parked(turn, group, member, Code.REBALANCE_IN_PROGRESS)
    # The deadline SYNC of this generation must not remove members of the next one, which have a
    # whole rebalance timeout again.
    live.pending_syncs.clear()
    turn.deadlines.disarm((SYNC, group.group_id))
    live.transition_to(GroupState.PREPARING_REBALANCE, turn.now)
    if live.previous_state is GroupState.EMPTY:
        # The members of an application start one after the other. Without the delay each of them
        # would cost a rebalance.
        delay_ms = turn.settings.group_initial_rebalance_delay_ms
        live.has_newcomers = False
        live.initial_delay_left_ms = max(live.rebalance_timeout_ms() - delay_ms, 0)
        _arm_deadline(turn, JOIN, group, delay_ms)
    else:
        _arm_deadline(turn, JOIN, group, live.rebalance_timeout_ms())


def complete_join_if_all_joined(turn: Turn, group: ClassicGroup) -> None:
    """Complete the group's open rebalance if every member has joined, and no member id is pending.

    The first rebalance of an empty group always waits for its deadline.
    """
    live = group.live
    if (
        # As in Kafka, the timer of the initial delay alone completes the first rebalance.
        live.state is GroupState.PREPARING_REBALANCE
        and live.previous_state is not GroupState.EMPTY
        and len(live.parked) == len(live.members)
        and not live.pending_joins
    ):
        complete_join(turn, group)


def complete_join(turn: Turn, group: ClassicGroup) -> None:
    """Begin the group's new generation, and answer every parked JoinGroup.

    The phase is over when all members have joined, or with the time to join. Members that have not
    joined are removed, but for those that `may_miss_generation`. Without members the group becomes
    empty, which is saved. If only static members are left and none has joined, nobody could lead:
    they get another rebalance timeout, of at least a second because their own may be 0.
    """
    live = group.live
    turn.deadlines.disarm((JOIN, group.group_id))
    _remove_late_members(
        turn,
        group,
        [
            member
            for member in live.members.values()
            if member.member_id not in live.parked and not may_miss_generation(live, member)
        ],
        "join",
    )
    leader = live.leader
    # Only a member with a parked JoinGroup can be told that it leads. Kafka takes any such member,
    # by the order of a hash table; the first by age makes every run repeatable.
    if leader not in live.parked:
        leader = next((name for name in live.members if name in live.parked), None)
        if leader is None and live.members:
            _arm_deadline(turn, JOIN, group, max(live.rebalance_timeout_ms(), MIN_REJOIN_WAIT_MS))
            return
    # After the late members are gone: the protocols that they lack no longer matter.
    live.start_generation(leader, turn.now)
    if leader is None:
        # No SyncGroup will save this generation. The record also holds the time from which the
        # retention of the offsets counts (KIP-211).
        turn.emit(group.to_record())
        return
    # Once, and for the leader alone: a list for every member would grow with the square of the
    # group.
    members = members_for_leader(live)
    for member in live.members.values():
        ticket = live.parked.pop(member.member_id, None)
        if ticket is not None:
            leads = member.member_id == leader
            turn.reply(ticket, join_response(live, member, members if leads else ()))
        # From here on a waiting member counts as alive, and its own session timeout replaces the
        # five minutes of a new one.
        member.is_new = False
        arm_session(turn, group, member)
    # Heartbeats alone would keep a member that never sends SyncGroup, and nobody would read its
    # partitions.
    _arm_deadline(turn, SYNC, group, live.rebalance_timeout_ms())


def may_miss_generation(live: ClassicGroupLiveState, member: ClassicGroupMember) -> bool:
    """Return whether a member stays in the group if it does not join the next generation.

    A static member may be restarting, and keeps its place until its session ends (KIP-345). Not in
    the first generation after a start of the broker, whose number may be that of a lost one.
    """
    # A member that knows the lost generation would pass as one of the new generation, which may
    # have assigned its partitions to others: its commits would be accepted, and nothing would tell
    # it to join.
    return member.instance_id is not None and not live.is_restored


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


def expire_join(turn: Turn, key: Key) -> None:
    """Complete a classic group's rebalance without the members that have not joined in time.

    The coordinator calls it when the deadline JOIN is due. The first rebalance of a group instead
    waits again if members have joined since it last waited.
    """
    group = turn.ledger.classic_group_or_none(key[1])
    # A deadline tests its precondition again: an event of the same moment may have ended the
    # rebalance.
    if group is None or group.live.state is not GroupState.PREPARING_REBALANCE:
        return
    live = group.live
    if (
        live.previous_state is GroupState.EMPTY
        and live.has_newcomers
        and live.initial_delay_left_ms
    ):
        delay_ms = turn.settings.group_initial_rebalance_delay_ms
        wait_ms = min(delay_ms, live.initial_delay_left_ms)
        live.has_newcomers = False
        live.initial_delay_left_ms = max(live.initial_delay_left_ms - delay_ms, 0)
        _arm_deadline(turn, JOIN, group, wait_ms)
    else:
        complete_join(turn, group)


def expire_sync(turn: Turn, key: Key) -> None:
    """Remove the members without a SyncGroup in time (deadline SYNC), and start a rebalance."""
    group = turn.ledger.classic_group_or_none(key[1])
    if group is None or group.live.state not in (
        # Stable, too: the leader has synced, others may not have. A rebalance that has begun since
        # has its own deadline.
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ):
        return
    late = [group.live.members[member_id] for member_id in group.live.pending_syncs]
    if late:
        _remove_late_members(turn, group, late, "sync")
        prepare_rebalance(turn, group)


def _remove_late_members(
    turn: Turn, group: ClassicGroup, late: list[ClassicGroupMember], request: str
) -> None:
    """Remove the members of a classic group that sent no JoinGroup or SyncGroup in time.

    For the deadlines JOIN and SYNC. request: which of the two APIs, for the broker's log.
    """
    if late:
        turn.note(
            "info",
            f"group {group.group_id}: {len(late)} of {len(group.live.members)} members "
            f"did not {request} in time and are gone",
        )
    for member in late:
        remove_member(turn, group, member, Removal.REBALANCE_TIMEOUT)


def _arm_deadline(turn: Turn, kind: str, group: ClassicGroup, wait_ms: int) -> None:
    turn.deadlines.arm((kind, group.group_id), turn.now.mono_ms + wait_ms)


def arm_session(
    turn: Turn, group: ClassicGroup, member: ClassicGroupMember, timeout_ms: int | None = None
) -> None:
    """Restart a member's session timeout, or give it `timeout_ms`."""
    wait_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    turn.deadlines.arm((SESSION, group.group_id, member.member_id), turn.now.mono_ms + wait_ms)


def remove_member(
    turn: Turn, group: ClassicGroup, member: ClassicGroupMember, reason: Removal
) -> None:
    """Remove a member; answer its parked JoinGroup or SyncGroup with UNKNOWN_MEMBER_ID."""
    release_member(turn, group, member, Code.UNKNOWN_MEMBER_ID)
    group.live.remove(member)
    group.live.counts.count_removed(reason)


def remove_pending_member(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Forget a member id from MEMBER_ID_REQUIRED with which nobody has joined yet."""
    turn.deadlines.disarm((SESSION, group.group_id, member_id))
    group.live.pending_joins.pop(member_id, None)


def release_member(turn: Turn, group: ClassicGroup, member: ClassicGroupMember, code: Code) -> None:
    """End a membership, which another one may take over; the caller removes it from the group.

    Its parked request, if any, gets `code`.
    """
    fail_parked(turn, group, member, code)
    turn.deadlines.disarm((SESSION, group.group_id, member.member_id))


def replace_member(
    turn: Turn, group: ClassicGroup, old: ClassicGroupMember, new: ClassicGroupMember
) -> None:
    """Give a static member's place to its successor, and fence the old id (KIP-345)."""
    # Now, because no later event would answer them: the old id is in no generation any more.
    release_member(turn, group, old, Code.FENCED_INSTANCE_ID)
    group.live.replace(old, new)
    group.live.counts.count_removed(Removal.FENCED)
    arm_session(turn, group, new)


def fail_parked(turn: Turn, group: ClassicGroup, member: ClassicGroupMember, code: Code) -> None:
    """Answer a classic member's parked JoinGroup or SyncGroup, if any, with an error code."""
    ticket = group.live.parked.pop(member.member_id, None)
    if ticket is None:
        return
    request = turn.waiting.request_or_none(ticket)
    # Without a connection the response goes nowhere, whatever it is.
    body: JoinGroupResponse | SyncGroupResponse = SyncGroupResponse(error_code=int(code))
    if request is not None and isinstance(request.request, JoinGroupRequest):
        named_id = "" if code is Code.UNKNOWN_MEMBER_ID else member.member_id
        body = join_error(code, named_id, request.version)
    turn.reply(ticket, body)
