"""Checks that the handlers of the classic protocol share."""

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.records import fits_in_key
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused


def check_group_id(group_id: str) -> None:
    """Refuse a classic group's id that no record can hold. Errors: INVALID_GROUP_ID."""
    # Only membership needs a name: OffsetCommit and OffsetFetch accept an empty group id, as in
    # Kafka.
    if not group_id:
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is empty.")
    # Kafka notices when it encodes the record, and answers UNKNOWN_SERVER_ERROR. The request is at
    # fault.
    if not fits_in_key(group_id):
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is too long.")


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
