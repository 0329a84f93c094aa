"""A request of each API about the topic `t` and the group `g`, and what its caller needs."""

from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.security.acls import CLUSTER_NAME, AclBinding, AclOperation, ResourceType
from apportion.wire.messages import (
    alter_configs,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_user_scram_credentials,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.node.acl_requests import describing
from tests.node.guarded import CLUSTER, GROUP, TOPIC, may

if TYPE_CHECKING:
    from tests.node.conftest import NodeDriver

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC_CODE, GROUP_CODE, CLUSTER_CODE, TRANSACTION_CODE = 29, 30, 31, 53
REFUSALS = {TOPIC_CODE, GROUP_CODE, CLUSTER_CODE, TRANSACTION_CODE}
OWN = {
    TOPIC: ("t", TOPIC_CODE),
    GROUP: ("g", GROUP_CODE),
    CLUSTER: (CLUSTER_NAME, CLUSTER_CODE),
}
"""By type, the resource that requests are about, and the code of a refusal for want of it."""


class Case(NamedTuple):
    """A request, what it needs, and the code of its refusal for want of each need."""

    name: str
    request: Any
    needs: tuple[tuple[AclBinding, int], ...]
    version: int | None = None


def needs(
    operation: AclOperation, resource: ResourceType, name: str = ""
) -> tuple[AclBinding, int]:
    """A need, with the code of a refusal."""
    own, code = OWN[resource]
    return may(operation, resource, name or own), code


def produced() -> produce.ProduceRequest:
    data = produce.PartitionProduceData(index=0, records=b"")
    topic = produce.TopicProduceData(name="t", partition_data=(data,))
    return produce.ProduceRequest(acks=-1, timeout_ms=1, topic_data=(topic,))


def fetched(**facts: Any) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = fetch.FetchTopic(topic="t", partitions=(partition,))
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "topics": (topic,)}
    return fetch.FetchRequest(**fields | facts)


def joined(**facts: Any) -> ConsumerGroupHeartbeatRequest:
    """A member joins a consumer group."""
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ("t",),
        "topic_partitions": (),
    }
    return ConsumerGroupHeartbeatRequest(**fields | facts)


def altered(kind: int, name: str) -> Any:
    config = incremental_alter_configs.IncrementalAlterableConfig(
        name="retention.ms", config_operation=0, value="1000"
    )
    resource = incremental_alter_configs.IncrementalAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=(config,)
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))


def described(kind: int, name: str) -> Any:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=()
    )
    return describe_configs.DescribeConfigsRequest(resources=(resource,))


A_TOPIC, A_BROKER, A_GROUP = 2, 4, 32
"""Kinds of resources with settings."""

COMMIT = offset_commit.OffsetCommitRequest(
    group_id="g",
    topics=(
        offset_commit.OffsetCommitRequestTopic(
            name="t",
            partitions=(
                offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1),
            ),
        ),
    ),
)

RECORDS = [
    Case("Produce", produced(), (needs(WRITE, TOPIC),), 9),
    Case(
        "InitProducerId",
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
        (needs(AclOperation.IDEMPOTENT_WRITE, CLUSTER),),
    ),
    Case("Fetch", fetched(), (needs(READ, TOPIC),), 12),
    Case(
        "ListOffsets",
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=(
                list_offsets.ListOffsetsTopic(
                    name="t",
                    partitions=(
                        list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),
                    ),
                ),
            ),
        ),
        (needs(DESCRIBE, TOPIC),),
    ),
    Case(
        "OffsetForLeaderEpoch",
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=(
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="t",
                    partitions=(
                        offset_for_leader_epoch.OffsetForLeaderPartition(
                            partition=0, leader_epoch=0
                        ),
                    ),
                ),
            )
        ),
        (needs(DESCRIBE, TOPIC),),
    ),
    Case(
        "DeleteRecords",
        delete_records.DeleteRecordsRequest(
            topics=(
                delete_records.DeleteRecordsTopic(
                    name="t",
                    partitions=(delete_records.DeleteRecordsPartition(offset=0),),
                ),
            )
        ),
        (needs(DELETE, TOPIC),),
    ),
]
TOPICS = [
    Case(
        "Metadata",
        metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name="t"),)),
        (needs(DESCRIBE, TOPIC),),
    ),
    Case(
        "CreateTopics",
        create_topics.CreateTopicsRequest(
            topics=(
                create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1),
            )
        ),
        (needs(CREATE, TOPIC, "new"), needs(DESCRIBE_CONFIGS, TOPIC, "new")),
    ),
    Case(
        "CreatePartitions",
        create_partitions.CreatePartitionsRequest(
            topics=(create_partitions.CreatePartitionsTopic(name="t", count=9, assignments=None),)
        ),
        (needs(ALTER, TOPIC),),
    ),
    Case(
        "DeleteTopics",
        delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="t"),)),
        (needs(DELETE, TOPIC),),
    ),
]
MEMBERS = [
    Case(
        "FindCoordinator",
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)),
        (needs(DESCRIBE, GROUP),),
    ),
    Case(
        "FindCoordinator of one key",
        find_coordinator.FindCoordinatorRequest(key_type=0, key="g"),
        (needs(DESCRIBE, GROUP),),
        3,
    ),
    Case(
        "JoinGroup",
        join_group.JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, protocol_type="consumer"
        ),
        (needs(READ, GROUP),),
    ),
    Case(
        "SyncGroup",
        sync_group.SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"),
        (needs(READ, GROUP),),
    ),
    Case("Heartbeat", heartbeat.HeartbeatRequest(group_id="g"), (needs(READ, GROUP),)),
    Case("LeaveGroup", leave_group.LeaveGroupRequest(group_id="g"), (needs(READ, GROUP),)),
    Case("ConsumerGroupHeartbeat", joined(), (needs(READ, GROUP), needs(DESCRIBE, TOPIC))),
    Case(
        "ConsumerGroupPrepareAssignment",
        consumer_group_prepare_assignment.ConsumerGroupPrepareAssignmentRequest(group_id="g"),
        (needs(READ, GROUP),),
    ),
    Case(
        "ConsumerGroupInstallAssignment",
        consumer_group_install_assignment.ConsumerGroupInstallAssignmentRequest(group_id="g"),
        (needs(READ, GROUP),),
    ),
    Case(
        "OffsetCommit",
        COMMIT,
        (needs(READ, GROUP), needs(READ, TOPIC)),
        9,
    ),
    Case(
        "OffsetFetch",
        offset_fetch.OffsetFetchRequest(
            groups=(
                offset_fetch.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=(
                        offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),
                    ),
                ),
            )
        ),
        (needs(DESCRIBE, GROUP), needs(DESCRIBE, TOPIC)),
        9,
    ),
    Case(
        "OffsetFetch of one group",
        offset_fetch.OffsetFetchRequest(
            group_id="g",
            topics=(offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),),
        ),
        (needs(DESCRIBE, GROUP), needs(DESCRIBE, TOPIC)),
        7,
    ),
    Case(
        "OffsetDelete",
        offset_delete.OffsetDeleteRequest(
            group_id="g",
            topics=(
                offset_delete.OffsetDeleteRequestTopic(
                    name="t",
                    partitions=(offset_delete.OffsetDeleteRequestPartition(partition_index=0),),
                ),
            ),
        ),
        (needs(DELETE, GROUP), needs(READ, TOPIC)),
    ),
]
ADMINISTRATION = [
    Case(
        "DescribeGroups",
        describe_groups.DescribeGroupsRequest(groups=("g",)),
        (needs(DESCRIBE, GROUP),),
    ),
    Case(
        "ConsumerGroupDescribe",
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=("g",)),
        (needs(DESCRIBE, GROUP),),
    ),
    Case(
        "DeleteGroups",
        delete_groups.DeleteGroupsRequest(groups_names=("g",)),
        (needs(DELETE, GROUP),),
    ),
    Case("DescribeConfigs of a topic", described(A_TOPIC, "t"), (needs(DESCRIBE_CONFIGS, TOPIC),)),
    Case("DescribeConfigs of a group", described(A_GROUP, "g"), (needs(DESCRIBE_CONFIGS, GROUP),)),
    Case(
        "DescribeConfigs of a broker", described(A_BROKER, ""), (needs(DESCRIBE_CONFIGS, CLUSTER),)
    ),
    Case(
        "IncrementalAlterConfigs of a topic", altered(A_TOPIC, "t"), (needs(ALTER_CONFIGS, TOPIC),)
    ),
    Case(
        "IncrementalAlterConfigs of a group", altered(A_GROUP, "g"), (needs(ALTER_CONFIGS, GROUP),)
    ),
    Case(
        "IncrementalAlterConfigs of a broker",
        altered(A_BROKER, ""),
        (needs(ALTER_CONFIGS, CLUSTER),),
    ),
    Case(
        "AlterConfigs",
        alter_configs.AlterConfigsRequest(
            resources=(
                alter_configs.AlterConfigsResource(resource_type=A_TOPIC, resource_name="t"),
            )
        ),
        (needs(ALTER_CONFIGS, TOPIC),),
    ),
    Case(
        "ListConfigResources",
        list_config_resources.ListConfigResourcesRequest(),
        (needs(DESCRIBE_CONFIGS, CLUSTER),),
    ),
    Case("DescribeAcls", describing(), (needs(DESCRIBE, CLUSTER),)),
    Case(
        "CreateAcls",
        create_acls.CreateAclsRequest(creations=(create_acls.AclCreation(),)),
        (needs(ALTER, CLUSTER),),
    ),
    Case(
        "DeleteAcls",
        delete_acls.DeleteAclsRequest(filters=(delete_acls.DeleteAclsFilter(),)),
        (needs(ALTER, CLUSTER),),
    ),
    Case(
        "DescribeUserScramCredentials",
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
        (needs(DESCRIBE, CLUSTER),),
    ),
    Case(
        "AlterUserScramCredentials",
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=(
                alter_user_scram_credentials.ScramCredentialDeletion(name="carol", mechanism=1),
            )
        ),
        (needs(ALTER, CLUSTER),),
    ),
]
CASES = [*RECORDS, *TOPICS, *MEMBERS, *ADMINISTRATION]


def begin(driver: "NodeDriver") -> None:
    """The topic is there, and the group with an offset."""
    driver.create("t")
    driver.call(find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=("any",)))
    committed = driver.call(COMMIT, 9).topics[0].partitions[0]
    assert committed.error_code == 0, committed
