"""The error response of each group API to a request that was refused as a whole.

`Refused` is here the broker's own refusal: the group coordinator raises it, or the node does for
it, and `GROUP_ERROR_RESPONSES` turns it into the response of the request's API.
"""

from typing import Any

from apportion.coord.classic_protocol import join_error
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.error_slots import ErrorResponse, ErrorSlots
from apportion.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
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
    with GROUP_AUTHORIZATION_FAILED, UNKNOWN_SERVER_ERROR or NOT_COORDINATOR.
    """
    request: join_group.JoinGroupRequest = arrived.request
    is_nameless = isinstance(refusal, RefusedWithoutMemberId) or refusal.code in (
        Code.GROUP_AUTHORIZATION_FAILED,
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


GROUP_ERROR_RESPONSES: dict[type[Any], ErrorResponse] = {
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: ErrorSlots(
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse, is_explained=True
    ),
    consumer_group_describe.ConsumerGroupDescribeRequest: ErrorSlots(
        consumer_group_describe.ConsumerGroupDescribeResponse,
        {"groups": "group_ids"},
        item="group_id",
        is_explained=True,
    ),
    consumer_group_prepare_assignment.ConsumerGroupPrepareAssignmentRequest: ErrorSlots(
        consumer_group_prepare_assignment.ConsumerGroupPrepareAssignmentResponse, is_explained=True
    ),
    consumer_group_install_assignment.ConsumerGroupInstallAssignmentRequest: ErrorSlots(
        consumer_group_install_assignment.ConsumerGroupInstallAssignmentResponse, is_explained=True
    ),
    list_groups.ListGroupsRequest: ErrorSlots(list_groups.ListGroupsResponse),
    delete_groups.DeleteGroupsRequest: ErrorSlots(
        delete_groups.DeleteGroupsResponse, {"results": "groups_names"}, item="group_id"
    ),
    offset_commit.OffsetCommitRequest: ErrorSlots(offset_commit.OffsetCommitResponse),
    # Versions 2 to 7 have an error for the whole response.
    offset_fetch.OffsetFetchRequest: ErrorSlots(
        offset_fetch.OffsetFetchResponse,
        {"partitions": "partition_indexes"},
        item="partition_index",
        values={"committed_offset": -1, "metadata": ""},
    ),
    offset_delete.OffsetDeleteRequest: ErrorSlots(offset_delete.OffsetDeleteResponse),
    join_group.JoinGroupRequest: join_group_error,
    sync_group.SyncGroupRequest: ErrorSlots(sync_group.SyncGroupResponse),
    heartbeat.HeartbeatRequest: heartbeat_error,
    leave_group.LeaveGroupRequest: ErrorSlots(leave_group.LeaveGroupResponse),
    describe_groups.DescribeGroupsRequest: ErrorSlots(
        describe_groups.DescribeGroupsResponse, item="group_id", is_explained=True
    ),
}
