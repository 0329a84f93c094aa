"""Requests about settings, each only tried."""

from collections.abc import Iterator

from apportion.security.acls import CLUSTER_NAME, AclOperation
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.kafka.acl_matrix.values import (
    ALTER_CONFIGS,
    CLUSTER,
    DESCRIBE_CONFIGS,
    GONE,
    GROUP,
    HERE,
    MINE,
    OTHERS,
    TOPIC,
    TOPICS,
    Case,
    Need,
    constant,
)
from tests.node.config_requests import incremental, whole

A_TOPIC, A_BROKER, A_LOGGER, METRICS, A_GROUP = 2, 4, 8, 16, 32
BROKER = "1"
RESOURCES = (
    *((A_TOPIC, name, "retention.ms", "100000") for name in TOPICS),
    (A_BROKER, BROKER, "log.retention.ms", "100000"),
    (A_GROUP, MINE, "consumer.session.timeout.ms", "50000"),
    (A_GROUP, OTHERS, "consumer.session.timeout.ms", "50000"),
)
"""Kind, name, a setting and a value."""


def resource(kind: int, name: str, key: str) -> DescribeConfigsResource:
    """One setting of it."""
    return DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=(key,)
    )


def all_needs(operation: AclOperation) -> tuple[Need, ...]:
    """The operation on the user's own, and on the cluster."""
    return (
        Need(TOPIC, HERE, operation),
        Need(TOPIC, GONE, operation),
        Need(GROUP, MINE, operation),
        Need(CLUSTER, CLUSTER_NAME, operation),
    )


def config_cases() -> Iterator[Case]:
    """DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources."""
    described = DescribeConfigsRequest(
        resources=tuple(resource(kind, name, key) for kind, name, key, _ in RESOURCES)
    )
    for version in (1, 4):
        yield Case("DescribeConfigs", version, constant(described), all_needs(DESCRIBE_CONFIGS))
    asked = DescribeConfigsRequest(resources=(resource(A_TOPIC, HERE, "retention.ms"),))
    yield Case(
        "DescribeConfigs by ALTER_CONFIGS", 4, constant(asked), (Need(TOPIC, HERE, ALTER_CONFIGS),)
    )
    wrong = DescribeConfigsRequest(
        resources=(resource(A_TOPIC, "bad name", "x"), resource(A_BROKER, "99", "x"))
    )
    yield Case("DescribeConfigs of bad names", 4, constant(wrong), all_needs(DESCRIBE_CONFIGS))
    altered = incremental(
        *((kind, name, ((key, "=", value),)) for kind, name, key, value in RESOURCES),
        validate_only=True,
    )
    replaced = whole(
        *((kind, name, ((key, value),)) for kind, name, key, value in RESOURCES),
        validate_only=True,
    )
    for version in (0, 1):
        yield Case("IncrementalAlterConfigs", version, constant(altered), all_needs(ALTER_CONFIGS))
    for version in (0, 2):
        yield Case("AlterConfigs", version, constant(replaced), all_needs(ALTER_CONFIGS))
    unknown = incremental((A_TOPIC, HERE, (("no.such", "=", "1"),)), validate_only=True)
    yield Case(
        "IncrementalAlterConfigs of an unknown setting",
        1,
        constant(unknown),
        (Need(TOPIC, HERE, ALTER_CONFIGS),),
    )
    cluster = (Need(CLUSTER, CLUSTER_NAME, DESCRIBE_CONFIGS),)
    for version in (0, 1):
        yield Case("ListConfigResources", version, constant(ListConfigResourcesRequest()), cluster)


CONFIG_CASES = [*config_cases()]
