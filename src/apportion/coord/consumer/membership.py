"""The removal of members from a consumer group, whatever the reason: leaving, silence, lateness.

Handlers and deadlines call `Turn.remove_members`, which decides first, by the table
`ON_MEMBERS_LEAVING` of the shard, whether the group becomes a classic group instead.
"""

from apportion.coord import records
from apportion.coord.consumer import timers
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.targets import metadata_hash
from apportion.coord.turn import Turn


def remove_members(
    turn: Turn, group: ConsumerGroup, members: tuple[ConsumerGroupMember, ...]
) -> None:
    """Remove members that have left or are late from the group, and bump its epoch once.

    The next heartbeat of the others computes a new target.
    """
    for member in members:
        timers.disarm(turn, group, member)
        turn.emit_all(records.member_tombstones(group.group_id, member.member_id))
    # After the tombstones: topics to which nobody subscribes any more leave the hash, or the next
    # heartbeat would bump the epoch once more.
    hashed = metadata_hash(group, turn.topics)
    turn.emit(records.group_epoch(group.group_id, group.saved.epoch + 1, hashed))
