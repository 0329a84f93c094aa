"""Queries about groups: FindCoordinator, ConsumerGroupDescribe, DescribeGroups and ListGroups."""

from dataclasses import dataclass
from typing import ClassVar

from apportion.errors import Code
from apportion.member.cluster_queries.query import BrokerQuery, GroupQuery
from apportion.wire.group_states import GroupState
from apportion.wire.messages import describe_groups
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from apportion.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUP_KEY = 0  # FindCoordinator's key_type of a group id


@dataclass(frozen=True, slots=True)
class FindCoordinatorQuery(GroupQuery[Coordinator]):
    """Find the group's coordinator. Any broker answers."""

    api: ClassVar[str] = "FindCoordinator"

    def request(self) -> FindCoordinatorRequest:
        """Return the request for the coordinator of this group."""
        return FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=(self.group_id,))

    def parse(self, response: FindCoordinatorResponse) -> Coordinator:
        """Return the coordinator; raise Refused, with the broker's words, if there is none."""
        found = response.coordinators[0]
        self.refuse_error(found.error_code, found.error_message)
        return found


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeQuery(GroupQuery[DescribedGroup]):
    """Describe a group of the consumer protocol (KIP-848).

    A group of another type is refused with GROUP_ID_NOT_FOUND, as one that does not exist.
    """

    api: ClassVar[str] = "ConsumerGroupDescribe"

    def request(self) -> ConsumerGroupDescribeRequest:
        """Return the request for the description of this group."""
        return ConsumerGroupDescribeRequest(group_ids=(self.group_id,))

    def parse(self, response: ConsumerGroupDescribeResponse) -> DescribedGroup:
        """Return the group's description."""
        group = response.groups[0]
        self.refuse_errors([group.error_code])
        return group


@dataclass(frozen=True, slots=True)
class DescribeGroupsQuery(GroupQuery[describe_groups.DescribedGroup | None]):
    """Describe a classic group."""

    api: ClassVar[str] = "DescribeGroups"

    def request(self) -> describe_groups.DescribeGroupsRequest:
        """Return the request for the description of this group."""
        return describe_groups.DescribeGroupsRequest(groups=(self.group_id,))

    def parse(
        self, response: describe_groups.DescribeGroupsResponse
    ) -> describe_groups.DescribedGroup | None:
        """Return the group's description; None for a group that does not exist or is not classic.

        Since version 6 that is an error (KIP-1043); in older versions such a group is Dead.
        """
        group = response.groups[0]
        if group.error_code == Code.GROUP_ID_NOT_FOUND:
            return None
        self.refuse_errors([group.error_code])
        return None if group.group_state == GroupState.DEAD else group


@dataclass(frozen=True, slots=True)
class ListGroupsQuery(BrokerQuery[tuple[ListedGroup, ...]]):
    """List the groups, of any type, that the queried broker coordinates."""

    api: ClassVar[str] = "ListGroups"

    def request(self) -> ListGroupsRequest:
        """Return the request for every group of the broker."""
        return ListGroupsRequest()

    def parse(self, response: ListGroupsResponse) -> tuple[ListedGroup, ...]:
        """Return the groups."""
        self.refuse_errors([response.error_code])
        return response.groups


@dataclass(frozen=True, slots=True)
class ListedGroupQuery(GroupQuery[ListedGroup | None]):
    """Look a group of any type up in the list of its coordinator."""

    api: ClassVar[str] = "ListGroups"

    def request(self) -> ListGroupsRequest:
        """Return the request for every group of the broker: no filter is by group id."""
        return ListGroupsRequest()

    def parse(self, response: ListGroupsResponse) -> ListedGroup | None:
        """Return the group's row; None if it does not exist."""
        self.refuse_errors([response.error_code])
        return next((row for row in response.groups if row.group_id == self.group_id), None)
