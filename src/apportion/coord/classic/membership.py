"""The removal of members from a classic group, whatever the reason: leaving, silence, lateness.

Removal forgets the member, its deadlines and its parked requests. The caller decides on a
rebalance, because several members may go at once.
"""

from apportion.coord.classic.live_state import ClassicGroupMember
from apportion.coord.classic.responses import fail_pending_requests
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.turn import Turn
from apportion.errors import Code


def remove_member(turn: Turn, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Remove a member; answer its parked JoinGroup or SyncGroup with UNKNOWN_MEMBER_ID."""
    fail_pending_requests(turn, group, member, Code.UNKNOWN_MEMBER_ID)
    turn.deadlines.disarm((SESSION, group.group_id, member.member_id))
    group.live.remove(member)


def remove_pending_member(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Forget a member id from MEMBER_ID_REQUIRED with which nobody has joined yet."""
    turn.deadlines.disarm((SESSION, group.group_id, member_id))
    group.live.pending_joins.pop(member_id, None)
