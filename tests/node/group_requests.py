"""What tests of groups ask a node for: heartbeats, commits, and what was committed."""

from typing import Any

from tests.message_texts import request_of
from tests.node.kit import NodeDriver


def beat(
    group_id: str, member_id: str, epoch: int, wishes: str = "subscribed_topic_names=[t]"
) -> Any:
    """A heartbeat for which nothing has changed, or a member's first with all that it has."""
    joins = "" if epoch else f"rebalance_timeout_ms=10000 topic_partitions=[] {wishes}"
    who = f"group_id={group_id} member_id={member_id} member_epoch={epoch}"
    return request_of(f"ConsumerGroupHeartbeat {who} {joins}")


def commit(group_id: str, offset: int, member_id: str = "", epoch: int = -1) -> Any:
    """A commit of t-0."""
    who = f"group_id={group_id} member_id={member_id} generation_id_or_member_epoch={epoch}"
    return request_of(f"OffsetCommit {who} topics=[name=t partitions=[committed_offset={offset}]]")


def committed(driver: NodeDriver, group_id: str) -> list[int]:
    """The offsets that the group has committed."""
    asked = request_of(f"OffsetFetch groups=[group_id={group_id} topics=null]")
    (group,) = driver.call(asked, 9).groups
    return [each.committed_offset for topic in group.topics for each in topic.partitions]
