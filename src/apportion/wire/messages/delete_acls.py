"""DeleteAcls: remove entries from access control lists (KIP-140, KIP-290)."""

from apportion.wire.fields import array, int8, int16, int32, message, string
from apportion.wire.messages.describe_acls import LITERAL


@message()
class DeleteAclsFilter:
    """A filter of ACLs; null matches every name, principal or host."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=0)
    pattern_type_filter: int = int8(default=LITERAL)
    principal_filter: str | None = string(nullable=0)
    host_filter: str | None = string(nullable=0)
    operation: int = int8()
    permission_type: int = int8()


@message(key=31, versions=range(1, 4), flexible=2, type="request")
class DeleteAclsRequest:
    """Delete the ACLs that match one of these filters.

    Version 3 has the resource type of users (KIP-373).
    """

    filters: tuple[DeleteAclsFilter, ...] = array(DeleteAclsFilter)


@message()
class DeleteAclsMatchingAcl:
    """One ACL that matched, and whether it was deleted."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message()
class DeleteAclsFilterResult:
    """The ACLs that one filter matched."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = array(DeleteAclsMatchingAcl)


@message(key=31, versions=range(1, 4), flexible=2, type="response")
class DeleteAclsResponse:
    """The results of the filters, in the order of the request."""

    throttle_time_ms: int = int32()
    filter_results: tuple[DeleteAclsFilterResult, ...] = array(DeleteAclsFilterResult)
