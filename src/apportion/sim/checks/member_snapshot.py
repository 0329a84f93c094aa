"""A member of a consumer group as it was seen last, which requests may end its membership, and what a classic one cannot know."""

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
    """A member as the watch saw it last."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Any
    pending_revocation: Any
    target: Any
    metadata: Any
    since_ms: int  # of the broker's clock, in this hold

    def has_same_assignment(self, member: ConsumerGroupMember) -> bool:
        """Nothing has happened to what the member holds since."""
        return (
            self.assigned is member.assigned
            and self.pending_revocation is member.pending_revocation
            and self.epoch == member.epoch
            and self.previous_epoch == member.previous_epoch
            and self.state is member.state
        )


def removes_member(request: Any, member_id: str, last: MemberSnapshot) -> bool:
    """The request takes the member's place away: it leaves, or a new process of its instance comes where it may.

    Where one of the two speaks the classic protocol, the newer one takes the place at once.
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


def may_mean_deleted_topic(group: ConsumerGroup, member_id: str, topic_partition: TopicIdPartition, topics: Topics) -> bool:
    """The place's topic is gone, or nobody has the place, or the member was given a partition of that number in a topic that is
    gone: the classic protocol only says names, so a member cannot tell a topic from one that was made later under its name.
    """
    if topics.with_id(topic_partition.topic_id) is None:
        return True
    if group.saved.owners.owner_or_none(group.saved.units.unit(topic_partition.topic_id, topic_partition.partition)) is None:
        return True
    ids = group.saved.units.ids
    held = group.saved.members[member_id].units()
    return any(unit & PARTITION == topic_partition.partition and topics.with_id(ids[unit >> SHIFT]) is None for unit in held)
