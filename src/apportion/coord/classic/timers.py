"""Session timeouts of classic members, and the state of a group after its log was replayed."""

from apportion.coord.classic import rebalance
from apportion.coord.classic.rebalance import (
    arm_session,
    release_member,
    remove_member,
    remove_pending_member,
)
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.group_counts import Removal
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.errors import Code
from apportion.wire.group_states import GroupState


def expire_session(turn: Turn, key: Key) -> None:
    """Remove a classic member whose session expired, or void an unused member id.

    A member with a parked request cannot heartbeat, so it counts as alive. A new member is the
    exception: it has a fixed timeout, because if its JoinGroup was lost nobody would ever miss it.
    """
    _, group_id, member_id = key
    group = turn.ledger.classic_group_or_none(group_id)
    if group is None:
        return
    # A pending id holds up an open rebalance, so the others may go on without it now.
    if member_id in group.live.pending_joins:
        remove_pending_member(turn, group, member_id)
        rebalance.complete_join_if_all_joined(turn, group)
    elif (member := group.live.members.get(member_id)) is not None and (
        member.is_new or member_id not in group.live.parked
    ):
        turn.note(
            "info", f"group {group_id}: member {member_id} was silent for too long and is gone"
        )
        remove_member(turn, group, member, Removal.SESSION_TIMEOUT)
        if group.live.state is not GroupState.EMPTY:
            rebalance.prepare_or_complete_join(turn, group)


def restore_after_start(turn: Turn, group: ClassicGroup) -> None:
    """Restore a classic group after a start of the broker.

    Members may know generations later than the saved one, whose assignments were never saved.
    """
    restore_group(turn, group)
    group.live.is_restored = True


def restore_group(turn: Turn, group: ClassicGroup) -> None:
    """Restore a classic group from its saved record; give every member a whole session.

    A group above `group.max.size` starts a rebalance at once; so does one without a leader, which
    comes from a consumer group and whose generation nobody assigned.
    """
    group.restore()
    # The time for which the broker was down does not count: no member could heartbeat.
    for member in group.live.members.values():
        arm_session(turn, group, member)
    # The setting was lowered. As in Kafka, all join again, and JoinGroup refuses those that are too
    # many.
    if len(group.live.members) > turn.settings.group_max_size:
        turn.note(
            "info",
            f"group {group.group_id} has more than {turn.settings.group_max_size} "
            "members, who must join again",
        )
        rebalance.prepare_rebalance(turn, group)
    elif group.live.members and group.live.leader is None:  # see the docstring
        rebalance.prepare_rebalance(turn, group)


def release_members(turn: Turn, group: ClassicGroup, code: Code) -> None:
    """Answer every parked request of a classic group with `code`; disarm its deadlines.

    The group is about to be replaced or deleted.
    """
    # No deadline may stay behind: it would fire for the next group with this id.
    for member in group.live.members.values():
        release_member(turn, group, member, code)
    for member_id in group.live.pending_joins:
        turn.deadlines.disarm((SESSION, group.group_id, member_id))
    turn.deadlines.disarm((rebalance.JOIN, group.group_id))
    turn.deadlines.disarm((rebalance.SYNC, group.group_id))
