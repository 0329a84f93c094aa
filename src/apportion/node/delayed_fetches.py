"""Delayed fetches (Kafka's fetch purgatory): Fetch requests that wait for more records.

A fetch waits until one of its partitions has changed so that it has `min_bytes`, or until its
deadline (`max_wait_ms`), whichever comes first. It knows no logs: the node asks for a new result.
"""

from apportion.machine import Arrived, Ticket
from apportion.topics import IdPartition

FETCH = "fetch"
"""The deadline of a delayed Fetch: its `max_wait_ms` is over."""


class DelayedFetches:
    """Parked requests, and for each partition the ones that a change of it could complete.

    ready: tickets of which a partition has changed since they were tried last, oldest change first.
    """

    __slots__ = ("_by_partition", "_partitions", "_requests", "ready")

    def __init__(self) -> None:
        self._requests: dict[Ticket, Arrived] = {}
        self._partitions: dict[Ticket, tuple[IdPartition, ...]] = {}
        self._by_partition: dict[IdPartition, dict[Ticket, None]] = {}
        self.ready: dict[Ticket, None] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._requests

    def park(self, request: Arrived, partitions: tuple[IdPartition, ...]) -> None:
        """Keep a Fetch request until one of `partitions` changes (Kafka's fetch purgatory)."""
        self._requests[request.ticket] = request
        # Each once, though a request may name a partition twice: decision 42 tells what that once
        # broke.
        self._partitions[request.ticket] = tuple(dict.fromkeys(partitions))
        for partition in self._partitions[request.ticket]:
            self._by_partition.setdefault(partition, {})[request.ticket] = None

    def partition_changed(self, partition: IdPartition) -> None:
        """Have the delayed fetches of the partition tried again at the end of the node's step."""
        if partition in self._by_partition:
            self.ready.update(self._by_partition[partition])

    def request_or_none(self, ticket: Ticket) -> Arrived | None:
        """Return the request parked under `ticket`; None if there is none."""
        return self._requests.get(ticket)

    def remove(self, ticket: Ticket) -> Arrived | None:
        """Forget the delayed Fetch of that ticket and return it; None if there is none.

        The rest of a `park` that failed halfway is removed as well.
        """
        for partition in self._partitions.pop(ticket, ()):
            tickets = self._by_partition.get(partition, {})
            tickets.pop(ticket, None)
            if not tickets:
                self._by_partition.pop(partition, None)
        self.ready.pop(ticket, None)
        return self._requests.pop(ticket, None)
