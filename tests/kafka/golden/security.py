"""Requests about SASL, SCRAM credentials and ACLs, for the sweep of all APIs.

The listener is plain, so the broker refuses both SASL requests; an exchange of a mechanism is not
recorded here.
"""

from collections.abc import Callable
from typing import Any

from tests.messages import request

TOPIC, READ, WRITE, ALLOW, ANY, MATCH, LITERAL, PREFIXED = 2, 3, 4, 3, 1, 2, 3, 4
"""Kafka's numbers: of a resource type, operations, permissions and pattern types."""


def created_acls(version: int, topic: bytes) -> Any:
    """Two that are right, and one of a topic without a name."""
    name = f"birds-{version}"
    acl = {"resource_type": TOPIC, "principal": "User:alice", "host": "*", "permission_type": ALLOW}
    return request(
        "CreateAcls",
        creations=[
            acl
            | {
                "resource_name": resource,
                "resource_pattern_type": pattern,
                "operation": operation,
            }
            for resource, pattern, operation in (
                (name, PREFIXED, READ),
                (name, LITERAL, WRITE),
                ("", LITERAL, WRITE),
            )
        ],
    )


def of_birds(version: int, **facts: Any) -> dict[str, Any]:
    """A filter for the ACLs of one topic."""
    wanted: dict[str, Any] = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": f"birds-{version}",
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return wanted | facts


def described_acls(version: int, topic: bytes) -> Any:
    return request("DescribeAcls", **of_birds(version, pattern_type_filter=MATCH))


def deleted_acls(version: int, topic: bytes) -> Any:
    """One of them, and those of a user who has none."""
    users = ("User:alice", "User:nobody")
    return request(
        "DeleteAcls", filters=[of_birds(version, principal_filter=user) for user in users]
    )


def altered_credentials(version: int, topic: bytes) -> Any:
    """One credential with an invented salted password, too few iterations, and a deletion."""
    secret = {"mechanism": 2, "salt": b"the salt", "salted_password": bytes(range(64))}
    return request(
        "AlterUserScramCredentials",
        deletions=[{"name": "nobody", "mechanism": 1}],
        upsertions=[
            secret | {"name": name, "iterations": iterations}
            for name, iterations in (("alice", 4096), ("bob", 9))
        ],
    )


SECURITY_BODIES: list[Callable[[int, bytes], Any]] = [
    lambda version, topic: request("SaslHandshake", mechanism="PLAIN"),
    lambda version, topic: request("SaslAuthenticate", auth_bytes=b"\0alice\0no"),
    created_acls,
    described_acls,
    deleted_acls,
    altered_credentials,
    lambda version, topic: request(
        "DescribeUserScramCredentials", users=[{"name": "alice"}, {"name": "nobody"}]
    ),
]
"""In this order: later ones see what earlier ones left."""
