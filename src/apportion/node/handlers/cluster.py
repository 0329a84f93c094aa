"""ApiVersions, Metadata, DescribeCluster and FindCoordinator: this broker is the whole cluster.

The one broker leads every partition and coordinates every group.
"""

import re
from typing import Any

from apportion.errors import Code
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.node.partitions import LEADER_EPOCH
from apportion.security.acls import ResourceType
from apportion.security.authorizer import every_operation
from apportion.topics import NO_TOPIC_ID, Topic, is_topic_name
from apportion.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from apportion.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from apportion.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from apportion.wire.table import api_versions_response

GROUP, TRANSACTION, SHARE = 0, 1, 2  # coordinator types of FindCoordinator
FIRST_KEYS_VERSION = 4  # the first version of FindCoordinator with several keys
# authorized operations without ACLs: the node's gate puts in what ACLs allow
TOPIC_OPERATIONS = every_operation(ResourceType.TOPIC)
CLUSTER_OPERATIONS = every_operation(ResourceType.CLUSTER)
NOT_REQUESTED = -(2**31)
BROKERS, CONTROLLERS = 1, 2  # endpoint types of DescribeCluster
# the first version of Metadata that may name topics by id, though 10 has the field
FIRST_TOPIC_ID_VERSION = 12
FIRST_SOFTWARE_VERSION = 3  # the first version of ApiVersions with the client's software name
# the form that Kafka demands of a client's software name and version (KIP-511)
SOFTWARE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")
ANY_BROKER = (None, -1)  # cluster id and node id of a client that knows neither
FEATURES = {"group.version": (0, 1)}  # feature -> first and last level; the last one is in force


def api_versions(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle ApiVersions: list all APIs with their versions, and the features.

    Before version 4 a feature that starts at level 0 is left out, because older clients cannot
    parse it (KIP-584).
    Errors, without a list: INVALID_REQUEST for a software name or version that is not well formed
    (KIP-511), and for a cluster without a node or a node without a cluster; REBOOTSTRAP_REQUIRED
    for those of another broker (KIP-1242).
    """
    request: ApiVersionsRequest = arrived.request
    if arrived.version >= FIRST_SOFTWARE_VERSION and not all(
        SOFTWARE.fullmatch(text)
        for text in (request.client_software_name, request.client_software_version)
    ):
        return Answer(ApiVersionsResponse(error_code=Code.INVALID_REQUEST))
    wanted = (request.cluster_id, request.node_id)
    if wanted not in (ANY_BROKER, (broker.topic_service.cluster_id, broker.settings.node_id)):
        is_whole = request.cluster_id is not None and request.node_id != ANY_BROKER[1]
        code = Code.REBOOTSTRAP_REQUIRED if is_whole else Code.INVALID_REQUEST
        return Answer(ApiVersionsResponse(error_code=code))
    features = FEATURES.items()
    return Answer(
        api_versions_response(
            supported_features=tuple(
                SupportedFeatureKey(name=name, min_version=first, max_version=last)
                for name, (first, last) in features
                if arrived.version >= 4 or first > 0
            ),
            finalized_features_epoch=0,
            finalized_features=tuple(
                FinalizedFeatureKey(name=name, max_version_level=last, min_version_level=last)
                for name, (_, last) in features
            ),
        )
    )


def metadata(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle Metadata: describe the broker and the requested topics.

    A missing topic is created where request and settings allow it (`auto.create.topics.enable`).
    """
    request: MetadataRequest = arrived.request
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
    # Version 0 has no null: an empty list asks for all topics there, and for none in later
    # versions.
    if request.topics is None or (arrived.version == 0 and not request.topics):
        topics = tuple(
            _topic_metadata(broker, topic, operations) for topic in broker.topic_service.topics
        )
    else:
        may_create = request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
        # each once, or a small request could ask for a huge response
        distinct = {(requested.name, requested.topic_id): requested for requested in request.topics}
        described = [
            MetadataResponseTopic(
                error_code=Code.INVALID_REQUEST,
                name=requested.name or "",
                topic_id=requested.topic_id,
            )
            if arrived.version < FIRST_TOPIC_ID_VERSION
            and (requested.name is None or requested.topic_id != NO_TOPIC_ID)
            else _requested_topic(
                broker, requested, operations, arrived.fresh if may_create else None
            )
            for requested in distinct.values()
        ]
        # the same topic may be requested by name and by id
        topics = tuple({(topic.name, topic.topic_id): topic for topic in described}.values())
    host, port = broker.advertised[arrived.caller.listener]
    return Answer(
        MetadataResponse(
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED,
            brokers=(
                MetadataResponseBroker(node_id=broker.settings.node_id, host=host, port=port),
            ),
            cluster_id=broker.topic_service.cluster_id,
            controller_id=broker.settings.node_id,
            topics=topics,
        )
    )


def _requested_topic(
    broker: BrokerContext, requested: MetadataRequestTopic, operations: int, fresh: bytes | None
) -> MetadataResponseTopic:
    """Return the Metadata of a topic that is requested by name or by id.

    fresh: random bytes to create a missing topic with; None if it may not be created.
    """
    topic_service = broker.topic_service
    if requested.name is None or requested.topic_id != NO_TOPIC_ID:
        topic = topic_service.topics.with_id(requested.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=Code.UNKNOWN_TOPIC_ID, name=None, topic_id=requested.topic_id
            )
        return _topic_metadata(broker, topic, operations)
    topic = topic_service.topics.named(requested.name)
    if topic is None and fresh is not None:
        # At once, so that the first response has the topic. Kafka answers
        # UNKNOWN_TOPIC_OR_PARTITION until it exists, and clients ask again.
        topic = topic_service.auto_create_or_none(requested.name, fresh)
    if topic is not None:
        return _topic_metadata(broker, topic, operations)
    code = (
        Code.UNKNOWN_TOPIC_OR_PARTITION
        if is_topic_name(requested.name)
        else Code.INVALID_TOPIC_EXCEPTION
    )
    return MetadataResponseTopic(
        error_code=code, name=requested.name, topic_authorized_operations=operations
    )


def _topic_metadata(broker: BrokerContext, topic: Topic, operations: int) -> MetadataResponseTopic:
    """Return the Metadata of an existing topic: this broker leads every partition."""
    node_id = broker.settings.node_id
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        topic_authorized_operations=operations,
        is_internal=broker.topic_service.is_internal(topic.name),
        partitions=tuple(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=node_id,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=(node_id,),
                isr_nodes=(node_id,),
            )
            for index in range(topic.partitions)
        ),
    )


def describe_cluster(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle DescribeCluster: describe this broker, which is the whole cluster.

    Errors: MISMATCHED_ENDPOINT_TYPE for controllers (endpoint type 2), UNSUPPORTED_ENDPOINT_TYPE.
    """
    request: DescribeClusterRequest = arrived.request
    # KIP-919: a tool that looks for controllers must not take a broker for one.
    if request.endpoint_type != BROKERS:
        code = (
            Code.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLERS
            else Code.UNSUPPORTED_ENDPOINT_TYPE
        )
        return Answer(
            DescribeClusterResponse(
                error_code=code, error_message="this is the address of a broker"
            )
        )
    host, port = broker.advertised[arrived.caller.listener]
    return Answer(
        DescribeClusterResponse(
            cluster_id=broker.topic_service.cluster_id,
            controller_id=broker.settings.node_id,
            brokers=(
                DescribeClusterBroker(broker_id=broker.settings.node_id, host=host, port=port),
            ),
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED,
        )
    )


def find_coordinator(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle FindCoordinator: this broker coordinates every group.

    Versions: up to 3 one key, from 4 several. Transactions and share groups are refused. A
    coordinator of transactions is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because clients retry any
    other code until their time is up.
    """
    request: FindCoordinatorRequest = arrived.request
    code, why = KEY_TYPES.get(
        request.key_type,
        (Code.INVALID_REQUEST, f"there are no coordinators of type {request.key_type}"),
    )
    # As in Kafka, the topic exists as soon as a client looks for a coordinator.
    if code is Code.NONE:
        broker.topic_service.ensure_offsets_topic(arrived.fresh)
    host, port = broker.advertised[arrived.caller.listener]
    node_id = broker.settings.node_id
    if code is not Code.NONE:
        host, port, node_id = "", -1, -1
    coordinator: dict[str, Any] = {
        "node_id": node_id,
        "host": host,
        "port": port,
        "error_code": code,
        "error_message": why,
    }
    if arrived.version < FIRST_KEYS_VERSION:
        return Answer(FindCoordinatorResponse(**coordinator))
    return Answer(
        FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key=key, **coordinator) for key in request.coordinator_keys
            )
        )
    )


KEY_TYPES = {  # coordinator type -> its error, and why it is not served
    GROUP: (Code.NONE, None),
    TRANSACTION: (
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "this broker has no transactions yet",
    ),
    SHARE: (Code.INVALID_REQUEST, "this broker has no share groups yet"),
}

HANDLERS: dict[type, BrokerHandler] = {
    ApiVersionsRequest: api_versions,
    MetadataRequest: metadata,
    DescribeClusterRequest: describe_cluster,
    FindCoordinatorRequest: find_coordinator,
}
