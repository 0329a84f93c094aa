"""Access control lists: the values that one entry consists of, and filters of entries.

An ACL allows or denies a principal an operation on a resource, from a host. It names one resource
(LITERAL), or all whose names begin so (PREFIXED); the literal name `*` stands for every resource of
its type, as the principal `User:*` and the host `*` do for every principal and host. The numbers
are Kafka's (KIP-140, KIP-290).
"""

from enum import IntEnum
from ipaddress import IPv6Address
from typing import NamedTuple

EVERY_NAME = "*"
"""The literal name of an ACL that is about all resources of its type."""
EVERY_PRINCIPAL = "User:*"
EVERY_HOST = "*"
CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class ResourceType(IntEnum):
    """The types of resources that ACLs are about; ANY stands in filters alone."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The ways in which an ACL names its resources.

    ANY and MATCH stand in filters alone. ANY is every pattern of just that name, MATCH is every
    pattern that a resource of that name falls under.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operations that ACLs allow or deny; ANY stands in filters alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def operation_word(operation: AclOperation) -> str:
    """Return the name of an operation as Kafka's tools take it, such as DescribeConfigs."""
    return operation.name.title().replace("_", "")


class AclPermission(IntEnum):
    """The two kinds of ACLs: those that allow, and those that deny; ANY stands in filters alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


DESCRIBING = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
IMPLYING: dict[AclOperation, tuple[AclOperation, ...]] = {
    AclOperation.DESCRIBE: DESCRIBING,
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""By operation, the others that allow it, too, where they are allowed. None denies it."""


class AclBinding(NamedTuple):
    """One ACL: who may, or may not, do what with which resources, from where.

    principal: as `User:alice`. host: an address, without a slash before it.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def concerns(self, operation: AclOperation) -> bool:
        """Return whether this ACL decides about the operation."""
        return (
            self.operation == operation
            or self.operation == AclOperation.ALL
            or (
                self.permission == AclPermission.ALLOW
                and self.operation in IMPLYING.get(operation, ())
            )
        )


class AclFilter(NamedTuple):
    """A choice of ACLs, to describe or to delete them; None and ANY match all.

    The principal `User:*`, the host `*` and the operation ALL match ACLs that have just these.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Return whether the ACL is among those that this filter asks for."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        """Return whether the ACL names its resources as this filter asks for."""
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == EVERY_NAME


def host_in_acls(caller_host: str) -> str:
    """Return a client's address as ACLs have it, from that of its connection (`machine.Caller`).

    Kafka writes an IPv6 address with all its eight numbers, and an IPv4 address that came in by
    IPv6 as IPv4.
    """
    host = caller_host.removeprefix("/")
    if ":" not in host:
        return host
    # The name of a network interface is a part of a link-local address.
    number, percent, interface = host.partition("%")
    try:
        address = IPv6Address(number)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = address.exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + interface
