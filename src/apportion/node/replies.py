"""The way of a reply out of the node: at once, or held until its flush; joined if it was split.

This module also knows which replies belong to the current unit of work (`node/unit_of_work.py`), so
that they can be taken back if the unit fails.
"""

from collections.abc import Container
from typing import Any

from apportion.errors import Code
from apportion.machine import Arrived, Reply, Ticket
from apportion.node import flush_gate
from apportion.node.broker import Answer, BrokerContext
from apportion.node.error_responses import error_response
from apportion.node.flush_gate import PendingReply
from apportion.node.handlers.produce import unacknowledged
from apportion.node.splits import SplitRequests
from apportion.wire.messages.produce import ProduceResponse


class ReplySender:
    """The actions of the current step, among them the replies that may leave.

    actions: in the order in which the driver has to carry them out.
    """

    __slots__ = (
        *("_flush_gate", "_notes", "_of_unit", "_split_requests", "_topic_service"),
        "actions",
    )

    def __init__(self, broker: BrokerContext, split_requests: SplitRequests) -> None:
        self._flush_gate = broker.flush_gate
        self._topic_service = broker.topic_service
        self._split_requests = split_requests
        self._of_unit: list[PendingReply] = []
        self._notes = broker.notes
        self.actions: list[Any] = []

    def send_answer(self, request: Arrived, answer: Answer) -> None:
        """Send the answer of a handler once all that it shows is on the disk."""
        # A response may tell of a topic, so it waits for the metadata log as well.
        flush_seq = max(answer.flush_seq, self._topic_service.flush_seq)
        self.send_when_durable(flush_seq, PendingReply(request.ticket, answer.body, request))

    def send_when_durable(self, flush_seq: int, reply: PendingReply) -> None:
        """Send the broker's reply, or hold it until flush `flush_seq` has succeeded."""
        self._of_unit.append(reply)
        if flush_gate.may_send(flush_seq, self._flush_gate.durable_seq):
            self.send(reply)
        else:
            self._flush_gate.hold_reply(flush_seq, reply)

    def send(self, reply: PendingReply) -> None:
        """Send the broker's reply in this step.

        The reply to a part of a split request is sent only if it completes the whole response.
        """
        # The tickets of parts are negative (`SplitRequests.add`).
        if reply.ticket >= 0:
            self.actions.append(Reply(reply.ticket, _leaving(reply.request, reply.body)))
            return
        self._split_requests.add_response(reply)
        whole = self._split_requests.joined_reply_or_none(reply.ticket)
        if whole is not None:
            self._of_unit.append(whole)
            self.actions.append(Reply(whole.ticket, _leaving(whole.request, whole.body)))
            # Last, because until then the whole request fails with any of its parts.
            self._split_requests.forget(reply.ticket)

    def send_error(self, request: Arrived, code: Code) -> None:
        """Answer a request that has failed as a whole, in this step."""
        self.send_at_once(request, error_response(request, code))

    def send_at_once(self, request: Arrived, body: Any) -> None:
        """Answer a whole request in this step, outside of any unit of work."""
        self.actions.append(Reply(request.ticket, _leaving(request, body)))

    def confirm(self) -> None:
        """Begin a new unit of work: the replies so far are final, and so are the log lines.

        A line leaves with the replies of its flush.
        """
        self._of_unit.clear()
        for flush_seq, note in self._notes:
            if flush_gate.may_send(flush_seq, self._flush_gate.durable_seq):
                self.actions.append(note)
            else:
                self._flush_gate.hold_note(flush_seq, note)
        self._notes.clear()

    def requests_of_unit(self) -> list[Arrived]:
        """Return the requests that the current unit of work has answered."""
        return [reply.request for reply in self._of_unit]

    def retract(self, tickets: Container[Ticket]) -> None:
        """Take back the replies with these tickets, sent or held, and the lines of a failed unit.

        A log line says what has happened, and nothing of the unit has.
        """
        self._notes.clear()
        self._flush_gate.retract_replies(tickets)
        self.actions = [
            action
            for action in self.actions
            if type(action) is not Reply or action.ticket not in tickets
        ]

    def take_actions(self) -> list[Any]:
        """Return the actions of the node's step, and begin with none."""
        actions, self.actions = self.actions, []
        return actions


def _leaving(request: Arrived, body: Any) -> Any:
    """Return the body of a reply: the response as the caller may have it, or what stands for it."""
    if request.access is not None:
        body = request.access.completed(body)
    # As `expects_response` says, but by the response: each reply comes this way, and few are these.
    if type(body) is ProduceResponse and not request.request.acks:
        return unacknowledged(body)
    return body
