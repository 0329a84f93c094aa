"""A broker whose group migrates between two answers to `apportion groups describe`."""

from typing import Any

from apportion.errors import Code
from apportion.wire.messages import consumer_group_describe, describe_groups
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from apportion.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from apportion.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.cli.loading_broker import LoadingBroker


class MigratingBroker(LoadingBroker):
    """Has the group `g`: no consumer group for the first description, and one since.

    listed: the type that ListGroups shows. is_classic: DescribeGroups knows the group.
    descriptions: how many were requested.
    """

    def __init__(self, listed: str, is_classic: bool) -> None:
        super().__init__(loading=0)
        self.listed = listed
        self.is_classic = is_classic
        self.descriptions = 0

    def _response(self, request: Any) -> Any:
        match request:
            case FindCoordinatorRequest():
                coordinator = Coordinator(key="g", node_id=1, host="127.0.0.1", port=self._port)
                return FindCoordinatorResponse(coordinators=(coordinator,))
            case ConsumerGroupDescribeRequest():
                self.descriptions += 1
                member = consumer_group_describe.Member(
                    member_id="m", member_epoch=7, client_id="c", client_host="/h", member_type=1
                )
                group = consumer_group_describe.DescribedGroup(
                    error_code=Code.GROUP_ID_NOT_FOUND if self.descriptions == 1 else Code.NONE,
                    group_id="g",
                    group_state="Stable",
                    group_epoch=7,
                    assignor_name="uniform",
                    members=(member,),
                )
                return ConsumerGroupDescribeResponse(groups=(group,))
            case ListGroupsRequest():
                listed = ListedGroup(group_id="g", group_state="Stable", group_type=self.listed)
                return ListGroupsResponse(groups=(listed,))
            case DescribeGroupsRequest():
                classic = describe_groups.DescribedGroup(
                    error_code=Code.NONE if self.is_classic else Code.GROUP_ID_NOT_FOUND,
                    group_id="g",
                    group_state="Stable" if self.is_classic else "Dead",
                )
                return DescribeGroupsResponse(groups=(classic,))
            case OffsetFetchRequest():
                return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g"),))
        return super()._response(request)
