"""Brokers that answer as a test says, where ours would not: loading, old, amid a migration."""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.errors import Code
from apportion.wire.messages import consumer_group_describe, describe_groups
from apportion.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from apportion.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
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


FAKES: dict[str, Callable[..., LoadingBroker]] = {
    "loading": lambda count: LoadingBroker(int(count)),
    "migrating": migrating,
    "old": old,
}
