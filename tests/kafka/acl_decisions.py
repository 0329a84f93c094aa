"""What a client is told of what it may do, and what an authorizer says of the same."""

from random import Random
from typing import Any

from apportion.client.connection import BrokerConnection
from apportion.errors import Code
from apportion.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.security.authorizer import NOBODYS_NAME, OPERATIONS, Authorizer
from tests.kafka.acl_cluster import TIMEOUT_MS
from tests.messages import request

TOPICS = ("a", "ab", "abc", "b", NOBODYS_NAME)
GROUPS = ("a", "ab", "b")
HOST = "127.0.0.1"
WHO = "User:bob"
"""Who asks."""
NOT_LOADED = {-14, -15, -16}
"""Codes of a coordinator, or of producer ids, that are not there yet."""


def random_acls(random: Random, most: int = 7) -> list[AclBinding]:
    """A few ACLs that concern what is asked below, more often than not."""
    return list(dict.fromkeys(random_acl(random) for _ in range(random.randint(0, most))))


def random_acl(random: Random) -> AclBinding:
    resource = random.choice((*[ResourceType.TOPIC] * 5, ResourceType.GROUP, ResourceType.CLUSTER))
    name = random.choice(("a", "ab", "abc", "abcd", "b", "h", "*", NOBODYS_NAME))
    return AclBinding(
        resource,
        CLUSTER_NAME if resource == ResourceType.CLUSTER else name,
        random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        random.choice((WHO, WHO, "User:*", "User:carol", "Group:bob")),
        random.choice(("*", "*", HOST, "10.0.0.1")),
        random.choice((*OPERATIONS[resource], AclOperation.ALL, AclOperation.WRITE)),
        random.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    )


def told(connection: BrokerConnection) -> dict[str, int]:
    """Return what the broker tells a client: bit fields, or codes as negative numbers."""

    def call(api: str, version: int, **fields: Any) -> Any:
        asked = request(api, **fields)
        return connection.call(asked, timeout_ms=TIMEOUT_MS, version=version)

    topics = call(
        *("Metadata", 12),
        topics=[{"name": name} for name in TOPICS],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    ).topics
    groups = call("DescribeGroups", 5, groups=GROUPS, include_authorized_operations=True)
    cluster = call("DescribeCluster", 1, include_cluster_authorized_operations=True)
    producer = call("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1_000)
    return {
        **{
            f"topic {topic.name}": -topic.error_code or topic.topic_authorized_operations
            for topic in topics
        },
        **{
            f"group {group.group_id}": -group.error_code or group.authorized_operations
            for group in groups.groups
        },
        "cluster": -cluster.error_code or cluster.cluster_authorized_operations,
        "producer": -producer.error_code,
    }


def decided(authorizer: Authorizer) -> dict[str, int]:
    """Return the same by the authorizer."""

    def shown(resource: ResourceType, name: str, code: Code) -> int:
        if not authorizer.allows(WHO, HOST, AclOperation.DESCRIBE, resource, name):
            return -code
        return authorizer.authorized_operations(WHO, HOST, resource, name)

    may_produce = authorizer.allows(
        WHO, HOST, AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    ) or authorizer.allows_any(WHO, HOST, AclOperation.WRITE, ResourceType.TOPIC)
    return {
        **{
            f"topic {name}": shown(ResourceType.TOPIC, name, Code.TOPIC_AUTHORIZATION_FAILED)
            for name in TOPICS
        },
        **{
            f"group {name}": shown(ResourceType.GROUP, name, Code.GROUP_AUTHORIZATION_FAILED)
            for name in GROUPS
        },
        # Everybody may describe the cluster, but not learn what he may do to it.
        "cluster": shown(ResourceType.CLUSTER, CLUSTER_NAME, Code.NONE),
        "producer": -(Code.NONE if may_produce else Code.CLUSTER_AUTHORIZATION_FAILED),
    }
