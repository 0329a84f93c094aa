"""The one book of a shard's requests that have no response yet.

Every request is in it while its step runs; a JoinGroup or SyncGroup that waits for other members
stays in it between steps. A classic group keeps the tickets of its parked requests, and nothing
else. So whatever ends requests touches the book alone: a response takes its request out, and where
the shard has to be read again from its log, the requests in the book are those that get an error. A
closed connection takes its requests out as well, but their tickets stay until the group answers
them: otherwise a second answer to a ticket could not be told from one that comes too late.
ARCHITECTURE.md names the places outside a shard that know of a request.
"""

from collections.abc import Iterable, Iterator

from apportion.machine import Arrived, Ticket


class WaitingRequests:
    """The requests to one shard that have no response yet, by ticket, oldest first."""

    __slots__ = ("_answered", "_by_ticket", "_closed")

    def __init__(self) -> None:
        self._by_ticket: dict[Ticket, Arrived] = {}
        # those of `_by_ticket` whose `Reply` has yet to be carried out
        self._answered: dict[Ticket, None] = {}
        # the parked tickets whose connection has closed, and which are not answered yet
        self._closed: dict[Ticket, None] = {}

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._by_ticket

    def __iter__(self) -> Iterator[Arrived]:
        return iter(self._by_ticket.values())

    def add(self, request: Arrived) -> None:
        """Note a request that has just arrived."""
        self._by_ticket[request.ticket] = request

    def request_or_none(self, ticket: Ticket) -> Arrived | None:
        """Return the request of that ticket; None if its connection has closed."""
        return self._by_ticket.get(ticket)

    def answer(self, ticket: Ticket) -> bool:
        """Note that a request has its response; return False if its connection has closed.

        A closed request is forgotten by that. A second answer is a defect.
        """
        if ticket in self._closed:
            del self._closed[ticket]
            return False
        is_open = ticket in self._by_ticket and ticket not in self._answered
        assert is_open, f"ticket {ticket} has its answer already"
        self._answered[ticket] = None
        return True

    def remove(self, ticket: Ticket) -> None:
        """Remove a request, for the driver that has carried out its `Reply`.

        Not earlier: a step that fails before that must find the request here, to fail it.
        """
        del self._by_ticket[ticket], self._answered[ticket]

    def drop(self, tickets: Iterable[Ticket]) -> None:
        """Forget the requests whose connection has closed, but not that they have no answer yet."""
        for ticket in tickets:
            if self._by_ticket.pop(ticket, None) is not None:
                self._closed[ticket] = None
