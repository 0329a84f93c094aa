"""Requests about groups and their offsets, as functions of a scene."""

from typing import Any

from apportion.assign.by_name import Subscription
from apportion.member.assignors.serde import encode_subscription
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from apportion.wire.messages.sync_group import SyncGroupRequest
from tests.kafka.acl_matrix.values import HERE, TOPICS, Make, Scene, constant

SESSION_MS = 600_000
WORDS = encode_subscription(Subscription(topics=(HERE,)))


def commit(group: str, version: int, names: tuple[str, ...] = TOPICS, **facts: Any) -> Make:
    """An offset of a partition of each topic."""

    def request(scene: Scene) -> Any:
        wanted = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata="note"
        )
        topics = tuple(
            OffsetCommitRequestTopic(name=name, partitions=(wanted,))
            if version < 10
            else OffsetCommitRequestTopic(topic_id=scene.topic_id(name), partitions=(wanted,))
            for name in names
        )
        return OffsetCommitRequest(group_id=group, topics=topics, **facts)

    return request


def committed(groups: tuple[str, ...], version: int, names: tuple[str, ...] | None) -> Make:
    """The offsets of a partition of each topic; of all with None."""

    def request(scene: Scene) -> Any:
        topics = (
            None
            if names is None
            else tuple(
                OffsetFetchRequestTopic(name=name, partition_indexes=(0,))
                if version < 10
                else OffsetFetchRequestTopic(topic_id=scene.topic_id(name), partition_indexes=(0,))
                for name in names
            )
        )
        if version < 8:
            return OffsetFetchRequest(group_id=groups[0], topics=topics)
        return OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(group_id=each, topics=topics) for each in groups)
        )

    return request


def forget(group: str) -> Make:
    """The offsets of each topic forgotten."""
    wanted = OffsetDeleteRequestPartition(partition_index=0)
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=(wanted,)) for name in TOPICS)
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    return constant(request)


def join(group: str, member_id: str = "nobody", **facts: Any) -> Make:
    """A classic member, by default one that there is not."""
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=WORDS),),
    }
    request = JoinGroupRequest(**(fields | facts))
    return constant(request)


def sync(group: str, **facts: Any) -> Make:
    """Of a member that there is not."""
    request = SyncGroupRequest(
        group_id=group, generation_id=1, member_id="nobody", assignments=(), **facts
    )
    return constant(request)


def pulse(group: str) -> Make:
    """Likewise."""
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
    return constant(request)


def leave(group: str, version: int) -> Make:
    """Likewise."""
    request = (
        LeaveGroupRequest(group_id=group, member_id="nobody")
        if version < 3
        else LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id="nobody"),))
    )
    return constant(request)


def beat(group: str, epoch: int, **facts: Any) -> Make:
    """A member of KIP-848 with the scene's own id, which joins with epoch 0."""
    joins: Any = {"rebalance_timeout_ms": SESSION_MS, "topic_partitions": ()}

    def request(scene: Scene) -> Any:
        return ConsumerGroupHeartbeatRequest(
            group_id=group.format(token=scene.token),
            member_id=f"m-{scene.token}",
            member_epoch=epoch,
            **((joins if epoch == 0 else {}) | facts),
        )

    return request


def describe(groups: tuple[str, ...], version: int) -> Make:
    """With operations where the version has them."""
    request = DescribeGroupsRequest(groups=groups, include_authorized_operations=version >= 3)
    return constant(request)


def describe_consumers(groups: tuple[str, ...]) -> Make:
    """With operations."""
    request = ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=True)
    return constant(request)
