"""The table of APIs: who may ask what, with Kafka's operations and resources.

docs/security.md prints it. To add an API to the broker, add its row here: a request without a row
fails with UNKNOWN_SERVER_ERROR and an error line in the log.
"""

from apportion.node.authorization import groups, offsets, settings, topics
from apportion.node.authorization.checks import (
    Anybody,
    Check,
    InTurn,
    OfCluster,
    OfEach,
    OfGroup,
)
from apportion.security.acls import AclOperation, ResourceType
from apportion.wire.messages.alter_configs import AlterConfigsRequest
from apportion.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from apportion.wire.messages.create_acls import CreateAclsRequest
from apportion.wire.messages.create_partitions import CreatePartitionsRequest
from apportion.wire.messages.create_topics import CreateTopicsRequest
from apportion.wire.messages.delete_acls import DeleteAclsRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.delete_records import DeleteRecordsRequest
from apportion.wire.messages.delete_topics import DeleteTopicsRequest
from apportion.wire.messages.describe_acls import DescribeAclsRequest
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_configs import DescribeConfigsRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from apportion.wire.messages.fetch import FetchRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from apportion.wire.messages.init_producer_id import InitProducerIdRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest
from apportion.wire.messages.list_config_resources import ListConfigResourcesRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.list_offsets import ListOffsetsRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.offset_delete import OffsetDeleteRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest
from apportion.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from apportion.wire.messages.produce import ProduceRequest
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest
from apportion.wire.messages.sync_group import SyncGroupRequest

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP

CHECKS: dict[type, Check] = {
    # A connection.
    ApiVersionsRequest: Anybody(),
    SaslHandshakeRequest: Anybody(),
    SaslAuthenticateRequest: Anybody(),
    # Records.
    ProduceRequest: topics.produce,
    InitProducerIdRequest: topics.init_producer_id,
    FetchRequest: topics.fetch,
    ListOffsetsRequest: OfEach(DESCRIBE, TOPIC),
    OffsetForLeaderEpochRequest: OfEach(
        DESCRIBE, TOPIC, name="topic", or_cluster=AclOperation.CLUSTER_ACTION
    ),
    DeleteRecordsRequest: OfEach(DELETE, TOPIC),
    # Topics.
    MetadataRequest: topics.metadata,
    CreateTopicsRequest: InTurn(
        OfEach(CREATE, TOPIC, or_cluster=CREATE, leaves_twice=True, is_explained=True),
        topics.settings_of_created,
    ),
    DeleteTopicsRequest: topics.delete_topics,
    CreatePartitionsRequest: OfEach(ALTER, TOPIC, ("topics", "results"), leaves_twice=True),
    # Members of groups.
    FindCoordinatorRequest: groups.find_coordinator,
    JoinGroupRequest: InTurn(groups.MEMBERS, groups.expressions_of_others),
    SyncGroupRequest: groups.sync_group,
    HeartbeatRequest: groups.MEMBERS,
    LeaveGroupRequest: groups.MEMBERS,
    ConsumerGroupHeartbeatRequest: InTurn(groups.MEMBERS, groups.subscription),
    ConsumerGroupPrepareAssignmentRequest: InTurn(groups.MEMBERS, groups.topics_to_assign),
    ConsumerGroupInstallAssignmentRequest: groups.MEMBERS,
    # Offsets of groups.
    OffsetCommitRequest: InTurn(groups.MEMBERS, OfEach(READ, TOPIC, by_id_from=10)),
    OffsetFetchRequest: offsets.offset_fetch,
    OffsetDeleteRequest: InTurn(OfGroup(DELETE), OfEach(READ, TOPIC, asks_anyway=True)),
    # Groups.
    ListGroupsRequest: groups.list_groups,
    DescribeGroupsRequest: groups.describing(("groups", "groups")),
    ConsumerGroupDescribeRequest: InTurn(
        groups.describing(("group_ids", "groups")), groups.topics_of_groups
    ),
    DeleteGroupsRequest: OfEach(DELETE, GROUP, ("groups_names", "results"), name=""),
    # Settings, and the cluster.
    DescribeConfigsRequest: settings.OfSettings(DESCRIBE_CONFIGS, "results"),
    IncrementalAlterConfigsRequest: settings.OfSettings(
        ALTER_CONFIGS, "responses", settings.incremental_changes
    ),
    AlterConfigsRequest: settings.OfSettings(ALTER_CONFIGS, "responses", settings.whole_changes),
    ListConfigResourcesRequest: OfCluster(DESCRIBE_CONFIGS),
    DescribeClusterRequest: settings.describe_cluster,
    # Users, and what they may do.
    DescribeAclsRequest: OfCluster(DESCRIBE, is_explained=True),
    CreateAclsRequest: OfCluster(ALTER, is_explained=True),
    DeleteAclsRequest: OfCluster(ALTER, is_explained=True),
    DescribeUserScramCredentialsRequest: OfCluster(DESCRIBE, is_explained=True),
    AlterUserScramCredentialsRequest: OfCluster(ALTER, is_explained=True),
}
"""Request -> its check."""
