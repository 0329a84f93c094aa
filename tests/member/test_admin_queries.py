"""Queries of administrators about groups and topics: each request, and what its response has."""

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.group_changes import (
    DeleteGroupQuery,
    DeleteOffsetsQuery,
    RemoveConsumerMemberQuery,
    RemovedMember,
    RemoveMembersQuery,
)
from apportion.member.cluster_queries.topic_descriptions import (
    PartitionReplicas,
    TopicReplicas,
    TopicReplicasQuery,
)
from apportion.topics import TopicPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from apportion.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

ID = b"i" * 16
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_group_that_has_members_is_not_deleted() -> None:
    query = DeleteGroupQuery("g")
    assert query.request() == DeleteGroupsRequest(groups_names=("g",))
    result = DeletableGroupResult(group_id="g", error_code=Code.NON_EMPTY_GROUP)
    with pytest.raises(Refused, match="DeleteGroups of group 'g'") as refused:
        query.parse(DeleteGroupsResponse(results=(result,)))
    assert refused.value.code is Code.NON_EMPTY_GROUP


def test_each_partition_has_its_own_result_of_an_offset_deletion() -> None:
    query = DeleteOffsetsQuery("g", (P1, P0))
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=number) for number in (0, 1))
    topic = OffsetDeleteRequestTopic(name="t", partitions=partitions)
    assert query.request() == OffsetDeleteRequest(group_id="g", topics=(topic,))
    subscribed = OffsetDeleteResponsePartition(
        partition_index=0, error_code=Code.GROUP_SUBSCRIBED_TO_TOPIC
    )
    response = OffsetDeleteResponse(
        topics=(OffsetDeleteResponseTopic(name="t", partitions=(subscribed,)),)
    )
    assert query.parse(response) == {
        P1: Code.UNKNOWN_SERVER_ERROR,
        P0: Code.GROUP_SUBSCRIBED_TO_TOPIC,
    }
    with pytest.raises(Refused, match="OffsetDelete of group 'g'"):
        query.parse(OffsetDeleteResponse(error_code=Code.GROUP_ID_NOT_FOUND))


def test_a_static_member_is_removed_by_its_instance_id() -> None:
    dynamic, static, gone = (
        RemovedMember("m"),
        RemovedMember("s-1", "s"),
        RemovedMember("gone"),
    )
    query = RemoveMembersQuery("g", (dynamic, static, gone), "why")
    assert query.request() == LeaveGroupRequest(
        group_id="g",
        members=(
            MemberIdentity(member_id="m", reason="why"),
            MemberIdentity(member_id="", group_instance_id="s", reason="why"),
            MemberIdentity(member_id="gone", reason="why"),
        ),
    )
    response = LeaveGroupResponse(
        members=(
            MemberResponse(member_id="m"),
            MemberResponse(member_id="", group_instance_id="s", error_code=Code.FENCED_INSTANCE_ID),
        )
    )
    assert query.parse(response) == {
        dynamic: Code.NONE,
        static: Code.FENCED_INSTANCE_ID,
        gone: Code.UNKNOWN_SERVER_ERROR,
    }


def test_a_member_of_the_consumer_protocol_is_removed_by_its_last_heartbeat() -> None:
    query = RemoveConsumerMemberQuery("g", RemovedMember("m", "s"))
    assert query.request() == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", instance_id="s", member_epoch=-1
    )
    response = ConsumerGroupHeartbeatResponse(
        error_code=Code.UNKNOWN_MEMBER_ID, error_message="there is no m"
    )
    with pytest.raises(Refused, match="there is no m"):
        query.parse(response)


def test_topics_are_described_with_their_replicas_in_order() -> None:
    assert TopicReplicasQuery(None).request() == MetadataRequest(
        topics=None, allow_auto_topic_creation=False
    )
    query = TopicReplicasQuery(("t", "nosuch"))
    assert query.request().topics == (
        MetadataRequestTopic(name="t"),
        MetadataRequestTopic(name="nosuch"),
    )
    partitions = (
        MetadataResponsePartition(
            partition_index=1, leader_id=-1, replica_nodes=(2,), isr_nodes=()
        ),
        MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=(1, 2), isr_nodes=(1,)
        ),
    )
    response = MetadataResponse(
        topics=(
            MetadataResponseTopic(name="t", topic_id=ID, partitions=partitions),
            MetadataResponseTopic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, name="nosuch"),
        )
    )
    (topic,) = query.parse(response)
    assert topic == TopicReplicas(
        "t",
        ID,
        False,
        (PartitionReplicas(0, 1, (1, 2), (1,)), PartitionReplicas(1, None, (2,), ())),
    )
    assert topic.replication_factor == 2
    denied = MetadataResponseTopic(error_code=Code.TOPIC_AUTHORIZATION_FAILED, name="t")
    with pytest.raises(Refused, match="topic 't'"):
        query.parse(MetadataResponse(topics=(denied,)))
