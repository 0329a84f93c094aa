"""The look-up of the group that SyncGroup or Heartbeat names."""

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic_protocol import check_group_id
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused


def existing_group(turn: Turn, group_id: str) -> ClassicGroup:
    """Return the classic group that a SyncGroup or Heartbeat request names.

    Errors: INVALID_GROUP_ID; UNKNOWN_MEMBER_ID if there is no classic group of that id.
    """
    check_group_id(group_id)
    group = turn.ledger.classic_group_or_none(group_id)
    # Not GROUP_ID_NOT_FOUND, as in Kafka: after UNKNOWN_MEMBER_ID every client joins again.
    if group is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"There is no classic group {group_id}.")
    return group
