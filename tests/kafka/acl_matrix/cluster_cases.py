"""Requests about the cluster: its brokers, its ACLs and its users."""

from collections.abc import Iterator
from typing import Any

from apportion.security.acls import CLUSTER_NAME, AclOperation
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.create_acls import AclCreation, CreateAclsRequest
from apportion.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from apportion.wire.messages.describe_acls import DescribeAclsRequest
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.kafka.acl_matrix.values import (
    ALLOW,
    ALTER,
    CLUSTER,
    DESCRIBE,
    READ,
    TOPIC,
    Case,
    Need,
    constant,
)

NOBODY = "User:nobody"


def on_cluster(operation: AclOperation) -> tuple[Need, ...]:
    """The operation on the cluster."""
    return (Need(CLUSTER, CLUSTER_NAME, operation),)


def cluster_cases() -> Iterator[Case]:
    """ApiVersions and DescribeCluster."""
    for version in (0, 4):
        hello: Any = (
            {"client_software_name": "matrix", "client_software_version": "1"} if version else {}
        )
        yield Case("ApiVersions", version, constant(ApiVersionsRequest(**hello)), ())
    for version in (0, 1, 2):
        for operations in (False, True):
            asked = DescribeClusterRequest(include_cluster_authorized_operations=operations)
            name = "DescribeCluster with operations" if operations else "DescribeCluster"
            yield Case(name, version, constant(asked), on_cluster(DESCRIBE))
    controllers = DescribeClusterRequest(endpoint_type=2)
    yield Case("DescribeCluster of controllers", 1, constant(controllers), on_cluster(ALTER))
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    yield Case("DescribeCluster by ALTER", 1, constant(asked), on_cluster(ALTER))


def acl_cases() -> Iterator[Case]:
    """DescribeAcls, CreateAcls and DeleteAcls, with filters that match nothing."""
    matches: dict[str, Any] = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": "no such topic",
        "principal_filter": None,
        "host_filter": None,
        "operation": READ,
        "permission_type": ALLOW,
    }
    one = AclCreation(
        resource_type=TOPIC,
        resource_name="no-such-topic",
        principal=NOBODY,
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    made = CreateAclsRequest(creations=(one,))
    wrong = CreateAclsRequest(
        creations=(
            AclCreation(
                resource_type=CLUSTER,
                resource_name="another",
                principal="nobody",
                host="*",
                operation=READ,
                permission_type=ALLOW,
            ),
        )
    )
    for version in (1, 3):
        described = DescribeAclsRequest(**matches)
        yield Case("DescribeAcls", version, constant(described), on_cluster(DESCRIBE))
        yield Case("CreateAcls", version, constant(made), on_cluster(ALTER))
        deleted = DeleteAclsRequest(filters=(DeleteAclsFilter(**matches),))
        yield Case("DeleteAcls", version, constant(deleted), on_cluster(ALTER))
    yield Case("CreateAcls that are wrong", 3, constant(wrong), on_cluster(ALTER))
    nothing = CreateAclsRequest(creations=())
    yield Case("CreateAcls of none", 3, constant(nothing), on_cluster(ALTER))


def user_cases() -> Iterator[Case]:
    """DescribeUserScramCredentials and AlterUserScramCredentials, of a user that is not there.

    A request for all users that it refuses a real Kafka does not answer.
    """
    one = DescribeUserScramCredentialsRequest(users=(UserName(name="nobody"),))
    yield Case("DescribeUserScramCredentials", 0, constant(one), on_cluster(DESCRIBE))
    gone = AlterUserScramCredentialsRequest(
        deletions=(ScramCredentialDeletion(name="nobody", mechanism=1),)
    )
    yield Case("AlterUserScramCredentials", 0, constant(gone), on_cluster(ALTER))


CLUSTER_CASES = [*cluster_cases(), *acl_cases(), *user_cases()]
