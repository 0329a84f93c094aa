"""CreateAcls: add entries to access control lists (KIP-140, KIP-290)."""

from apportion.wire.fields import array, int8, int16, int32, message, string
from apportion.wire.messages.describe_acls import LITERAL


@message()
class AclCreation:
    """One ACL to create."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(key=30, versions=range(1, 4), flexible=2, type="request")
class CreateAclsRequest:
    """Create these ACLs; each succeeds or fails alone.

    Version 3 has the resource type of users (KIP-373).
    """

    creations: tuple[AclCreation, ...] = array(AclCreation)


@message()
class AclCreationResult:
    """The result of one ACL."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


@message(key=30, versions=range(1, 4), flexible=2, type="response")
class CreateAclsResponse:
    """The results, in the order of the request."""

    throttle_time_ms: int = int32()
    results: tuple[AclCreationResult, ...] = array(AclCreationResult)
