"""The error response of each group API to a request that was refused as a whole.

`Refused` is here the broker's own refusal: the group coordinator raises it, or the node does for
it, and `GROUP_ERROR_RESPONSES` turns it into the response of the request's API.
"""

from collections.abc import Callable
from typing import Any

from apportion.coord.classic_protocol import join_error
from apportion.coord.turn import GroupRequest
from apportion.errors import Code, Refused
from apportion.wire.error_slots import ErrorShape, error_shape, fill, slots
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from apportion.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from apportion.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class RefusedWithoutMemberId(Refused):
    """A refusal whose JoinGroup response names no member, as Kafka's consumer groups answer."""


def join_group_error(
    request: GroupRequest[JoinGroupRequest], refusal: Refused
) -> JoinGroupResponse:
    """Return the error response to JoinGroup.

    As in Kafka, it has no member id where a consumer group refuses (RefusedWithoutMemberId), and
    with UNKNOWN_SERVER_ERROR.
    """
    is_nameless = (
        isinstance(refusal, RefusedWithoutMemberId) or refusal.code == Code.UNKNOWN_SERVER_ERROR
    )
    return join_error(refusal.code, "" if is_nameless else request.body.member_id, request.version)


def heartbeat_error(
    _request: GroupRequest[HeartbeatRequest], refusal: Refused
) -> HeartbeatResponse:
    """Return the error response to Heartbeat; NONE while the coordinator loads.

    So members go on with their assignment meanwhile, and do not rejoin.
    """
    # As in Kafka: an error would make a member of the group rejoin, though nothing is wrong with
    # it.
    is_loading = refusal.code == Code.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=int(Code.NONE if is_loading else refusal.code))


def _shaped(shape: ErrorShape) -> Callable[[GroupRequest[Any], Refused], Any]:
    """Return the function that gives the error response of that shape."""
    return lambda request, refusal: fill(
        shape, request.body, request.version, int(refusal.code), refusal.why
    )


GROUP_ERROR_RESPONSES: dict[type[Any], Callable[[GroupRequest[Any], Refused], Any]] = {
    ConsumerGroupHeartbeatRequest: _shaped(error_shape(ConsumerGroupHeartbeatResponse)),
    ConsumerGroupDescribeRequest: _shaped(
        error_shape(ConsumerGroupDescribeResponse, groups=slots("group_ids", item="group_id"))
    ),
    ListGroupsRequest: _shaped(error_shape(ListGroupsResponse)),
    DeleteGroupsRequest: _shaped(
        error_shape(DeleteGroupsResponse, results=slots("groups_names", item="group_id"))
    ),
    OffsetCommitRequest: _shaped(
        error_shape(
            OffsetCommitResponse,
            topics=slots(
                "topics",
                "name",
                "topic_id",
                partitions=slots("partitions", "partition_index"),
            ),
        )
    ),
    # Versions 2 to 7 have an error for the whole response.
    OffsetFetchRequest: _shaped(
        error_shape(
            OffsetFetchResponse,
            groups=slots("groups", "group_id"),
            topics=slots(
                "topics",
                "name",
                partitions=slots(
                    "partition_indexes",
                    item="partition_index",
                    values={"committed_offset": -1, "metadata": ""},
                ),
            ),
        )
    ),
    OffsetDeleteRequest: _shaped(error_shape(OffsetDeleteResponse)),
    JoinGroupRequest: join_group_error,
    SyncGroupRequest: _shaped(error_shape(SyncGroupResponse)),
    HeartbeatRequest: heartbeat_error,
    LeaveGroupRequest: _shaped(error_shape(LeaveGroupResponse)),
    DescribeGroupsRequest: _shaped(
        error_shape(DescribeGroupsResponse, groups=slots("groups", item="group_id"))
    ),
}
