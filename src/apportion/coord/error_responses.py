"""The error response of each group API to a request that was refused as a whole.

`Refused` is here the broker's own refusal: the group coordinator raises it, or the node does for
it, and `GROUP_ERROR_RESPONSES` turns it into the response of the request's API.
"""

from collections.abc import Callable
from typing import Any

from apportion.coord.classic_protocol import join_error
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.error_slots import error_shape, fill, slots
from apportion.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)


class RefusedWithoutMemberId(Refused):
    """A refusal whose JoinGroup response names no member, as Kafka's consumer groups answer."""


def join_group_error(arrived: Arrived, refusal: Refused) -> join_group.JoinGroupResponse:
    """Return the error response to JoinGroup.

    As in Kafka, it has no member id where a consumer group refuses (RefusedWithoutMemberId), and
    with UNKNOWN_SERVER_ERROR or NOT_COORDINATOR.
    """
    request: join_group.JoinGroupRequest = arrived.request
    is_nameless = isinstance(refusal, RefusedWithoutMemberId) or refusal.code in (
        Code.UNKNOWN_SERVER_ERROR,
        Code.NOT_COORDINATOR,
    )
    return join_error(refusal.code, "" if is_nameless else request.member_id, arrived.version)


def heartbeat_error(_arrived: Arrived, refusal: Refused) -> heartbeat.HeartbeatResponse:
    """Return the error response to Heartbeat; NONE while the coordinator loads.

    So members go on with their assignment meanwhile, and do not rejoin.
    """
    # As in Kafka: an error would make a member of the group rejoin, though nothing is wrong with
    # it.
    is_loading = refusal.code == Code.COORDINATOR_LOAD_IN_PROGRESS
    return heartbeat.HeartbeatResponse(error_code=int(Code.NONE if is_loading else refusal.code))


def _shaped(response: type[Any], **arrays: Any) -> Callable[[Arrived, Refused], Any]:
    """Return the function that gives the error response of an API, of that shape."""
    shape = error_shape(response, **arrays)
    return lambda arrived, refusal: fill(
        shape, arrived.request, arrived.version, int(refusal.code), refusal.why
    )


GROUP_ERROR_RESPONSES: dict[type[Any], Callable[[Arrived, Refused], Any]] = {
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: _shaped(
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse
    ),
    consumer_group_describe.ConsumerGroupDescribeRequest: _shaped(
        consumer_group_describe.ConsumerGroupDescribeResponse,
        groups=slots("group_ids", item="group_id"),
    ),
    list_groups.ListGroupsRequest: _shaped(list_groups.ListGroupsResponse),
    delete_groups.DeleteGroupsRequest: _shaped(
        delete_groups.DeleteGroupsResponse, results=slots("groups_names", item="group_id")
    ),
    offset_commit.OffsetCommitRequest: _shaped(
        offset_commit.OffsetCommitResponse,
        topics=slots(
            "topics", "name", "topic_id", partitions=slots("partitions", "partition_index")
        ),
    ),
    # Versions 2 to 7 have an error for the whole response.
    offset_fetch.OffsetFetchRequest: _shaped(
        offset_fetch.OffsetFetchResponse,
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
    ),
    offset_delete.OffsetDeleteRequest: _shaped(offset_delete.OffsetDeleteResponse),
    join_group.JoinGroupRequest: join_group_error,
    sync_group.SyncGroupRequest: _shaped(sync_group.SyncGroupResponse),
    heartbeat.HeartbeatRequest: heartbeat_error,
    leave_group.LeaveGroupRequest: _shaped(leave_group.LeaveGroupResponse),
    describe_groups.DescribeGroupsRequest: _shaped(
        describe_groups.DescribeGroupsResponse, groups=slots("groups", item="group_id")
    ),
}
