"""ApiVersions, Metadata, DescribeCluster, FindCoordinator: what this broker is and where things
live. Everything lives here.
"""

import re

from apportion.errors import Code
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, Handler
from apportion.node.partitions import LEADER_EPOCH
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

GROUP, TRANSACTION = 0, 1  # what a coordinator may coordinate
# what may be done with a topic where nobody is refused anything, as Kafka's bits
TOPIC_OPERATIONS = 0b1101_1111_1000
CLUSTER_OPERATIONS = 0b1_1111_1010_0000  # likewise with the cluster
NOT_REQUESTED = -(2**31)
BROKERS, CONTROLLERS = 1, 2  # what DescribeCluster may ask for
# the first version of Metadata that may ask by topic id, though 10 has the field
FIRST_TOPIC_ID_VERSION = 12
FIRST_SOFTWARE_VERSION = 3  # the first version of ApiVersions in which a client says what it is
# what Kafka takes for its name, and for its version
SOFTWARE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")
FEATURES = {"group.version": (0, 1)}  # feature -> first and last level; the last one is in force


def api_versions(_broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """All APIs with their versions. Before version 4 a feature that starts at level 0 cannot be
    said, as clients would choke.

    Errors: INVALID_REQUEST, and nothing else is said, for software whose name or version is no word
    (KIP-511).
    """
    request: ApiVersionsRequest = arrived.request
    if arrived.version >= FIRST_SOFTWARE_VERSION and not all(
        SOFTWARE.fullmatch(said)
        for said in (request.client_software_name, request.client_software_version)
    ):
        return Answer(ApiVersionsResponse(error_code=Code.INVALID_REQUEST))
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
    """The broker and the topics asked for; a missing one is made first where request and settings
    allow it.
    """
    request: MetadataRequest = arrived.request
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
    if request.topics is None or (arrived.version == 0 and not request.topics):
        topics = tuple(
            _topic_metadata(broker, topic, operations) for topic in broker.topic_service.topics
        )
    else:
        may_create = request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
        distinct = {
            (wanted.name, wanted.topic_id): wanted for wanted in request.topics
        }  # or a short request has no end of an answer
        described = [
            MetadataResponseTopic(
                error_code=Code.INVALID_REQUEST, name=wanted.name or "", topic_id=wanted.topic_id
            )
            if arrived.version < FIRST_TOPIC_ID_VERSION
            and (wanted.name is None or wanted.topic_id != NO_TOPIC_ID)
            else _requested_topic(broker, wanted, operations, arrived.fresh if may_create else None)
            for wanted in distinct.values()
        ]
        # one may be named, and asked for by id
        topics = tuple({(each.name, each.topic_id): each for each in described}.values())
    host, port = broker.address
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
    broker: BrokerContext, wanted: MetadataRequestTopic, operations: int, fresh: bytes | None
) -> MetadataResponseTopic:
    """The topic, made of `fresh` if it is not there; None: it may not be made."""
    topic_service = broker.topic_service
    if wanted.name is None or wanted.topic_id != NO_TOPIC_ID:
        topic = topic_service.topics.with_id(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=Code.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
        return _topic_metadata(broker, topic, operations)
    topic = topic_service.topics.named(wanted.name)
    if topic is None and fresh is not None:
        topic = topic_service.auto_create_or_none(wanted.name, fresh)
    if topic is not None:
        return _topic_metadata(broker, topic, operations)
    code = (
        Code.UNKNOWN_TOPIC_OR_PARTITION
        if is_topic_name(wanted.name)
        else Code.INVALID_TOPIC_EXCEPTION
    )
    return MetadataResponseTopic(
        error_code=code, name=wanted.name, topic_authorized_operations=operations
    )


def _topic_metadata(broker: BrokerContext, topic: Topic, operations: int) -> MetadataResponseTopic:
    here = (broker.settings.node_id,)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        topic_authorized_operations=operations,
        is_internal=broker.topic_service.is_internal(topic.name),
        partitions=tuple(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=here[0],
                leader_epoch=LEADER_EPOCH,
                replica_nodes=here,
                isr_nodes=here,
            )
            for index in range(topic.partitions)
        ),
    )


def describe_cluster(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """This broker, which is the whole cluster. Controllers (endpoint type 2) cannot be asked for:
    MISMATCHED_ENDPOINT_TYPE.
    """
    request: DescribeClusterRequest = arrived.request
    if request.endpoint_type != BROKERS:
        code = (
            Code.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLERS
            else Code.UNSUPPORTED_ENDPOINT_TYPE
        )
        return Answer(
            DescribeClusterResponse(error_code=code, error_message="this address is a broker's")
        )
    host, port = broker.address
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
    """Every group is coordinated here; transactions and share groups are refused in one sentence.

    Versions: up to 3 one key, from 4 several. A coordinator of transactions is
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because clients retry any other code until their time is
    up.
    """
    request: FindCoordinatorRequest = arrived.request
    code, why = KEY_TYPES.get(
        request.key_type,
        (Code.INVALID_REQUEST, f"there are no coordinators of type {request.key_type}"),
    )
    if code is Code.NONE:
        broker.topic_service.ensure_offsets_topic(arrived.fresh)
    host, port = broker.address
    node_id = broker.settings.node_id
    if code is not Code.NONE:
        host, port, node_id = "", -1, -1
    if arrived.version < 4:
        return Answer(
            FindCoordinatorResponse(
                error_code=code, error_message=why, node_id=node_id, host=host, port=port
            )
        )
    return Answer(
        FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(
                    key=key,
                    node_id=node_id,
                    host=host,
                    port=port,
                    error_code=code,
                    error_message=why,
                )
                for key in request.coordinator_keys
            )
        )
    )


KEY_TYPES = {  # coordinator type -> why it is not served
    GROUP: (Code.NONE, None),
    TRANSACTION: (
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "this broker has no transactions yet",
    ),
    2: (Code.INVALID_REQUEST, "this broker has no share groups yet"),
}

HANDLERS: dict[type, Handler] = {
    ApiVersionsRequest: api_versions,
    MetadataRequest: metadata,
    DescribeClusterRequest: describe_cluster,
    FindCoordinatorRequest: find_coordinator,
}
