"""What a steady heartbeat costs the broker without its sockets: everything from bytes to bytes.

`python -m bench.heartbeat_path` prints the least and the median of the rounds, in µs of processor
time for each heartbeat; `--connections 2000` has more of them. A server runs on a loop of this
process; what is written to its connections is kept in a list.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.peers.members import VERSION, settled_members
from bench.peers.wires import Wire, frame

from apportion.node.settings import BrokerSettings
from apportion.server.connection import ServerConnection
from apportion.server.server import Server, loop_factory

MEMBERS_A_GROUP, PARTITIONS = 20, 64
ERROR_AT = 13  # in a response: behind length, correlation id, tags and throttle time


class ListTransport(asyncio.Transport):
    """A transport that keeps the last bytes that were written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.last = b""

    def write(self, data: Any) -> None:
        """Keep the bytes."""
        self.last = bytes(data)

    def is_closing(self) -> bool:
        """Return False: it is never closed."""
        return False

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


async def heartbeat_path_us(members: int, rounds: int) -> list[float]:
    """Return the processor time of a heartbeat in µs, for each round of one of each member."""
    with tempfile.TemporaryDirectory() as directory:
        settings = BrokerSettings.of({"listeners": "127.0.0.1:0"})
        server = Server(settings, Path(directory) / "data")
        address = await server.start()

        def settle() -> list[bytes]:
            with Wire(f"127.0.0.1:{address[1]}") as wire:
                groups = max(1, members // MEMBERS_A_GROUP)
                settled = settled_members(wire, "heartbeats", PARTITIONS, groups, members)
            return [frame(member.steady_heartbeat(), VERSION) for member in settled]

        frames = await asyncio.to_thread(settle)
        transports = [ListTransport() for _ in frames]
        connections = [ServerConnection(server, next(iter(server.advertised))) for _ in frames]
        for connection, transport in zip(connections, transports, strict=True):
            connection.connection_made(transport)
        taken = []
        for number in range(rounds):
            correlation = number.to_bytes(4, "big")
            requests = [request[:8] + correlation + request[12:] for request in frames]
            before = time.process_time()
            for connection, request in zip(connections, requests, strict=True):
                connection.data_received(request)
            await asyncio.sleep(0)
            taken.append((time.process_time() - before) / members * 1e6)
            for transport in transports:
                assert transport.last[4:8] == correlation
                assert transport.last[ERROR_AT : ERROR_AT + 2] == bytes(2)
        for connection in connections:
            connection.connection_lost(None)
        await server.stop()
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        taken = runner.run(heartbeat_path_us(options.connections, options.rounds))
    print(f"{min(taken):.1f} µs at least, {statistics.median(taken):.1f} in the median")


if __name__ == "__main__":
    main()
