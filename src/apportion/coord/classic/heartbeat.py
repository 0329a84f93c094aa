"""Heartbeat of the classic protocol: it restarts the session, and asks the member to rejoin.

Versions 0-4.
"""

from apportion.coord.classic import rebalance
from apportion.coord.classic.rebalance import arm_session, checked_caller
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Arrived
from apportion.wire.group_states import GroupState
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(turn: Turn, arrived: Arrived) -> None:
    """Answer a classic group's Heartbeat: restart the member's session, or ask it to rejoin.

    Errors, in this order: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS (to rejoin; the session restarts in that case, too).
    """
    request: HeartbeatRequest = arrived.request
    group, member = checked_caller(turn, request)
    if group.has_lost_generation(request.generation_id):
        # Through the module: the simulator replaces the guard by a faulty one (docs/guards.md).
        rebalance.resume_lost_rebalance(turn, group, member)
        told = HeartbeatResponse(error_code=int(Code.REBALANCE_IN_PROGRESS))
        turn.reply(arrived.ticket, told)
        return
    group.check_generation(request.generation_id)
    # Also while a rebalance waits for the member: the rebalance timeout, not its session, says how
    # late it may join.
    arm_session(turn, group, member)
    group.live.counts.heartbeats += 1
    code = (
        Code.REBALANCE_IN_PROGRESS
        # In CompletingRebalance the answer is NONE, as in Kafka: the member has joined, and syncs
        # next.
        if group.live.state is GroupState.PREPARING_REBALANCE
        else Code.NONE
    )
    turn.reply(arrived.ticket, HeartbeatResponse(error_code=int(code)))
