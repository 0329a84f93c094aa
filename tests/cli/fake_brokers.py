"""Brokers that answer as a test says, where ours would not: loading, old, amid a migration."""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.errors import Code
from apportion.security.acls import AclBinding
from apportion.wire.messages import consumer_group_describe, describe_groups
from apportion.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from apportion.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from apportion.wire.messages.delete_acls import DeleteAclsRequest
from apportion.wire.messages.describe_acls import DescribeAclsRequest
from apportion.wire.messages.describe_configs import (
    BROKER,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from apportion.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from apportion.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from apportion.wire.table import SERVED_APIS
from tests.cli.loading_broker import LoadingBroker
from tests.messages import response
from tests.node.acl_requests import acl

NEWEST_OF_3_0 = {9: 8, 15: 5, 16: 4}  # OffsetFetch, DescribeGroups, ListGroups: key and version
CONSUMER_GROUP_DESCRIBE = 69


class FakeBroker(LoadingBroker):
    """Has the group `g` without offsets; answers a request by its type, or as a loading broker."""

    def __init__(self, answers: Mapping[type, Callable[[], Any]]) -> None:
        super().__init__(loading=0)
        here = Coordinator(key="g", node_id=1, host="127.0.0.1", port=self._port)
        group = OffsetFetchResponseGroup(group_id="g")
        self._answers = {
            FindCoordinatorRequest: lambda: FindCoordinatorResponse(coordinators=(here,)),
            OffsetFetchRequest: lambda: OffsetFetchResponse(groups=(group,)),
            **answers,
        }

    def _response(self, request: Any) -> Any:
        answer = self._answers.get(type(request))
        return answer() if answer else super()._response(request)


def old(*configs: str) -> FakeBroker:
    """No newer API than Apache Kafka 3.0, and `g` is classic and empty.

    configs: how it describes the settings of a group, which it does not know: "refused", "empty".
    """
    keys = tuple(
        ApiVersion(
            api_key=key,
            min_version=api.versions[0],
            max_version=NEWEST_OF_3_0.get(key, api.versions[-1]),
        )
        for key, api in SERVED_APIS.items()
        if key != CONSUMER_GROUP_DESCRIBE
    )
    refused = {"error_code": Code.INVALID_REQUEST, "error_message": "what is type 32?"}
    result = DescribeConfigsResult(**refused if configs == ("refused",) else {})  # type: ignore[arg-type]
    group = describe_groups.DescribedGroup(group_id="g", group_state="Empty")
    return FakeBroker(
        {
            ApiVersionsRequest: lambda: ApiVersionsResponse(api_keys=keys),
            DescribeGroupsRequest: lambda: DescribeGroupsResponse(groups=(group,)),
            DescribeConfigsRequest: lambda: DescribeConfigsResponse(results=(result,)),
        }
    )


def migrating(listed: str, *classic: str) -> FakeBroker:
    """`g` is no consumer group for the first description, and one since.

    listed: the type that ListGroups shows. classic: DescribeGroups knows the group, if given.
    """
    first = [Code.GROUP_ID_NOT_FOUND]

    def described() -> ConsumerGroupDescribeResponse:
        member = consumer_group_describe.Member(
            member_id="m", member_epoch=7, client_id="c", client_host="/h", member_type=1
        )
        group = consumer_group_describe.DescribedGroup(
            error_code=first.pop() if first else Code.NONE,
            group_id="g",
            group_state="Stable",
            group_epoch=7,
            assignor_name="uniform",
            members=(member,),
        )
        return ConsumerGroupDescribeResponse(groups=(group,))

    group = ListedGroup(group_id="g", group_state="Stable", group_type=listed)
    as_classic = describe_groups.DescribedGroup(
        error_code=Code.NONE if classic else Code.GROUP_ID_NOT_FOUND,
        group_id="g",
        group_state="Stable" if classic else "Dead",
    )
    return FakeBroker(
        {
            ConsumerGroupDescribeRequest: described,
            ListGroupsRequest: lambda: ListGroupsResponse(groups=(group,)),
            DescribeGroupsRequest: lambda: DescribeGroupsResponse(groups=(as_classic,)),
        }
    )


def denying(*hides: str) -> FakeBroker:
    """Deletes the first of two ACLs, whatever is asked for; a policy keeps the other one.

    hides: it shows none, if given.
    """
    acls = [acl("a"), acl("b")]

    def described() -> Any:
        if hides:
            refused = {"error_code": Code.UNKNOWN_SERVER_ERROR, "error_message": "no ACLs today"}
            return response("DescribeAcls", **refused)
        shown = [resource_of(each) | {"acls": [entry_of(each)]} for each in acls]
        return response("DescribeAcls", resources=shown)

    def deleted() -> Any:
        gone = acls.pop(0)
        why = "the ACLs of b are kept by a policy"
        kept = {"error_code": Code.POLICY_VIOLATION, "error_message": why}
        matching = [resource_of(gone) | entry_of(gone)]
        return response("DeleteAcls", filter_results=[{"matching_acls": matching}, kept])

    return FakeBroker({DescribeAclsRequest: described, DeleteAclsRequest: deleted})


def resource_of(binding: AclBinding) -> dict[str, Any]:
    return {
        "resource_type": binding.resource_type,
        "resource_name": binding.name,
        "pattern_type": binding.pattern_type,
    }


def entry_of(binding: AclBinding) -> dict[str, Any]:
    return {
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission,
    }


def keeping() -> FakeBroker:
    """Has the super user admin alone, with two passwords; a policy keeps the second one deleted."""
    infos = [{"mechanism": each, "iterations": 4_096} for each in (1, 2)]
    supers = {"name": "super.users", "value": "User:admin"}
    broker = {"resource_type": BROKER, "resource_name": "1", "configs": [supers]}
    kept = {"error_code": Code.POLICY_VIOLATION, "error_message": "it is kept by a policy"}
    results: list[dict[str, Any]] = [{"user": "admin"}, {"user": "admin"} | kept]
    users = response(
        "DescribeUserScramCredentials", results=[{"user": "admin", "credential_infos": infos}]
    )
    return FakeBroker(
        {
            DescribeUserScramCredentialsRequest: lambda: users,
            DescribeConfigsRequest: lambda: response("DescribeConfigs", results=[broker]),
            AlterUserScramCredentialsRequest: lambda: response(
                "AlterUserScramCredentials", results=[results.pop(0)]
            ),
        }
    )


FAKES: dict[str, Callable[..., LoadingBroker]] = {
    "denying": denying,
    "keeping": keeping,
    "loading": lambda count: LoadingBroker(int(count)),
    "migrating": migrating,
    "old": old,
}
