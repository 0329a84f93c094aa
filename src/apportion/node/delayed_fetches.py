"""Fetches that wait: each until one of its partitions has grown enough, or its deadline."""

from apportion.machine import Arrived, Ticket
from apportion.topics import IdPartition


class DelayedFetches:
    """Parked requests, by the partitions that could end their wait."""

    __slots__ = ("_by_partition", "_partitions", "_requests", "ready")

    def __init__(self) -> None:
        self._requests: dict[Ticket, Arrived] = {}
        self._partitions: dict[Ticket, tuple[IdPartition, ...]] = {}
        self._by_partition: dict[IdPartition, dict[Ticket, None]] = {}
        self.ready: dict[Ticket, None] = {}
        """The tickets whose partitions have changed since they were looked at last."""

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._requests

    def park(self, asked: Arrived, partitions_: tuple[IdPartition, ...]) -> None:
        """The request waits for a change at any of `places`."""
        self._requests[asked.ticket] = asked
        self._partitions[asked.ticket] = tuple(dict.fromkeys(partitions_))
        for place in self._partitions[asked.ticket]:
            self._by_partition.setdefault(place, {})[asked.ticket] = None

    def partition_changed(self, place: IdPartition) -> None:
        """Those who wait at `place` are worth another look."""
        if place in self._by_partition:
            self.ready.update(self._by_partition[place])

    def request_or_none(self, ticket: Ticket) -> Arrived | None:
        """The request that waits under `ticket`; None if there is none."""
        return self._requests.get(ticket)

    def remove(self, ticket: Ticket) -> Arrived | None:
        """The request no longer waits; None if it did not.

        That is so whatever a step that broke off has left of it: who never came to wait everywhere leaves as well.
        """
        for place in self._partitions.pop(ticket, ()):
            tickets = self._by_partition.get(place, {})
            tickets.pop(ticket, None)
            if not tickets:
                self._by_partition.pop(place, None)
        self.ready.pop(ticket, None)
        return self._requests.pop(ticket, None)
