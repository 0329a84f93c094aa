"""How members go without saying so: sessions that run out, revocations that take too long. And what their going does.

A classic member revokes by joining again, so it is measured by when it does that, and by when it syncs after a join.
"""

from apportion.coord import records
from apportion.coord.consumer.beat import AWAY
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.targets import metadata_hash
from apportion.coord.turn import Turn
from apportion.deadlines import Key

SESSION = "session"
REBALANCE = "rebalance"
REJOIN = "rejoin"
SYNC = "sync after join"
OVERDUE_REQUESTS = {REJOIN: "join again", SYNC: "sync"}
"""What a classic member owes by such a deadline."""


def arm_session(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """The member has a whole session timeout from now: the group's, or its own if it is a classic one."""
    classic = member.metadata.classic_member_metadata
    timeout_ms = turn.settings.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
    turn.deadlines.arm((SESSION, group.group_id, member.member_id), turn.now.mono_ms + timeout_ms)


def arm_rebalance(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """A member that has to give something up has its own rebalance timeout from now; any other has no such deadline."""
    key = (REBALANCE, group.group_id, member.member_id)
    if has_pending_revocation(member):
        turn.deadlines.arm(key, turn.now.mono_ms + member.metadata.rebalance_timeout_ms)
    else:
        turn.deadlines.disarm(key)


def arm_rejoin(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """A classic member that was told to join again has its rebalance timeout for it, from the first time that it was told."""
    key = (REJOIN, group.group_id, member.member_id)
    if key not in turn.deadlines:
        turn.deadlines.arm(key, turn.now.mono_ms + member.metadata.rebalance_timeout_ms)


def arm_sync(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """A classic member that has joined has its rebalance timeout to ask for its assignment."""
    turn.deadlines.disarm((REJOIN, group.group_id, member.member_id))
    turn.deadlines.arm((SYNC, group.group_id, member.member_id), turn.now.mono_ms + member.metadata.rebalance_timeout_ms)


def complete_sync(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """A classic member has its assignment, and a whole session from now."""
    turn.deadlines.disarm((SYNC, group.group_id, member.member_id))
    arm_session(turn, group, member)


def restore_group(turn: Turn, group: ConsumerGroup) -> None:
    """The group goes on where its log left it, and no member is held to what was before."""
    for member in group.saved.members.values():
        restore_deadlines(turn, group, member)


def restore_deadlines(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """After a recovery the member has a whole session from now, and as long again to give up what it must."""
    arm_session(turn, group, member)
    arm_rebalance(turn, group, member)


def disarm(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Nothing is due for the member."""
    for kind in (SESSION, REBALANCE, REJOIN, SYNC):
        turn.deadlines.disarm((kind, group.group_id, member.member_id))


def has_pending_revocation(member: ConsumerGroupMember) -> bool:
    """The group waits for this member to give something up, which it will say in a heartbeat."""
    return member.state is MemberState.UNREVOKED and member.epoch != AWAY and not member.is_classic


def remove_members(turn: Turn, group: ConsumerGroup, *members: ConsumerGroupMember) -> None:
    """The members are gone and the group has a new epoch; the target waits for the next heartbeat of somebody who is left.

    Or the group itself is gone: those who are left are a group of another kind.
    """
    if turn.on_members_leaving(turn, group, members):
        return
    for member in members:
        disarm(turn, group, member)
        turn.emit_all(records.member_tombstones(group.group_id, member.member_id))
    hashed = metadata_hash(group, turn.topics)
    turn.emit(records.group_epoch(group.group_id, group.saved.epoch + 1, hashed))


def expire_session(turn: Turn, key: Key) -> None:
    """A member that was silent for a whole session timeout is gone."""
    if found := _member_of_deadline_or_none(turn, key):
        group, member = found
        turn.note("info", f"group {group.group_id}: member {member.member_id} was silent for too long and is gone")
        remove_members(turn, group, member)


def expire_revocation(turn: Turn, key: Key) -> None:
    """A member that still has not given up what it must is gone."""
    found = _member_of_deadline_or_none(turn, key)
    if found and has_pending_revocation(found[1]):
        group, member = found
        turn.note("info", f"group {group.group_id}: member {member.member_id} took too long to revoke and is gone")
        remove_members(turn, group, member)


def expire_classic_member(turn: Turn, key: Key) -> None:
    """A classic member that did not join again, or did not sync, for a whole rebalance timeout is gone."""
    found = _member_of_deadline_or_none(turn, key)
    if found and found[1].is_classic:
        group, member = found
        turn.note(
            "info", f"group {group.group_id}: member {member.member_id} took too long to {OVERDUE_REQUESTS[key[0]]} and is gone"
        )
        remove_members(turn, group, member)


def _member_of_deadline_or_none(turn: Turn, key: Key) -> tuple[ConsumerGroup, ConsumerGroupMember] | None:
    """The group and the member of a deadline, if both are still there."""
    _, group_id, member_id = key
    group = turn.ledger.consumer_group_or_none(group_id)
    member = None if group is None else group.saved.members.get(member_id)
    return None if group is None or member is None else (group, member)
