"""Requests about the cluster: its brokers, its settings, its ACLs and its users."""

from typing import Any

from apportion.security.acls import AclOperation
from tests.kafka.acl_matrix.values import (
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    HERE,
    MINE,
    OTHERS,
    READ,
    TOPIC,
    TOPICS,
    Case,
    Make,
    Need,
    cases,
    made,
    on_cluster,
    topics,
)

A_TOPIC, A_BROKER, A_GROUP = 2, 4, 32
"""Kinds of resources with settings."""
RETENTION, SESSION = "retention.ms", "consumer.session.timeout.ms"
RESOURCES = (
    *((A_TOPIC, name, RETENTION, "100000") for name in TOPICS),
    (A_BROKER, "1", f"log.{RETENTION}", "100000"),
    (A_GROUP, MINE, SESSION, "50000"),
    (A_GROUP, OTHERS, SESSION, "50000"),
)
"""Kind, name, a setting and a value."""


def broker_cases() -> list[Case]:
    """ApiVersions and DescribeCluster."""
    hello = made("ApiVersions", client_software_name="matrix", client_software_version="1")
    asked = made("DescribeCluster", include_cluster_authorized_operations=True)
    controllers, every = made("DescribeCluster", endpoint_type=2), (0, 1, 2)
    return [
        *cases("ApiVersions", 0, made("ApiVersions")),
        *cases("ApiVersions", 4, hello),
        *cases("DescribeCluster", every, made("DescribeCluster"), on_cluster(DESCRIBE)),
        *cases("DescribeCluster with operations", every, asked, on_cluster(DESCRIBE)),
        *cases("DescribeCluster of controllers", 1, controllers, on_cluster(ALTER)),
        *cases("DescribeCluster by ALTER", 1, asked, on_cluster(ALTER)),
    ]


def described(*resources: tuple[Any, ...]) -> Make:
    """One setting of each resource."""
    wanted = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
        for kind, name, key, *_ in resources
    ]
    return made("DescribeConfigs", resources=wanted)


def altered(api: str, *resources: tuple[Any, ...]) -> Make:
    """A setting of each resource, only tried."""
    wanted = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]}
        for kind, name, key, value in resources
    ]
    return made(api, resources=wanted, validate_only=True)


def config_cases() -> list[Case]:
    """DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources."""

    def everywhere(operation: AclOperation) -> tuple[Need, ...]:
        return (*topics(operation), Need(GROUP, MINE, operation), on_cluster(operation))

    describes, alters = everywhere(DESCRIBE_CONFIGS), everywhere(ALTER_CONFIGS)
    one, alter = (A_TOPIC, HERE, RETENTION), "IncrementalAlterConfigs"
    wrong = described((A_TOPIC, "bad name", "x"), (A_BROKER, "99", "x"))
    unknown = altered(alter, (A_TOPIC, HERE, "no.such", "1"))
    own = topics(ALTER_CONFIGS, HERE)
    return [
        *cases("DescribeConfigs", (1, 4), described(*RESOURCES), *describes),
        *cases("DescribeConfigs by ALTER_CONFIGS", 4, described(one), *own),
        *cases("DescribeConfigs of bad names", 4, wrong, *describes),
        *cases(alter, (0, 1), altered(alter, *RESOURCES), *alters),
        *cases("AlterConfigs", (0, 2), altered("AlterConfigs", *RESOURCES), *alters),
        *cases(f"{alter} of an unknown setting", 1, unknown, *own),
        *cases(
            *("ListConfigResources", (0, 1), made("ListConfigResources")),
            on_cluster(DESCRIBE_CONFIGS),
        ),
    ]


def acl_cases() -> list[Case]:
    """DescribeAcls, CreateAcls and DeleteAcls, with filters that match nothing."""
    matches: dict[str, Any] = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": "no such topic",
        "principal_filter": None,
        "host_filter": None,
        "operation": READ,
        "permission_type": ALLOW,
    }
    reads = {"host": "*", "operation": READ, "permission_type": ALLOW}
    one = {"resource_type": TOPIC, "resource_name": "no-such-topic", "principal": "User:nobody"}
    wrong = {"resource_type": CLUSTER, "resource_name": "another", "principal": "nobody"}
    alters = on_cluster(ALTER)

    def created(*acls: dict[str, Any]) -> Make:
        return made("CreateAcls", creations=[each | reads for each in acls])

    return [
        *cases("DescribeAcls", (1, 3), made("DescribeAcls", **matches), on_cluster(DESCRIBE)),
        *cases("CreateAcls", (1, 3), created(one), alters),
        *cases("DeleteAcls", (1, 3), made("DeleteAcls", filters=[matches]), alters),
        *cases("CreateAcls that are wrong", 3, created(wrong), alters),
        *cases("CreateAcls of none", 3, created(), alters),
    ]


def user_cases() -> list[Case]:
    """DescribeUserScramCredentials and AlterUserScramCredentials, of a user that is not there.

    A request for all users that it refuses a real Kafka does not answer.
    """
    one = made("DescribeUserScramCredentials", users=[{"name": "nobody"}])
    gone = made("AlterUserScramCredentials", deletions=[{"name": "nobody", "mechanism": 1}])
    return [
        *cases("DescribeUserScramCredentials", 0, one, on_cluster(DESCRIBE)),
        *cases("AlterUserScramCredentials", 0, gone, on_cluster(ALTER)),
    ]


CLUSTER_CASES = [*config_cases(), *broker_cases(), *acl_cases(), *user_cases()]
