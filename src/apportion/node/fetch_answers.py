"""The answers to delayed fetches: with their min_bytes, or at their max_wait."""

from apportion.machine import Arrived, Instant, Ticket
from apportion.node.broker import Answer, BrokerContext
from apportion.node.delayed_fetches import FETCH
from apportion.node.handlers.fetch import FetchResult
from apportion.node.replies import ReplySender


class FetchAnswers:
    """The end of a delayed fetch: it is tried again, answered or forgotten."""

    __slots__ = ("_broker", "_sender")

    def __init__(self, broker: BrokerContext, sender: ReplySender) -> None:
        self._broker = broker
        self._sender = sender

    def retry(self, ticket: Ticket, _now: Instant) -> None:
        """Answer a delayed Fetch if its partitions now have its min_bytes; else it goes on waiting.

        `DelayedFetches` lists as `ready` those whose partitions were appended to. The request is
        gone if it was answered at its max_wait, or if its client has disconnected.
        """
        self._broker.delayed_fetches.ready.pop(ticket)
        request = self._broker.delayed_fetches.request_or_none(ticket)
        if request is not None and (result := FetchResult(self._broker, request)).is_complete:
            self._answer(request, result)

    def answer(self, request: Arrived) -> None:
        """Answer a delayed Fetch, at its max_wait, with the batches that there are."""
        self._answer(request, FetchResult(self._broker, request))

    def stop_waiting(self, ticket: Ticket) -> None:
        """Forget the delayed Fetch of that ticket, if there is one."""
        self._broker.deadlines.disarm((FETCH, ticket))
        self._broker.delayed_fetches.remove(ticket)

    def _answer(self, request: Arrived, result: FetchResult) -> None:
        self.stop_waiting(request.ticket)
        self._sender.send_answer(request, Answer(result.response))
