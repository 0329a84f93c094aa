"""The rule of a request that any broker can answer: who is asked first, and who if that one fails.

A broker that hangs must not cost a client its metadata while others would answer. So the time of a
request is shared by the brokers that may be asked, and one that has failed is asked last.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apportion.errors import Unanswerable
from apportion.member.time_limits import ReadClock, RetryDeadline
from apportion.rules import Rule, RuleQuery

HostAndPort = tuple[str, int]
"""Host and port of a broker."""


@dataclass(frozen=True, slots=True)
class SendToAddress(RuleQuery):
    """Send the request once, to the broker at this address. Answer: the response."""

    address: HostAndPort
    timeout_ms: int


class BrokerOrder:
    """The order in which one client asks its brokers.

    Threads may share it: in the middle of a change another one sees another order, nothing worse.
    """

    def __init__(self) -> None:
        """Know of no failure yet."""
        self._failed: dict[HostAndPort, None] = {}  # those that failed last, the latest at the end

    def record_failure(self, address: HostAndPort) -> None:
        """Ask this broker after the others: it has not answered a request."""
        self._failed.pop(address, None)
        self._failed[address] = None

    def record_success(self, address: HostAndPort) -> None:
        """Ask this broker in its turn again: it has answered a request."""
        self._failed.pop(address, None)

    def send_to_any(self, addresses: Iterable[HostAndPort], limit_ms: int) -> Rule[Any]:
        """Send a request to the first of the brokers that answers, in `limit_ms` for all of them.

        Raises the last error if none does.
        """
        started_ms: int = yield ReadClock()
        deadline = RetryDeadline(started_ms, limit_ms)
        known = dict.fromkeys(addresses)
        # A cluster may replace its brokers for ever: those that left it are forgotten.
        self._failed = {address: None for address in tuple(self._failed) if address in known}
        order = self._in_order(known)
        failure = Unanswerable("no broker is known")
        for asked, address in enumerate(order):
            now_ms: int = yield ReadClock()
            share_ms = deadline.left_ms(now_ms) // (len(order) - asked)
            try:
                return (yield SendToAddress(address, max(1, share_ms)))
            except Unanswerable as error:
                failure = error
        raise failure

    def _in_order(self, known: Iterable[HostAndPort]) -> list[HostAndPort]:
        failed = tuple(self._failed)
        return [*(address for address in known if address not in failed), *failed]
