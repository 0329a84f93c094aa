"""A member's look-ups in the cluster: one at a time, beside its requests to the coordinator."""

from apportion.machine import Instant
from apportion.member.membership import Lookup


class MetadataRefresh:
    """The one metadata request or assignor's query that may be in flight.

    An answer to any other request is stale.
    """

    def __init__(self) -> None:
        self._in_flight: Lookup | None = None
        self._not_before_ms = 0

    def due_at(self) -> int | None:
        """Return when the next one may be sent (monotonic ms); None while one is in flight."""
        return self._not_before_ms if self._in_flight is None else None

    def take_answered(self, request_id: int) -> Lookup | None:
        """Return the request with this id, which is answered then; None if it is not in flight."""
        lookup = self._in_flight
        if lookup is None or request_id != lookup.request_id:
            return None
        self._in_flight = None
        return lookup

    def schedule(self, now: Instant, wait_ms: int) -> None:
        """Ignore the answer to the request in flight, and send none for `wait_ms`."""
        self._in_flight, self._not_before_ms = None, now.mono_ms + wait_ms

    def start(self, lookup: Lookup) -> Lookup:
        """Return the next request, which is in flight then."""
        self._in_flight = lookup
        return lookup
