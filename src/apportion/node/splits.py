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


def _one_group_each(names: str, *copied: str) -> Callable[[Any], list[tuple[str, Any]]]:
    """Return the function that splits a request, which names groups in field `names`, by group.

    A repeated name counts once, or a small request could ask for a huge response.
    copied: the fields that each part has as well.
    """

    def parts(request: Any) -> list[tuple[str, Any]]:
        same = {field: getattr(request, field) for field in copied}
        return [
            (group_id, type(request)(**{names: (group_id,)}, **same))
            for group_id in dict.fromkeys(getattr(request, names))
        ]

    return parts


def _all_of(response: type[Any], field: str) -> Callable[[list[Any]], Any]:
    """Return the function that joins responses whose elements are in `field`."""
    return lambda parts: response(
        **{field: tuple(each for part in parts for each in getattr(part, field))}
    )


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


def _join_list_groups(parts: list[ListGroupsResponse]) -> ListGroupsResponse:
    """Join the ListGroups responses of all coordinator shards to one."""
    # One shard that cannot answer makes the list incomplete, and the whole response has to say so.
    code = next((part.error_code for part in parts if part.error_code != Code.NONE), Code.NONE)
    return ListGroupsResponse(
        error_code=code, groups=tuple(group for part in parts for group in part.groups)
    )


SPLITS: dict[type, RequestSplit] = {
    ConsumerGroupDescribeRequest: RequestSplit(
        _one_group_each("group_ids", "include_authorized_operations"),
        _all_of(ConsumerGroupDescribeResponse, "groups"),
    ),
    DescribeGroupsRequest: RequestSplit(
        _one_group_each("groups", "include_authorized_operations"),
        _all_of(DescribeGroupsResponse, "groups"),
    ),
    DeleteGroupsRequest: RequestSplit(
        _one_group_each("groups_names"), _all_of(DeleteGroupsResponse, "results")
    ),
    OffsetFetchRequest: RequestSplit(_offset_fetch_parts, _all_of(OffsetFetchResponse, "groups")),
    ListGroupsRequest: RequestSplit(lambda _request: [], _join_list_groups),
}
EVERY_SHARD = ListGroupsRequest
"""The request that goes to all shards that exist."""


class SplitRequest:
    """A request whose parts are with several shards.

    tickets: those of the parts, in their order; they are negative. responses: by ticket; None for a
        part that has no response yet. missing: how many those are.
    """

    __slots__ = ("missing", "request", "responses", "tickets")

    def __init__(self, request: Arrived, tickets: list[Ticket]) -> None:
        self.request = request
        self.tickets = tickets
        self.responses: dict[Ticket, Any] = dict.fromkeys(tickets)
        self.missing = len(tickets)


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
            if split.responses[reply.ticket] is None:
                split.missing -= 1
            split.responses[reply.ticket] = reply.body

    def joined_reply_or_none(self, part: Ticket) -> PendingReply | None:
        """Return the whole reply to the split request of that part; None until it is complete.

        The request stays known until `forget`.
        """
        split = self._by_part.get(part)
        if split is None or split.missing:
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
