"""A broker that has one group and no newer API than Apache Kafka 3.0."""

from typing import Any

from apportion.wire.messages import describe_groups
from apportion.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from apportion.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from apportion.wire.table import SERVED_APIS
from tests.cli.loading_broker import LoadingBroker

NEWEST = {9: 8, 15: 5, 16: 4}  # OffsetFetch, DescribeGroups, ListGroups: key and version
MISSING = (69,)  # ConsumerGroupDescribe


class OldBroker(LoadingBroker):
    """Has the classic group `g`, which is empty and has no offsets."""

    def __init__(self) -> None:
        super().__init__(loading=0)

    def _response(self, request: Any) -> Any:
        match request:
            case ApiVersionsRequest():
                keys = (
                    ApiVersion(
                        api_key=key,
                        min_version=api.versions[0],
                        max_version=NEWEST.get(key, api.versions[-1]),
                    )
                    for key, api in SERVED_APIS.items()
                    if key not in MISSING
                )
                return ApiVersionsResponse(api_keys=tuple(keys))
            case FindCoordinatorRequest():
                coordinator = Coordinator(key="g", node_id=1, host="127.0.0.1", port=self._port)
                return FindCoordinatorResponse(coordinators=(coordinator,))
            case DescribeGroupsRequest():
                group = describe_groups.DescribedGroup(group_id="g", group_state="Empty")
                return DescribeGroupsResponse(groups=(group,))
            case OffsetFetchRequest():
                return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g"),))
        return super()._response(request)
