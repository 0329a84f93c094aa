"""Where a member of one protocol meets a group of the other kind: the only room that knows both kinds.

A group without members becomes the other kind at once, whatever the migration policy says: its tombstones come first, then the
records of its new life.
"""

from typing import Any

from apportion.coord import consumer
from apportion.coord.classic import expire, join
from apportion.coord.incremental.beat import JOINING
from apportion.coord.turn import Ask, Turn
from apportion.errors import Code, Refused
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest


def join_incremental(turn: Turn, ask: Ask[JoinGroupRequest]) -> None:
    """A classic member joins a group of the other kind, which becomes a classic one if it was empty.

    Errors: those of `join.join`; INCONSISTENT_GROUP_PROTOCOL where the group has members.
    """
    join.check(ask, turn.settings)
    group = turn.ledger.incremental(ask.body.group_id)
    if not group.is_empty():
        raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, f"Group {group.group_id} is a consumer group.")
    join.check_first(ask)
    turn.emit_all(group.tombstones())
    join.join(turn, ask)


def beat_classic(turn: Turn, ask: Ask[ConsumerGroupHeartbeatRequest]) -> None:
    """A member of the consumer protocol meets a classic group, which becomes a consumer group if it was empty.

    Errors: those of `consumer.check`; GROUP_ID_NOT_FOUND where the group has members, or nobody joins it.
    """
    consumer.check(ask.body, ask.version, turn.settings)
    group = turn.ledger.classic_or_none(ask.body.group_id)
    assert group is not None, "the table of the shard knows the kind"
    if ask.body.member_epoch != JOINING or not group.is_empty():
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {group.group_id}.")
    expire.disband(turn, group, Code.REBALANCE_IN_PROGRESS)
    turn.emit_all(group.tombstones())
    consumer.beat(turn, ask)


def unknown_here(turn: Turn, ask: Ask[Any]) -> None:
    """A classic member speaks to a group of the other kind. Errors: UNKNOWN_MEMBER_ID."""
    raise Refused(Code.UNKNOWN_MEMBER_ID, f"Group {ask.body.group_id} has no classic members.")
