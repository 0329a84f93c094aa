"""The rebalance of a classic group: a barrier that opens, waits for every member, and closes.

`prepare_rebalance` opens it. It closes when every member has joined (`complete_join_if_all_joined`)
or at the deadline JOIN (`expire_join`); then `complete_join` begins a generation. The first
rebalance of an empty group waits `group.initial.rebalance.delay.ms` for more members, and again as
long as new ones come, up to the rebalance timeout. The essay on the whole cycle is in `state.py`.
"""

from apportion.coord.classic.live_state import ClassicGroupMember
from apportion.coord.classic.membership import (
    arm_session,
    complete_pending_join,
    fail_pending_sync,
    members_for_leader,
    remove_member,
)
from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic.states import ClassicGroupState
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.errors import Code

JOIN = "classic join"
SYNC = "classic sync"
"""Deadlines of a group: every member must have sent JoinGroup; every member must have sent
SyncGroup.
"""
MIN_REJOIN_WAIT_MS = 1_000  # for static members that are away


def prepare_or_complete_join(turn: Turn, group: ClassicGroup) -> None:
    """Start a rebalance, or complete the open one, after a change of the group's members.

    Members change when one joins, leaves or expires, or has other assignors than before.
    """
    if group.live.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(turn, group)
    else:
        prepare_rebalance(turn, group)


def prepare_rebalance(turn: Turn, group: ClassicGroup) -> None:
    """Move a classic group to PreparingRebalance and wait for all members to rejoin.

    Members that waited for an assignment get REBALANCE_IN_PROGRESS for their SyncGroup.
    """
    live = group.live
    # As in Kafka, the generation ends without an assignment, so that nobody can be given one of it
    # later.
    if live.state is ClassicGroupState.COMPLETING_REBALANCE:
        for member in live.members.values():
            member.assignment = b""
            # a parked member cannot heartbeat: its session may be over
            if member.sync_ticket is not None:
                arm_session(turn, group, member)
            fail_pending_sync(turn, member, Code.REBALANCE_IN_PROGRESS)
    # The deadline SYNC of this generation must not remove members of the next one, which have a
    # whole rebalance timeout again.
    live.pending_syncs.clear()
    turn.deadlines.disarm((SYNC, group.group_id))
    # Before the transition: afterwards EMPTY is only the previous state.
    was_empty = live.state is ClassicGroupState.EMPTY
    live.transition_to(ClassicGroupState.PREPARING_REBALANCE, turn.now.wall_ms)
    if was_empty:
        # The members of an application start one after the other. Without the delay each of them
        # would cost a rebalance.
        delay_ms = turn.settings.group_initial_rebalance_delay_ms
        live.has_newcomers, live.initial_delay_left_ms = (
            False,
            max(live.rebalance_timeout_ms() - delay_ms, 0),
        )
        _arm_deadline(turn, JOIN, group, delay_ms)
    # The JoinGroup that causes the rebalance is parked already; in a group of one nobody else is
    # missing.
    elif live.all_joined():
        complete_join(turn, group)
    else:
        _arm_deadline(turn, JOIN, group, live.rebalance_timeout_ms())


def complete_join_if_all_joined(turn: Turn, group: ClassicGroup) -> None:
    """Complete the group's open rebalance if every member has joined.

    The first rebalance of an empty group always waits for its deadline.
    """
    live = group.live
    if (
        # As in Kafka, the timer of the initial delay alone completes the first rebalance.
        live.state is ClassicGroupState.PREPARING_REBALANCE
        and live.previous_state is not ClassicGroupState.EMPTY
        and live.all_joined()
    ):
        complete_join(turn, group)


def complete_join(turn: Turn, group: ClassicGroup) -> None:
    """Begin the group's new generation, and answer every parked JoinGroup.

    The phase is over when all members have joined, or with the time to join. Dynamic members that
    have not joined are removed; static ones stay. Without members the group becomes empty, which is
    saved. If only static members are left and none has joined, nobody could lead: they get another
    rebalance timeout, of at least a second because their own may be 0.
    """
    live = group.live
    turn.deadlines.disarm((JOIN, group.group_id))
    _remove_late_members(
        turn,
        group,
        [
            member
            for member in live.members.values()
            # KIP-345: a static member may be restarting, and keeps its place until its session
            # ends.
            if member.join_ticket is None and member.instance_id is None
        ],
        "join",
    )
    leader = live.members.get(live.leader or "")
    # Only a member with a parked JoinGroup can be told that it leads. Kafka takes any such member,
    # by the order of a hash table; the first by age makes every run repeatable.
    if leader is None or leader.join_ticket is None:
        leader = next(
            (member for member in live.members.values() if member.join_ticket is not None), None
        )
        if leader is None and live.members:
            _arm_deadline(turn, JOIN, group, max(live.rebalance_timeout_ms(), MIN_REJOIN_WAIT_MS))
            return
        live.leader = None if leader is None else leader.member_id
    # After the late members are gone: the protocols that they lack no longer matter.
    live.protocol = None if leader is None else live.select_protocol()
    live.start_generation()
    if leader is None:
        live.transition_to(ClassicGroupState.EMPTY, turn.now.wall_ms)
        # No SyncGroup will save this generation. The record also holds the time from which the
        # retention of the offsets counts (KIP-211).
        turn.emit(group.to_record())
        return
    live.transition_to(ClassicGroupState.COMPLETING_REBALANCE, turn.now.wall_ms)
    # Once, and for the leader alone: a list for every member would grow with the square of the
    # group.
    members = members_for_leader(live)
    for member in live.members.values():
        complete_pending_join(turn, live, member, members if member is leader else ())
        # From here on a waiting member counts as alive, and its own session timeout replaces the
        # five minutes of a new one.
        member.is_new = False
        arm_session(turn, group, member)
        live.pending_syncs[member.member_id] = None
    # Heartbeats alone would keep a member that never sends SyncGroup, and nobody would read its
    # partitions.
    _arm_deadline(turn, SYNC, group, live.rebalance_timeout_ms())


def remove_pending_sync(turn: Turn, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Remove a classic member that has sent SyncGroup from those awaited; the last disarms SYNC."""
    pending = group.live.pending_syncs
    pending.pop(member.member_id, None)
    if not pending:
        turn.deadlines.disarm((SYNC, group.group_id))


def expire_join(turn: Turn, key: Key) -> None:
    """Complete a classic group's rebalance without the members that have not joined in time.

    The coordinator calls it when the deadline JOIN is due. The first rebalance of a group instead
    waits again if members have joined since it last waited.
    """
    group = turn.ledger.classic_group_or_none(key[1])
    # A deadline tests its precondition again: an event of the same moment may have ended the
    # rebalance.
    if group is None or group.live.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    live = group.live
    if (
        live.previous_state is ClassicGroupState.EMPTY
        and live.has_newcomers
        and live.initial_delay_left_ms
    ):
        delay_ms = turn.settings.group_initial_rebalance_delay_ms
        wait_ms = min(delay_ms, live.initial_delay_left_ms)
        live.has_newcomers, live.initial_delay_left_ms = (
            False,
            max(live.initial_delay_left_ms - delay_ms, 0),
        )
        _arm_deadline(turn, JOIN, group, wait_ms)
    else:
        complete_join(turn, group)


def expire_sync(turn: Turn, key: Key) -> None:
    """Remove the members without a SyncGroup in time (deadline SYNC), and start a rebalance."""
    group = turn.ledger.classic_group_or_none(key[1])
    if group is None or group.live.state not in (
        # Stable, too: the leader has synced, others may not have. A rebalance that has begun since
        # has its own deadline.
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.STABLE,
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
        remove_member(turn, group, member)


def _arm_deadline(turn: Turn, kind: str, group: ClassicGroup, wait_ms: int) -> None:
    turn.deadlines.arm((kind, group.group_id), turn.now.mono_ms + wait_ms)
