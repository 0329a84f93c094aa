"""Deadlines of the members of a consumer group.

A classic member revokes by rejoining, so it has deadlines for its JoinGroup and for the SyncGroup
after it instead of one for the revocation.
"""

from apportion.coord.consumer.beat import AWAY
from apportion.coord.consumer.client_targets import forget_member
from apportion.coord.consumer.intervals import cancel_heartbeat
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.group_counts import Removal
from apportion.coord.turn import Turn
from apportion.deadlines import Key

SESSION = "session"
REBALANCE = "rebalance"
REJOIN = "rejoin"
SYNC = "sync after join"
OVERDUE_REQUESTS = {REJOIN: "join again", SYNC: "sync"}
"""What a classic member must do by each deadline, for the log."""


def arm_session(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Restart a consumer group member's session: the group's timeout, or a classic one's own."""
    classic = member.metadata.classic_member_metadata
    timeout_ms = (
        turn.settings_of(group.group_id).group_consumer_session_timeout_ms
        # KIP-848: the broker sets the timeout of its members. A classic client has sent its own.
        if classic is None
        else classic.session_timeout_ms
    )
    turn.deadlines.arm((SESSION, group.group_id, member.member_id), turn.now.mono_ms + timeout_ms)


def arm_rebalance(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Arm the rebalance timeout of a member that has to revoke; disarm that of any other."""
    key = (REBALANCE, group.group_id, member.member_id)
    if has_pending_revocation(member):
        turn.deadlines.arm(key, turn.now.mono_ms + member.metadata.rebalance_timeout_ms)
    else:
        turn.deadlines.disarm(key)


def arm_rejoin(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Arm a classic member's deadline for JoinGroup, from its first REBALANCE_IN_PROGRESS on.

    The member has its rebalance timeout.
    """
    key = (REJOIN, group.group_id, member.member_id)
    # Every further heartbeat is refused as well. If each gave more time, a member could heartbeat
    # for ever and never join.
    if key not in turn.deadlines:
        turn.deadlines.arm(key, turn.now.mono_ms + member.metadata.rebalance_timeout_ms)


def arm_sync(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Arm a classic member's deadline for SyncGroup, with the response to its JoinGroup.

    The member has its rebalance timeout.
    """
    turn.deadlines.disarm((REJOIN, group.group_id, member.member_id))
    turn.deadlines.arm(
        (SYNC, group.group_id, member.member_id),
        turn.now.mono_ms + member.metadata.rebalance_timeout_ms,
    )


def complete_sync(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Disarm a classic member's deadline for SyncGroup; restart its session."""
    turn.deadlines.disarm((SYNC, group.group_id, member.member_id))
    # Kafka, too: a SyncGroup is a sign of life.
    arm_session(turn, group, member)


def restore_group(turn: Turn, group: ConsumerGroup) -> None:
    """Arm the deadlines of every member of the group after the log was replayed."""
    # A member that died while the broker was down would otherwise keep its partitions for ever.
    for member in group.saved.members.values():
        restore_deadlines(turn, group, member)


def restore_deadlines(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Give the member whole timeouts after a start of the broker."""
    arm_session(turn, group, member)
    arm_rebalance(turn, group, member)


def disarm(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Disarm every deadline of the member, and expect no heartbeat or target of it any more."""
    cancel_heartbeat(turn, group, member)
    forget_member(turn, group, member.member_id)
    for kind in (SESSION, REBALANCE, REJOIN, SYNC):
        turn.deadlines.disarm((kind, group.group_id, member.member_id))


def has_pending_revocation(member: ConsumerGroupMember) -> bool:
    """Return whether the member has yet to confirm a revocation."""
    # A member that left temporarily sends no heartbeats; its session timeout limits it. A classic
    # one has the deadlines REJOIN and SYNC.
    return member.state is MemberState.UNREVOKED and member.epoch != AWAY and not member.is_classic


def expire_session(turn: Turn, key: Key) -> None:
    """Remove a member whose session expired."""
    if turn.ledger.consumer_member_or_none(key[1], key[2]) is not None:
        _remove_late_member(turn, key, "was silent for too long")


def expire_revocation(turn: Turn, key: Key) -> None:
    """Remove a member that has not revoked within its rebalance timeout."""
    member = turn.ledger.consumer_member_or_none(key[1], key[2])
    # Kafka binds the timer to an epoch. Here it is disarmed with the revocation, and tested again
    # in case both are due in one step.
    if member is not None and has_pending_revocation(member):
        _remove_late_member(turn, key, "took too long to revoke")


def expire_classic_member(turn: Turn, key: Key) -> None:
    """Remove a classic member whose JoinGroup or SyncGroup is late by its rebalance timeout."""
    member = turn.ledger.consumer_member_or_none(key[1], key[2])
    # The member may have come back under its id with the consumer protocol.
    if member is not None and member.is_classic:
        _remove_late_member(turn, key, f"took too long to {OVERDUE_REQUESTS[key[0]]}")


def _remove_late_member(turn: Turn, key: Key, why: str) -> None:
    """Remove the member of a consumer group's deadline. why: for the broker's log."""
    kind, group_id, member_id = key
    group = turn.ledger.consumer_group(group_id)
    turn.note("info", f"group {group_id}: member {member_id} {why} and is gone")
    # Before the removal, which may replace the group by a classic one.
    group.live.counts.count_removed(
        Removal.SESSION_TIMEOUT if kind == SESSION else Removal.REBALANCE_TIMEOUT
    )
    turn.remove_members(group, group.saved.members[member_id])
