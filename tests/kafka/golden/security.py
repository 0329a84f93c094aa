"""Requests about SASL, SCRAM credentials and ACLs, for the sweep of all APIs.

The listener is plain, so the broker refuses both SASL requests; an exchange of a mechanism is not
recorded here.
"""

from collections.abc import Callable
from typing import Any

from apportion.wire.messages import (
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_user_scram_credentials,
    sasl_authenticate,
    sasl_handshake,
)

TOPIC, READ, WRITE, ALLOW, MATCH, PREFIXED = 2, 3, 4, 3, 2, 4
"""Kafka's numbers: of a resource type, two operations, a permission, two pattern types."""


def created_acls(version: int, topic: bytes) -> Any:
    """Two that are right, and one of a topic without a name."""
    name = f"birds-{version}"
    return create_acls.CreateAclsRequest(
        creations=tuple(
            create_acls.AclCreation(
                resource_type=TOPIC,
                resource_name=resource,
                resource_pattern_type=pattern,
                principal="User:alice",
                host="*",
                operation=operation,
                permission_type=ALLOW,
            )
            for resource, pattern, operation in (
                (name, PREFIXED, READ),
                (name, describe_acls.LITERAL, WRITE),
                ("", describe_acls.LITERAL, WRITE),
            )
        )
    )


def described_acls(version: int, topic: bytes) -> Any:
    """All of one topic."""
    return describe_acls.DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=f"birds-{version}",
        pattern_type_filter=MATCH,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def deleted_acls(version: int, topic: bytes) -> Any:
    """One of them, and those of a user who has none."""
    return delete_acls.DeleteAclsRequest(
        filters=tuple(
            delete_acls.DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter=f"birds-{version}",
                principal_filter=principal,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
            for principal in ("User:alice", "User:nobody")
        )
    )


def altered_credentials(version: int, topic: bytes) -> Any:
    """One credential with an invented salted password, too few iterations, and a deletion."""
    altering = alter_user_scram_credentials
    return altering.AlterUserScramCredentialsRequest(
        deletions=(altering.ScramCredentialDeletion(name="nobody", mechanism=1),),
        upsertions=tuple(
            altering.ScramCredentialUpsertion(
                name=name,
                mechanism=2,
                iterations=iterations,
                salt=b"the salt",
                salted_password=bytes(range(64)),
            )
            for name, iterations in (("alice", 4096), ("bob", 9))
        ),
    )


SECURITY_BODIES: list[Callable[[int, bytes], Any]] = [
    lambda version, topic: sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"),
    lambda version, topic: sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0alice\0no"),
    created_acls,
    described_acls,
    deleted_acls,
    altered_credentials,
    lambda version, topic: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=tuple(
            describe_user_scram_credentials.UserName(name=name) for name in ("alice", "nobody")
        )
    ),
]
"""In this order: later ones see what earlier ones left."""
