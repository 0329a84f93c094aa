"""How members go without saying so: sessions that run out, revocations that take too long. And what their going does."""

from apportion.coord import records
from apportion.coord.incremental.beat import AWAY
from apportion.coord.incremental.reconcile import State
from apportion.coord.incremental.state import IncrementalGroup, Member
from apportion.coord.incremental.targets import metadata_hash
from apportion.coord.turn import Turn
from apportion.deadlines import Key

SESSION = "session"
REBALANCE = "rebalance"


def arm_session(turn: Turn, group: IncrementalGroup, member: Member) -> None:
    """The member has a whole session timeout from now."""
    at_ms = turn.now.mono_ms + turn.settings.group_consumer_session_timeout_ms
    turn.deadlines.arm((SESSION, group.group_id, member.member_id), at_ms)


def arm_rebalance(turn: Turn, group: IncrementalGroup, member: Member) -> None:
    """A member that has to give something up has its own rebalance timeout from now; any other has no such deadline."""
    key = (REBALANCE, group.group_id, member.member_id)
    if must_revoke(member):
        turn.deadlines.arm(key, turn.now.mono_ms + member.said.rebalance_timeout_ms)
    else:
        turn.deadlines.disarm(key)


def rearm(turn: Turn, group: IncrementalGroup) -> None:
    """After a recovery every member has a whole session from now, and as long again to give up what it must."""
    for member in group.saved.members.values():
        arm_session(turn, group, member)
        arm_rebalance(turn, group, member)


def disarm(turn: Turn, group: IncrementalGroup, member: Member) -> None:
    """Nothing is due for the member."""
    turn.deadlines.disarm((SESSION, group.group_id, member.member_id))
    turn.deadlines.disarm((REBALANCE, group.group_id, member.member_id))


def must_revoke(member: Member) -> bool:
    """The group waits for this member to give something up."""
    return member.state is State.UNREVOKED and member.epoch != AWAY


def dismiss(turn: Turn, group: IncrementalGroup, member: Member) -> None:
    """The member is gone and the group has a new epoch; the target waits for the next heartbeat of somebody who is left."""
    disarm(turn, group, member)
    turn.emit_all(records.member_tombstones(group.group_id, member.member_id))
    hashed = metadata_hash(group, turn.topics)
    turn.emit(records.group_epoch(group.group_id, group.saved.epoch + 1, hashed))


def session(turn: Turn, key: Key) -> None:
    """A member that was silent for a whole session timeout is gone."""
    if found := _named(turn, key):
        group, member = found
        turn.note("info", f"group {group.group_id}: member {member.member_id} was silent for too long and is gone")
        dismiss(turn, group, member)


def rebalance(turn: Turn, key: Key) -> None:
    """A member that still has not given up what it must is gone."""
    found = _named(turn, key)
    if found and must_revoke(found[1]):
        group, member = found
        turn.note("info", f"group {group.group_id}: member {member.member_id} took too long to revoke and is gone")
        dismiss(turn, group, member)


def _named(turn: Turn, key: Key) -> tuple[IncrementalGroup, Member] | None:
    """The group and the member of a deadline, if both are still there."""
    _, group_id, member_id = key
    group = turn.ledger.incremental_or_none(group_id)
    member = None if group is None else group.saved.members.get(member_id)
    return None if group is None or member is None else (group, member)
