"""A member of a consumer group as it was checked last, and which events may end its membership."""

from typing import Any, NamedTuple

from apportion.coord.consumer.beat import AWAY
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.units import PARTITION, SHIFT
from apportion.topics import TopicIdPartition, Topics
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest


class MemberSnapshot(NamedTuple):
    """A member as the checker saw it last.

    since_ms: when its current assignment, epochs or state last changed; timeouts count from then.
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Any
    pending_revocation: Any
    target: Any
    metadata: Any
    since_ms: int  # of the monotonic clock of the broker's present incarnation

    def has_same_assignment(self, member: ConsumerGroupMember) -> bool:
        """Return whether the member's assignment, epochs and state are as at the last check."""
        return (
            self.assigned is member.assigned
            and self.pending_revocation is member.pending_revocation
            and self.epoch == member.epoch
            and self.previous_epoch == member.previous_epoch
            and self.state is member.state
        )


def snapshot_of(
    member: ConsumerGroupMember, before: MemberSnapshot | None, now_ms: int
) -> MemberSnapshot:
    """Return the simulated member as it is; its earlier snapshot if nothing has changed."""
    if before is None or not before.has_same_assignment(member):
        since_ms = now_ms
    elif before.target is member.target and before.metadata is member.metadata:
        return before
    else:
        since_ms = before.since_ms
    assignment = (
        member.epoch,
        member.previous_epoch,
        member.state,
        member.assigned,
        member.pending_revocation,
    )
    return MemberSnapshot(*assignment, member.target, member.metadata, since_ms)


def removes_member(request: Any, member_id: str, last: MemberSnapshot) -> bool:
    """Return whether a request ends a member's membership: it leaves, or another replaces it.

    A new process replaces a static member that is away, or one where either uses the classic
    protocol.
    """
    instance_id = last.metadata.instance_id
    match request:
        case ConsumerGroupHeartbeatRequest():
            is_open = last.epoch == AWAY or last.metadata.classic_member_metadata is not None
            return request.member_epoch < 0 or (is_open and request.instance_id == instance_id)
        case JoinGroupRequest():
            return instance_id is not None and request.group_instance_id == instance_id
        case LeaveGroupRequest():
            return any(each.member_id == member_id for each in request.members)
        case _:
            return False


def may_mean_deleted_topic(
    group: ConsumerGroup, member_id: str, topic_partition: TopicIdPartition, topics: Topics
) -> bool:
    """Return whether a classic member may use a partition that is not its own by mistake.

    The classic protocol names topics without ids, so a member cannot tell a deleted topic from one
    that was created later under its name. It may, if the partition's topic is deleted, if nobody
    owns the partition, or if the member owns a partition of that number of a deleted topic.
    """
    if topics.with_id(topic_partition.topic_id) is None:
        return True
    if (
        group.saved.owners.owner_or_none(
            group.saved.units.unit(topic_partition.topic_id, topic_partition.partition)
        )
        is None
    ):
        return True
    ids = group.saved.units.ids
    owned_units = group.saved.members[member_id].units()
    return any(
        unit & PARTITION == topic_partition.partition and topics.with_id(ids[unit >> SHIFT]) is None
        for unit in owned_units
    )
