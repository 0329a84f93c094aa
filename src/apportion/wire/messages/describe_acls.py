"""DescribeAcls: the access control lists of resources (KIP-140, KIP-290).

A principal is written `User:alice`. The types of resources, patterns, operations and permissions
are numbers.
"""

from apportion.wire.fields import array, int8, int16, int32, message, string

LITERAL = 3
"""The pattern type of a name that stands for itself (KIP-290)."""


@message(key=29, versions=range(1, 4), flexible=2, type="request")
class DescribeAclsRequest:
    """Describe the ACLs that match this filter; null matches every name, principal or host.

    Version 3 has the resource type of users (KIP-373).
    """

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=0)
    pattern_type_filter: int = int8(default=LITERAL)
    principal_filter: str | None = string(nullable=0)
    host_filter: str | None = string(nullable=0)
    operation: int = int8()
    permission_type: int = int8()


@message()
class AclDescription:
    """One ACL of a resource."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message()
class DescribeAclsResource:
    """One resource, or all whose names begin so, and its ACLs."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=LITERAL)
    acls: tuple[AclDescription, ...] = array(AclDescription)


@message(key=29, versions=range(1, 4), flexible=2, type="response")
class DescribeAclsResponse:
    """The ACLs that match the filter, by resource."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resources: tuple[DescribeAclsResource, ...] = array(DescribeAclsResource)
