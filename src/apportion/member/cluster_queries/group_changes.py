"""Queries by which an administrator changes a group: DeleteGroups, OffsetDelete and LeaveGroup.

A member of the consumer protocol cannot be removed by LeaveGroup; a heartbeat of epoch -1 with its
id removes it, as when the member leaves by itself. A query may be sent again if its response is
lost: it then finds its work done, or is refused for that.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from apportion.errors import Code
from apportion.member.cluster_queries.query import GroupQuery
from apportion.topics import TopicPartition, grouped
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from apportion.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

LEAVE_EPOCH = -1
"""The member epoch of a heartbeat that leaves the group (KIP-848)."""


class RemovedMember(NamedTuple):
    """A member that an administrator removes. instance_id: None for a dynamic member."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroupQuery(GroupQuery[None]):
    """Delete a group without members, of any type, with its committed offsets."""

    api: ClassVar[str] = "DeleteGroups"

    def request(self) -> DeleteGroupsRequest:
        """Return the request to delete this group."""
        return DeleteGroupsRequest(groups_names=(self.group_id,))

    def parse(self, response: DeleteGroupsResponse) -> None:
        """Raise Refused if the group was not deleted."""
        for result in response.results:
            # From version 3 on the broker may say why, for one: with GROUP_DELETION_FAILED.
            if result.error_message:
                self.refuse_error(result.error_code, result.error_message)
            self.refuse_errors([result.error_code])


@dataclass(frozen=True, slots=True)
class DeleteOffsetsQuery(GroupQuery[dict[TopicPartition, Code]]):
    """Delete the group's committed offsets of these partitions (KIP-496)."""

    api: ClassVar[str] = "OffsetDelete"

    partitions: tuple[TopicPartition, ...]

    def request(self) -> OffsetDeleteRequest:
        """Return the request to delete the offsets."""
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                ),
            )
            for topic, numbers in grouped(sorted(self.partitions)).items()
        )
        return OffsetDeleteRequest(group_id=self.group_id, topics=topics)

    def parse(self, response: OffsetDeleteResponse) -> dict[TopicPartition, Code]:
        """Return each partition's error or NONE; raise Refused for an error of the whole request.

        A partition that the response leaves out has UNKNOWN_SERVER_ERROR.
        """
        self.refuse_errors([response.error_code])
        codes = {
            TopicPartition(topic.name, partition.partition_index): Code.of(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }
        return {each: codes.get(each, Code.UNKNOWN_SERVER_ERROR) for each in self.partitions}


@dataclass(frozen=True, slots=True)
class RemoveMembersQuery(GroupQuery[dict[RemovedMember, Code]]):
    """Remove members that speak the classic protocol (KIP-345).

    reason: for the broker's log alone (KIP-800).
    """

    api: ClassVar[str] = "LeaveGroup"

    members: tuple[RemovedMember, ...]
    reason: str

    def request(self) -> LeaveGroupRequest:
        """Return the request to remove the members.

        A static member is named by its instance id alone: with both ids the request is that of the
        member itself.
        """
        return LeaveGroupRequest(
            group_id=self.group_id,
            members=tuple(
                MemberIdentity(
                    member_id="" if each.instance_id else each.member_id,
                    group_instance_id=each.instance_id,
                    reason=self.reason,
                )
                for each in self.members
            ),
        )

    def parse(self, response: LeaveGroupResponse) -> dict[RemovedMember, Code]:
        """Return each member's error or NONE; raise Refused for an error of the whole request.

        A member that the response leaves out has UNKNOWN_SERVER_ERROR.
        """
        self.refuse_errors([response.error_code])
        codes = {
            each.group_instance_id or each.member_id: Code.of(each.error_code)
            for each in response.members
        }
        return {
            each: codes.get(each.instance_id or each.member_id, Code.UNKNOWN_SERVER_ERROR)
            for each in self.members
        }


@dataclass(frozen=True, slots=True)
class RemoveConsumerMemberQuery(GroupQuery[None]):
    """Remove a member that speaks the consumer protocol (KIP-848)."""

    api: ClassVar[str] = "ConsumerGroupHeartbeat"

    member: RemovedMember

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat with which the member would leave."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member.member_id,
            instance_id=self.member.instance_id,
            member_epoch=LEAVE_EPOCH,
        )

    def parse(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Raise Refused, with the broker's words, if the member was not removed."""
        self.refuse_error(response.error_code, response.error_message)
