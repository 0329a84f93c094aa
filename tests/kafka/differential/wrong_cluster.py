"""Wrong requests about the cluster: topic metadata, coordinators, configs, producer ids."""

from collections.abc import Iterator
from typing import Any

from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.init_producer_id import InitProducerIdRequest
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.kafka.differential.wrong import GOOD, NO_TOPIC, STRANGE_ID, ZERO_ID, Case


def topic_metadata() -> Iterator[Case]:
    """Metadata, by names and by ids."""

    def metadata(*names: str | None, topic_id: bytes = ZERO_ID, create: bool = False) -> Any:
        topics = tuple(MetadataRequestTopic(name=name, topic_id=topic_id) for name in names)
        return lambda good: MetadataRequest(topics=topics, allow_auto_topic_creation=create)

    for version in (4, 8, 9, 12, 13):
        yield Case("metadata of an unknown topic", version, metadata(NO_TOPIC))
        yield Case("metadata of bad names", version, metadata("bad name", "", "..", "x" * 250))
        yield Case("metadata of good and bad", version, metadata(GOOD, NO_TOPIC))
        yield Case("metadata of a topic", version, metadata(GOOD))
    for version in (8, 10, 13):
        operations = {"include_cluster_authorized_operations": True} if version < 11 else {}
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in (GOOD, NO_TOPIC)),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            **operations,
        )
        yield Case("metadata with operations", version, lambda good, request=request: request)
    yield Case("metadata of a topic to be made", 12, metadata("made-by-asking", create=True))
    yield Case("metadata of a bad name to be made", 12, metadata("bad name", create=True))
    for version in (12, 13):
        yield Case("metadata of an unknown id", version, metadata(None, topic_id=STRANGE_ID))
        yield Case(
            "metadata of a topic by its id",
            version,
            lambda good: MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=good),)),
        )
        yield Case("metadata of an id and a name", version, metadata(GOOD, topic_id=STRANGE_ID))
    yield Case("metadata of nothing", 12, metadata())


def coordinators() -> Iterator[Case]:
    """FindCoordinator, of every type of key."""
    for key_type in (0, 2, 3, 77):
        for version in (3, 4, 6):
            keys: dict[str, Any] = {"key": "k"} if version < 4 else {"coordinator_keys": ("k", "")}
            request = FindCoordinatorRequest(key_type=key_type, **keys)
            yield Case(
                f"coordinator of type {key_type}", version, lambda good, request=request: request
            )
    yield Case(
        "coordinator of a transaction",
        6,
        lambda good: FindCoordinatorRequest(key_type=1, coordinator_keys=("k",)),
    )


def clusters() -> Iterator[Case]:
    """DescribeCluster."""
    for endpoint in (1, 2, 3):
        request = DescribeClusterRequest(endpoint_type=endpoint)
        yield Case(f"cluster by endpoint {endpoint}", 2, lambda good, request=request: request)
    yield Case(
        "cluster with operations",
        2,
        lambda good: DescribeClusterRequest(include_cluster_authorized_operations=True),
    )


def configs() -> Iterator[Case]:
    """DescribeConfigs of resources that do not exist."""
    for kind, name in (
        (2, NO_TOPIC),
        (2, "bad name"),
        (2, ""),
        (4, "99"),
        (4, "x"),
        (77, "x"),
        (0, "x"),
    ):
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        yield Case(
            f"configs of {kind} {name!r}",
            4,
            lambda good, resource=resource: DescribeConfigsRequest(resources=(resource,)),
        )


def producer_ids() -> Iterator[Case]:
    """InitProducerId, with transactional ids that Kafka refuses."""
    for name, txn in (("nobody", ""), ("a transaction", "t")):
        request = InitProducerIdRequest(transactional_id=txn, transaction_timeout_ms=1_000)
        yield Case(f"producer id for {name}", 5, lambda good, request=request: request)


CLUSTER_CASES = [*topic_metadata(), *coordinators(), *clusters(), *configs(), *producer_ids()]
