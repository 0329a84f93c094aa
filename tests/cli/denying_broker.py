"""A broker that deletes one ACL of two."""

from typing import Any

from apportion.errors import Code
from apportion.security.acls import AclBinding
from tests.cli.loading_broker import LoadingBroker
from tests.messages import response


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
        match type(request).__name__:
            case "DescribeAclsRequest" if self._hides:
                return response(
                    "DescribeAcls",
                    error_code=Code.UNKNOWN_SERVER_ERROR,
                    error_message="no ACLs today",
                )
            case "DescribeAclsRequest":
                shown = [_resource(each) | {"acls": [_entry(each)]} for each in self._acls]
                return response("DescribeAcls", resources=shown)
            case "DeleteAclsRequest":
                gone, *kept = self._acls
                self._acls = tuple(kept)
                refused = {"error_code": Code.POLICY_VIOLATION, "error_message": self._why}
                matching = [_resource(gone) | _entry(gone)]
                return response(
                    "DeleteAcls",
                    filter_results=[{"matching_acls": matching}, *[refused] * len(kept)],
                )
        return super()._response(request)


def _resource(acl: AclBinding) -> dict[str, Any]:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "pattern_type": acl.pattern_type,
    }


def _entry(acl: AclBinding) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
