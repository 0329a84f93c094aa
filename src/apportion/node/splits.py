"""Requests about several groups: how they are split by group, and how the responses are joined.

Each part is an ordinary request about one group (ListGroups: one part for each shard). `join`
combines the responses in the order of the parts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from apportion.errors import Code
from apportion.machine import Arrived, Ticket
from apportion.node.flush_gate import PendingReply
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from apportion.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from apportion.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from apportion.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse


class RequestSplit(NamedTuple):
    """Functions that split one kind of request and join its responses.

    parts: returns (group id, request) pairs.
    """

    parts: Callable[[Any], list[tuple[str, Any]]]
    join: Callable[[list[Any]], Any]


def _describe_consumer_groups_parts(request: ConsumerGroupDescribeRequest) -> list[tuple[str, Any]]:
    """Split ConsumerGroupDescribe into one request for each group.

    A repeated name counts once, or a small request could ask for a huge response.
    """
    operations = request.include_authorized_operations
    return [
        (
            group_id,
            ConsumerGroupDescribeRequest(
                group_ids=(group_id,), include_authorized_operations=operations
            ),
        )
        for group_id in dict.fromkeys(request.group_ids)
    ]


def _describe_groups_parts(request: DescribeGroupsRequest) -> list[tuple[str, Any]]:
    """Split DescribeGroups into a request for each group, which goes to the group's shard.

    A repeated name counts once.
    """
    operations = request.include_authorized_operations
    return [
        (
            group_id,
            DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=operations),
        )
        for group_id in dict.fromkeys(request.groups)
    ]


def _delete_groups_parts(request: DeleteGroupsRequest) -> list[tuple[str, Any]]:
    """Split DeleteGroups into one request for each group; a repeated name counts once."""
    return [
        (group_id, DeleteGroupsRequest(groups_names=(group_id,)))
        for group_id in dict.fromkeys(request.groups_names)
    ]


def _offset_fetch_parts(request: OffsetFetchRequest) -> list[tuple[str, Any]]:
    """Split OffsetFetch into one request for each group.

    Before version 8 the request names one group and is its own part.
    """
    if not request.groups:
        return [(request.group_id, request)]
    # A request for all offsets of a group includes every other request for it, so it is the only
    # one that is answered: a small request cannot ask for a huge response.
    all_topics = {group.group_id: group for group in request.groups if group.topics is None}
    groups = [group for group in request.groups if all_topics.get(group.group_id, group) is group]
    return [
        (group.group_id, OffsetFetchRequest(groups=(group,), require_stable=request.require_stable))
        for group in groups
    ]


def _join_offset_fetch(parts: list[OffsetFetchResponse]) -> OffsetFetchResponse:
    """Join the OffsetFetch responses of the coordinator shards to one."""
    if len(parts) == 1:
        return parts[0]
    return OffsetFetchResponse(groups=tuple(group for part in parts for group in part.groups))


def _join_list_groups(parts: list[ListGroupsResponse]) -> ListGroupsResponse:
    """Join the ListGroups responses of all coordinator shards to one."""
    # One shard that cannot answer makes the list incomplete, and the whole response has to say so.
    code = next((part.error_code for part in parts if part.error_code != Code.NONE), Code.NONE)
    return ListGroupsResponse(
        error_code=code, groups=tuple(group for part in parts for group in part.groups)
    )


SPLITS: dict[type, RequestSplit] = {
    ConsumerGroupDescribeRequest: RequestSplit(
        _describe_consumer_groups_parts,
        lambda parts: ConsumerGroupDescribeResponse(
            groups=tuple(each for part in parts for each in part.groups)
        ),
    ),
    DescribeGroupsRequest: RequestSplit(
        _describe_groups_parts,
        lambda parts: DescribeGroupsResponse(
            groups=tuple(each for part in parts for each in part.groups)
        ),
    ),
    DeleteGroupsRequest: RequestSplit(
        _delete_groups_parts,
        lambda parts: DeleteGroupsResponse(
            results=tuple(each for part in parts for each in part.results)
        ),
    ),
    OffsetFetchRequest: RequestSplit(_offset_fetch_parts, _join_offset_fetch),
    ListGroupsRequest: RequestSplit(lambda _request: [], _join_list_groups),
}
EVERY_SHARD = ListGroupsRequest
"""The request that goes to all shards that exist."""


class SplitRequest:
    """A request whose parts are with several shards.

    tickets: those of the parts, in their order; they are negative. responses: by ticket; None for a
        part that has no response yet.
    """

    __slots__ = ("request", "responses", "tickets")

    def __init__(self, request: Arrived, tickets: list[Ticket]) -> None:
        self.request = request
        self.tickets = tickets
        self.responses: dict[Ticket, Any] = dict.fromkeys(tickets)


class SplitRequests:
    """The split requests of which at least one part has no response yet."""

    __slots__ = ("_by_part", "_last_ticket")

    def __init__(self) -> None:
        self._by_part: dict[Ticket, SplitRequest] = {}
        self._last_ticket = 0

    def add(self, request: Arrived, part_count: int) -> list[Ticket]:
        """Keep a request split by group until all parts are answered; return a ticket for each."""
        # Negative, so a ticket of a part is never one of a connection.
        tickets = [Ticket(self._last_ticket - number) for number in range(1, part_count + 1)]
        self._last_ticket -= part_count
        self._by_part |= dict.fromkeys(tickets, SplitRequest(request, tickets))
        return tickets

    def add_response(self, reply: PendingReply) -> None:
        """Keep the response to a part of a split request; one that was abandoned needs none."""
        split = self._by_part.get(reply.ticket)
        if split is not None:
            split.responses[reply.ticket] = reply.body

    def joined_reply_or_none(self, part: Ticket) -> PendingReply | None:
        """Return the whole reply to the split request of that part; None until it is complete.

        The request stays known until `forget`.
        """
        split = self._by_part.get(part)
        if split is None or any(response is None for response in split.responses.values()):
            return None
        request = split.request
        join = SPLITS[type(request.request)].join
        # In the order of the parts, which is that of the tickets.
        return PendingReply(request.ticket, join(list(split.responses.values())), request)

    def abandon(self, ticket: Ticket) -> Arrived | None:
        """Forget the split request that has this ticket, or a part with it, and return it.

        Returns None if there is none. For a request that fails as a whole (`Node.give_up`).
        """
        for split in self._by_part.values():
            if split.request.ticket == ticket or ticket in split.responses:
                self.forget(split.tickets[0])
                return split.request
        return None

    def forget(self, part: Ticket) -> None:
        """Forget the split request that has a part of this ticket, because it was answered."""
        for ticket in self._by_part[part].tickets:
            del self._by_part[ticket]
