"""What a member asks the cluster beside its coordinator, one thing at a time: how topics stand, or what its assignor must know."""

from typing import Any

from apportion.machine import Instant
from apportion.member.membership import Ask, LookUp


class Looks:
    """under_way: what is asked now; whatever is answered to something else comes too late. at_ms: when it may ask next."""

    def __init__(self) -> None:
        self.under_way: LookUp | Ask | None = None
        self.at_ms = 0

    def answered(self, request_id: int) -> bool:
        """Whether this is the answer that is waited for; it is waited for no longer."""
        if self.under_way is None or request_id != self.under_way.request_id:
            return False
        self.under_way = None
        return True

    def next(self, now: Instant, wait_ms: int) -> None:
        """What is asked now is of no use any more, and the next look waits that long."""
        self.under_way, self.at_ms = None, now.mono_ms + wait_ms

    def ask(self, request_id: int, names: tuple[str, ...], question: Any) -> LookUp | Ask:
        """An assignor's question goes first: until it is answered, nothing else can be done."""
        self.under_way = LookUp(request_id, names) if question is None else Ask(request_id, question)
        return self.under_way
