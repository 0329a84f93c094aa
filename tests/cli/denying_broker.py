"""A broker that deletes one ACL of two."""

from typing import Any

from apportion.errors import Code
from apportion.security.acls import AclBinding
from apportion.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from apportion.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tests.cli.loading_broker import LoadingBroker


class DenyingBroker(LoadingBroker):
    """Deletes the first of two ACLs, whatever is asked for.

    why: what it says of the other one. hides: whether it shows no ACLs.
    """

    def __init__(
        self, first: AclBinding, second: AclBinding, why: str, hides: bool = False
    ) -> None:
        super().__init__(loading=0)
        self._hides = hides
        self._acls: tuple[AclBinding, ...] = (first, second)
        self._why = why

    def _response(self, request: Any) -> Any:
        if isinstance(request, DescribeAclsRequest) and self._hides:
            return DescribeAclsResponse(
                error_code=Code.UNKNOWN_SERVER_ERROR, error_message="no ACLs today"
            )
        if isinstance(request, DescribeAclsRequest):
            return DescribeAclsResponse(resources=tuple(map(_described, self._acls)))
        if not isinstance(request, DeleteAclsRequest):
            return super()._response(request)
        gone, *kept = self._acls
        self._acls = tuple(kept)
        return DeleteAclsResponse(
            filter_results=(
                DeleteAclsFilterResult(matching_acls=(_matching(gone),)),
                *(
                    DeleteAclsFilterResult(
                        error_code=Code.POLICY_VIOLATION, error_message=self._why
                    )
                    for _ in kept
                ),
            )
        )


def _described(acl: AclBinding) -> DescribeAclsResource:
    entry = AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    return DescribeAclsResource(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        acls=(entry,),
    )


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
