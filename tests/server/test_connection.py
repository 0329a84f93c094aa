"""The server's side of one connection, with a receiver of requests in the broker's place."""

import asyncio
from typing import Any

from apportion.machine import Caller, Ticket
from apportion.node.settings import BrokerSettings
from apportion.server.connection import ResponseSlot, ServerConnection
from apportion.wire.messages.metadata import MetadataRequest, MetadataResponse
from apportion.wire.table import encode_request


class Receiver:
    """Numbers the requests of a connection, and answers none."""

    settings = BrokerSettings()

    def __init__(self) -> None:
        self.slots: list[ResponseSlot] = []
        self.closed: list[tuple[Ticket, ...]] = []

    def connection_opened(self, _: ServerConnection) -> bool:
        return True

    def submit(self, _: ServerConnection, slot: ResponseSlot, _request: Any, _by: Caller) -> None:
        self.slots.append(slot)
        slot.ticket = Ticket(len(self.slots))

    def connection_closed(
        self, _: ServerConnection, tickets: tuple[Ticket, ...], _reason: str | None
    ) -> None:
        self.closed.append(tickets)


def test_a_closed_connection_names_the_requests_that_have_no_answer_yet() -> None:
    receiver = Receiver()
    connection = ServerConnection(receiver)
    connection.connection_made(asyncio.Transport())
    for number in range(3):
        connection.data_received(encode_request(MetadataRequest(), 12, number, "test"))
    # Ready, and it waits for the response of the first request.
    connection.send_response(receiver.slots[1], MetadataResponse())
    connection.connection_lost(None)
    assert receiver.closed == [(1, 3)]
