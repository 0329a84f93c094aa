"""Expiry of committed offsets, and deletion of empty groups whose last offset has expired.

An offset expires `offsets.retention.minutes` after the group last needed it
(`expirable_since_ms_or_none`), or after its commit if there is no group. One that was committed
with a retention time expires then, unless the group needs it. Deadlines count monotonic time, ages
wall time.
Source: Kafka's OffsetExpirationCondition, and KIP-211.
"""

from collections.abc import Iterator
from itertools import islice

from apportion.coord import records
from apportion.coord.group import Group
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.wire.records.groups import OffsetCommitValue

RETENTION = "retention"
OFFSETS_PER_STEP = 2_000
"""How many offsets a step looks at or deletes. A group is looked at as a whole."""
MINUTE_MS = 60_000


def arm(turn: Turn) -> None:
    """Arm the next check after `offsets.retention.check.interval.ms`."""
    turn.deadlines.arm(
        (RETENTION,), turn.now.mono_ms + turn.settings.offsets_retention_check_interval_ms
    )


def expire_offsets(turn: Turn, key: Key) -> None:
    """Delete expired committed offsets, of the groups that the key names or of all.

    A step that has looked at OFFSETS_PER_STEP offsets ends, and the rest is for the next one.
    """
    group_ids: tuple[str, ...] = (
        key[1] if len(key) > 1 else tuple({**turn.ledger.groups, **turn.ledger.offsets})
    )
    budget = OFFSETS_PER_STEP
    for number, group_id in enumerate(group_ids):
        if budget <= 0:
            # Due at once, but in a step of its own: waiting requests come first.
            turn.deadlines.arm((RETENTION, group_ids[number:]), turn.now.mono_ms)
            return
        # The group itself counts: a million groups without offsets are work as well.
        budget -= 1 + sum(map(len, turn.ledger.offsets.get(group_id, {}).values()))
        if not _delete_expired(turn, group_id):
            turn.deadlines.arm((RETENTION, group_ids[number:]), turn.now.mono_ms)
            return
    arm(turn)


def _delete_expired(turn: Turn, group_id: str) -> bool:
    """Delete a group's expired committed offsets, and an empty group with the last of them.

    Returns False if there may be more expired offsets.
    """
    expired = list(islice(_expired_offsets(turn, group_id), OFFSETS_PER_STEP))
    for topic, partition in expired:
        turn.emit(records.offset_commit(group_id, topic, partition, None))
    # A step must stay short, because no request is answered meanwhile: the rest comes next.
    if len(expired) == OFFSETS_PER_STEP:
        return False
    group = turn.ledger.groups.get(group_id)
    # As in Kafka: nothing else ever deletes a group that its members have left.
    if group is not None and group.is_empty() and group_id not in turn.ledger.offsets:
        turn.emit_all(group.tombstones())
    return True


def _expired_offsets(turn: Turn, group_id: str) -> Iterator[tuple[str, int]]:
    """Yield topic and partition of each expired committed offset of a group."""
    group = turn.ledger.groups.get(group_id)
    for topic, partitions in turn.ledger.offsets.get(group_id, {}).items():
        for partition, value in partitions.items():
            if _has_expired(turn, group, topic, value):
                yield topic, partition


def _has_expired(turn: Turn, group: Group | None, topic: str, value: OffsetCommitValue) -> bool:
    """Return whether a committed offset may be deleted (KIP-211)."""
    since_ms = (
        value.commit_timestamp
        if group is None
        else group.expirable_since_ms_or_none(topic, value.commit_timestamp)
    )
    # Before the explicit time: offsets that members need never expire (KIP-211).
    if since_ms is None:
        return False
    # Of OffsetCommit 2 to 4, or of a log that an old Kafka wrote.
    if value.expire_timestamp >= 0:
        return turn.now.wall_ms >= value.expire_timestamp
    return turn.now.wall_ms - since_ms >= turn.settings.offsets_retention_minutes * MINUTE_MS
