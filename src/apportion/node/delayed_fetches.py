"""Fetches that wait: each until one of its partitions has grown enough, or its deadline."""

from apportion.machine import Arrived, Ticket
from apportion.topics import IdPartition


class DelayedFetches:
    """Parked requests, by the partitions that could end their wait."""

    __slots__ = ("_asked", "_at", "_places", "ripe")

    def __init__(self) -> None:
        self._asked: dict[Ticket, Arrived] = {}
        self._places: dict[Ticket, tuple[IdPartition, ...]] = {}
        self._at: dict[IdPartition, dict[Ticket, None]] = {}
        self.ripe: dict[Ticket, None] = {}
        """The tickets whose partitions have changed since they were looked at last."""

    def __len__(self) -> int:
        return len(self._asked)

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._asked

    def park(self, asked: Arrived, places: tuple[IdPartition, ...]) -> None:
        """The request waits for a change at any of `places`."""
        self._asked[asked.ticket] = asked
        self._places[asked.ticket] = tuple(dict.fromkeys(places))
        for place in self._places[asked.ticket]:
            self._at.setdefault(place, {})[asked.ticket] = None

    def changed(self, place: IdPartition) -> None:
        """Those who wait at `place` are worth another look."""
        if place in self._at:
            self.ripe.update(self._at[place])

    def asked_or_none(self, ticket: Ticket) -> Arrived | None:
        """The request that waits under `ticket`; None if there is none."""
        return self._asked.get(ticket)

    def leave(self, ticket: Ticket) -> Arrived | None:
        """The request no longer waits; None if it did not.

        That is so whatever a step that broke off has left of it: who never came to wait everywhere leaves as well.
        """
        for place in self._places.pop(ticket, ()):
            tickets = self._at.get(place, {})
            tickets.pop(ticket, None)
            if not tickets:
                self._at.pop(place, None)
        self.ripe.pop(ticket, None)
        return self._asked.pop(ticket, None)
