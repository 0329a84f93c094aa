"""Requests about groups and their offsets, each with several elements in its lists."""

from typing import Any

from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.list_groups import ListGroupsRequest
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
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.kafka.differential.twice_topic_requests import TWICE, Make
from tests.kafka.differential.wrong import NO_TOPIC

SESSION_MS = 10_000


def commit(twice: bytes, group: str, offset: int = 5) -> Any:
    """Offsets of two partitions, and of a topic that is not there."""
    wanted = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset + index, committed_metadata="note"
        )
        for index in (0, 1)
    )
    topics = (
        OffsetCommitRequestTopic(name=TWICE, topic_id=twice, partitions=wanted),
        OffsetCommitRequestTopic(
            name=NO_TOPIC, topic_id=b"no topic at all!", partitions=wanted[:1]
        ),
    )
    return OffsetCommitRequest(group_id=group, topics=topics)


def committed(twice: bytes, group: str) -> Any:
    """All offsets of the group."""
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))


def fetch_offsets(twice: bytes, group: str) -> Any:
    """Offsets of two groups."""
    topics = tuple(
        OffsetFetchRequestTopic(name=name, topic_id=topic_id, partition_indexes=(0, 1))
        for name, topic_id in ((TWICE, twice), (NO_TOPIC, b"no topic at all!"))
    )
    groups = (group, group + " not here")
    return OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=each, topics=topics) for each in groups)
    )


def fetch_all_offsets(twice: bytes, group: str) -> Any:
    """All offsets of a group."""
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))


def fetch_offsets_of_one(twice: bytes, group: str) -> Any:
    """Offsets of one group, as it was asked before version 8."""
    topics = tuple(
        OffsetFetchRequestTopic(name=name, partition_indexes=(0, 1)) for name in (TWICE, NO_TOPIC)
    )
    return OffsetFetchRequest(group_id=group, topics=topics)


def forget_offsets(twice: bytes, group: str) -> Any:
    """Offsets of a topic, and of one that is not there, forgotten."""
    wanted = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 99))
    topics = tuple(
        OffsetDeleteRequestTopic(name=name, partitions=wanted) for name in (TWICE, NO_TOPIC)
    )
    return OffsetDeleteRequest(group_id=group, topics=topics)


def join(twice: bytes, group: str) -> Any:
    """A static member, so that it can be named by what we know."""
    protocols = tuple(
        JoinGroupRequestProtocol(name=name, metadata=b"") for name in ("range", "roundrobin")
    )
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id="",
        group_instance_id="one",
        protocol_type="consumer",
        protocols=protocols[:1] if group.startswith("leave") else protocols,
    )


def leave(twice: bytes, group: str) -> Any:
    """A member that is there, and one that is not."""
    members = tuple(
        MemberIdentity(member_id="", group_instance_id=instance) for instance in ("one", "two")
    )
    return LeaveGroupRequest(group_id=group, members=members)


def sync(twice: bytes, group: str) -> Any:
    """Assignments of a group that is not there."""
    given = tuple(
        SyncGroupRequestAssignment(member_id=each, assignment=b"x") for each in ("me", "you")
    )
    return SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id="me",
        protocol_type="consumer",
        protocol_name="range",
        assignments=given,
    )


def describe(twice: bytes, group: str) -> Any:
    """A group that is there, and one that is not."""
    return DescribeGroupsRequest(groups=(group, group + " not here"))


def describe_consumer(twice: bytes, group: str) -> Any:
    """The same, of consumer groups."""
    return ConsumerGroupDescribeRequest(group_ids=(group, group + " not here"))


def list_groups(twice: bytes, group: str) -> Any:
    """Groups in a state that none of these is in."""
    return ListGroupsRequest(states_filter=("Assigning", "Dead"), types_filter=("share", "streams"))


def list_states(twice: bytes, group: str) -> Any:
    """The same, before groups had types."""
    return ListGroupsRequest(states_filter=("Assigning", "Dead"))


def delete_groups(twice: bytes, group: str) -> Any:
    """A group that is there, and one that is not."""
    return DeleteGroupsRequest(groups_names=(group, group + " not here"))


def beat(epoch: int) -> Make:
    """A member that joins, or goes on with all partitions."""

    def request(twice: bytes, group: str) -> Any:
        owned = (TopicPartitions(topic_id=twice, partitions=(0, 1, 2)),)
        return ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=SESSION_MS if not epoch else -1,
            subscribed_topic_names=(TWICE, NO_TOPIC) if not epoch else None,
            server_assignor="range" if not epoch else None,
            topic_partitions=owned if epoch else (),
        )

    return request
