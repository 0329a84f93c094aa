"""What a member asks the cluster beside its coordinator, one thing at a time: how topics stand, or what its assignor must know."""

from typing import Any

from apportion.machine import Instant
from apportion.member.membership import FetchMetadata, QueryCluster


class MetadataRefresh:
    """under_way: what is asked now; whatever is answered to something else comes too late. at_ms: when it may ask next."""

    def __init__(self) -> None:
        self.in_flight: FetchMetadata | QueryCluster | None = None
        self.not_before_ms = 0

    def take_answer(self, request_id: int) -> bool:
        """Whether this is the answer that is waited for; it is waited for no longer."""
        if self.in_flight is None or request_id != self.in_flight.request_id:
            return False
        self.in_flight = None
        return True

    def schedule(self, now: Instant, wait_ms: int) -> None:
        """What is asked now is of no use any more, and the next look waits that long."""
        self.in_flight, self.not_before_ms = None, now.mono_ms + wait_ms

    def start(self, request_id: int, names: tuple[str, ...], question: Any) -> FetchMetadata | QueryCluster:
        """An assignor's question goes first: until it is answered, nothing else can be done."""
        self.in_flight = FetchMetadata(request_id, names) if question is None else QueryCluster(request_id, question)
        return self.in_flight
