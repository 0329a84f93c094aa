"""Members of the consumer protocol that join a group of a broker, and leave it."""

from typing import Any

from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def join(cluster: Cluster, group: str, member: str, *topics: str, **fields: Any) -> None:
    """The member has joined, and wants `t` or these topics."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics or ("t",),
        topic_partitions=(),
        **fields,
    )
    assert cluster.call(request, coordinator=group).error_code == Code.NONE


def leave(cluster: Cluster, group: str, member: str) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1)
    assert cluster.call(request, coordinator=group).error_code == Code.NONE
