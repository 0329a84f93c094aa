"""What a server forgets when a client hangs up before it has its answers."""

import asyncio
from pathlib import Path
from typing import Any

from apportion.machine import Ticket
from apportion.node.settings import BrokerSettings
from apportion.server.request_receiver import OpenConnection
from apportion.server.server import Server
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.table import decode_response, encode_request

GROUP = "g"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class WatchedServer(Server):
    """A server that tells whose answers the first connection that closed did not wait for."""

    unanswered: asyncio.Future[tuple[Ticket, ...]]

    def connection_closed(
        self, connection: OpenConnection, tickets: tuple[Ticket, ...], reason: str | None
    ) -> None:
        if not self.unanswered.done():
            self.unanswered.set_result(tickets)
        super().connection_closed(connection, tickets, reason)


async def answer(streams: Streams, request: Any, version: int) -> Any:
    reader, writer = streams
    writer.write(encode_request(request, version, 1, "test"))
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    return decode_response(type(request), version, frame)[1]


async def members(streams: Streams) -> int:
    described = await answer(streams, DescribeGroupsRequest(groups=(GROUP,)), 5)
    return len(described.groups[0].members)


def test_a_closed_connection_names_the_requests_that_have_no_answer_yet(tmp_path: Path) -> None:
    settings = BrokerSettings.of(
        {"listeners": "127.0.0.1:0", "group.initial.rebalance.delay.ms": "3600000"}
    )
    joining = encode_request(
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=3_600_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range"),),
        ),
        3,
        1,
        "test",
    )

    async def life() -> tuple[Ticket, ...]:
        server = WatchedServer(settings, tmp_path)
        server.unanswered = asyncio.get_running_loop().create_future()
        host, port = await server.start()
        other = await asyncio.open_connection(host, port)
        await answer(other, FindCoordinatorRequest(key=GROUP), 3)
        _, writer = await asyncio.open_connection(host, port)
        # The second one waits for the first, and is none of the broker's.
        writer.write(joining * 2)
        while await members(other) < 1:
            pass
        writer.close()
        tickets = await server.unanswered
        other[1].close()
        await server.stop()
        return tickets

    assert len(asyncio.run(asyncio.wait_for(life(), 60))) == 1
