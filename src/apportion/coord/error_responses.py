"""The error response of each group API to a request that was refused as a whole.

`Refused` is here the broker's own refusal: the group coordinator raises it, or the node does for
it, and `GROUP_ERROR_RESPONSES` turns it into the response of the request's API.
"""

from collections.abc import Callable
from typing import Any

from apportion.coord.classic_protocol import join_error
from apportion.coord.turn import GroupRequest
from apportion.errors import Code, Refused
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from apportion.wire.messages.describe_groups import DescribedGroup as DescribedClassicGroup
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from apportion.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from apportion.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from apportion.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class RefusedWithoutMemberId(Refused):
    """A refusal whose JoinGroup response names no member, as Kafka's consumer groups answer."""


def consumer_group_heartbeat_error(
    _request: GroupRequest[ConsumerGroupHeartbeatRequest], refusal: Refused
) -> ConsumerGroupHeartbeatResponse:
    """Return the error response to ConsumerGroupHeartbeat."""
    return ConsumerGroupHeartbeatResponse(error_code=int(refusal.code), error_message=refusal.why)


def consumer_group_describe_error(
    request: GroupRequest[ConsumerGroupDescribeRequest], refusal: Refused
) -> ConsumerGroupDescribeResponse:
    """Return the error response to ConsumerGroupDescribe, at every group."""
    code, why = int(refusal.code), refusal.why
    groups = (
        DescribedGroup(group_id=group_id, error_code=code, error_message=why)
        for group_id in request.body.group_ids
    )
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


def list_groups_error(
    _request: GroupRequest[ListGroupsRequest], refusal: Refused
) -> ListGroupsResponse:
    """Return the error response to ListGroups."""
    return ListGroupsResponse(error_code=int(refusal.code))


def delete_groups_error(
    request: GroupRequest[DeleteGroupsRequest], refusal: Refused
) -> DeleteGroupsResponse:
    """Return the error response to DeleteGroups, at every group."""
    code = int(refusal.code)
    results = (
        DeletableGroupResult(group_id=group_id, error_code=code)
        for group_id in request.body.groups_names
    )
    return DeleteGroupsResponse(results=tuple(results))


def offset_commit_error(
    request: GroupRequest[OffsetCommitRequest], refusal: Refused
) -> OffsetCommitResponse:
    """Return the error response to OffsetCommit.

    The error stands at every partition: the response has no error field of its own.
    """
    code = int(refusal.code)
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.body.topics
        )
    )


def offset_fetch_error(
    request: GroupRequest[OffsetFetchRequest], refusal: Refused
) -> OffsetFetchResponse:
    """Return the error response to OffsetFetch.

    Before version 2 the error stands at every partition, from version 8 on at every group.
    """
    code = int(refusal.code)
    if request.version >= 8:
        groups = (
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            for group in request.body.groups
        )
        return OffsetFetchResponse(groups=tuple(groups))
    if request.version >= 2:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.body.topics or ()
        )
    )


def offset_delete_error(
    _request: GroupRequest[OffsetDeleteRequest], refusal: Refused
) -> OffsetDeleteResponse:
    """Return the error response to OffsetDelete."""
    return OffsetDeleteResponse(error_code=int(refusal.code))


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


def sync_group_error(
    _request: GroupRequest[SyncGroupRequest], refusal: Refused
) -> SyncGroupResponse:
    """Return the error response to SyncGroup."""
    return SyncGroupResponse(error_code=int(refusal.code))


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


def leave_group_error(
    _request: GroupRequest[LeaveGroupRequest], refusal: Refused
) -> LeaveGroupResponse:
    """Return the error response to LeaveGroup."""
    return LeaveGroupResponse(error_code=int(refusal.code))


def describe_groups_error(
    request: GroupRequest[DescribeGroupsRequest], refusal: Refused
) -> DescribeGroupsResponse:
    """Return the error response to DescribeGroups, at every group."""
    code, why = int(refusal.code), refusal.why if request.version >= 6 else None
    groups = (
        DescribedClassicGroup(group_id=group_id, error_code=code, error_message=why)
        for group_id in request.body.groups
    )
    return DescribeGroupsResponse(groups=tuple(groups))


GROUP_ERROR_RESPONSES: dict[type[Any], Callable[[GroupRequest[Any], Refused], Any]] = {
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat_error,
    ConsumerGroupDescribeRequest: consumer_group_describe_error,
    ListGroupsRequest: list_groups_error,
    DeleteGroupsRequest: delete_groups_error,
    OffsetCommitRequest: offset_commit_error,
    OffsetFetchRequest: offset_fetch_error,
    OffsetDeleteRequest: offset_delete_error,
    JoinGroupRequest: join_group_error,
    SyncGroupRequest: sync_group_error,
    HeartbeatRequest: heartbeat_error,
    LeaveGroupRequest: leave_group_error,
    DescribeGroupsRequest: describe_groups_error,
}
