"""The responses of a step: encoded first, then written, those to one client in one write."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apportion.node.settings import BrokerSettings
from apportion.server import connection as connections
from apportion.server.connection import ServerConnection
from apportion.server.fresh_ids import FreshIds
from apportion.server.server import Server
from apportion.server.written_together import MOST_CONNECTIONS
from apportion.wire import table
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.table import encode_request

LISTENER = "PLAINTEXT"
PLANTED = MemoryError("planted")


class Transport(asyncio.Transport):
    """Notes what is written to it, and by whom."""

    def __init__(self, name: int, writes: list[tuple[int, bytes]]) -> None:
        super().__init__({"peername": ("127.0.0.1", name)})
        self.name, self.writes = name, writes
        self.fails = self.is_aborted = self.is_closed = False

    def write(self, data: Any) -> None:
        if self.fails:
            raise PLANTED
        self.writes.append((self.name, bytes(data)))

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def is_closing(self) -> bool:
        return self.is_aborted or self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class Clients:
    """Connections of a running server, whose transports note what is written."""

    def __init__(self, server: Server, count: int) -> None:
        self.server = server
        self.writes: list[tuple[int, bytes]] = []
        self.transports = [Transport(number, self.writes) for number in range(count)]
        self.connections = [ServerConnection(server, LISTENER) for _ in range(count)]
        for made, transport in zip(self.connections, self.transports, strict=True):
            made.connection_made(transport)

    async def send(self, *counts: int) -> None:
        """Each client sends so many commits, and all of them are one step."""
        request = encode_request(OffsetCommitRequest(group_id="g"), 9, 1, "test")
        for made, count in zip(self.connections, counts, strict=True):
            made.data_received(request * count)
        await asyncio.sleep(0)

    def hang_up(self) -> None:
        for made in self.connections:
            made.connection_lost(None)


def played(tmp_path: Path, count: int, script: Callable[[Clients], Any]) -> Clients:
    """The clients after `script`."""

    async def play() -> Clients:
        server = Server(BrokerSettings.of({"listeners": "127.0.0.1:0"}), tmp_path / "data")
        await server.start()
        clients = Clients(server, count)
        await script(clients)
        clients.hang_up()
        await server.stop()
        return clients

    return asyncio.run(play())


def test_the_responses_to_one_client_leave_in_one_write(tmp_path: Path) -> None:
    clients = played(tmp_path, 2, lambda clients: clients.send(3, 1))
    assert [name for name, _ in clients.writes] == [0, 1]
    (_, three), (_, one) = clients.writes
    assert three == one * 3


@pytest.fixture
def written_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[Clients], list[int]]:
    """`written_before(clients)`: how much was written to them when each response was encoded."""

    def noted_for(clients: Clients) -> list[int]:
        seen: list[int] = []
        encode = table.encode_response

        def noted(*arguments: Any) -> Any:
            seen.append(len(clients.writes))
            return encode(*arguments)

        monkeypatch.setattr(connections, "encode_response", noted)
        return seen

    return noted_for


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, [0] * 3),
        (MOST_CONNECTIONS + 2, [0] * MOST_CONNECTIONS + [MOST_CONNECTIONS] * 2),
    ],
    ids=["all-of-a-step", "many-at-a-time"],
)
def test_responses_are_encoded_before_the_first_of_them_is_written(
    tmp_path: Path,
    written_before: Callable[[Clients], list[int]],
    count: int,
    expected: list[int],
) -> None:
    seen: list[int] = []

    async def script(clients: Clients) -> None:
        noted = written_before(clients)
        await clients.send(*[1] * count)
        seen.extend(noted)

    assert len(played(tmp_path, count, script).writes) == count
    assert seen == expected


def test_responses_that_are_collected_for_a_client_have_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "COLLECTED_BYTES", 40)
    clients = played(tmp_path, 1, lambda clients: clients.send(9))
    assert [len(data) for _, data in clients.writes] == [3 * 15] * 3


def test_a_write_that_fails_ends_that_connection_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(clients: Clients) -> None:
        clients.transports[0].fails = True
        await clients.send(1, 1)
        await clients.send(0, 1)

    clients = played(tmp_path, 2, script)
    assert [name for name, _ in clients.writes] == [1, 1]
    assert [transport.is_aborted for transport in clients.transports] == [True, False]
    assert "could not write to 127.0.0.1:0: MemoryError('planted')" in caplog.text


@pytest.fixture
def second_response_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second response that is encoded cannot be."""
    encode, count = table.encode_response, itertools.count(1)

    def broken(*arguments: Any) -> Any:
        if next(count) == 2:
            raise PLANTED
        return encode(*arguments)

    monkeypatch.setattr(connections, "encode_response", broken)


@pytest.mark.usefixtures("second_response_is_broken")
def test_a_connection_that_is_closed_has_its_responses_before(tmp_path: Path) -> None:
    clients = played(tmp_path, 2, lambda clients: clients.send(2, 1))
    assert [name for name, _ in clients.writes] == [0, 1]
    assert [transport.is_closed for transport in clients.transports] == [True, False]


@pytest.mark.usefixtures("second_response_is_broken")
def test_a_connection_whose_last_write_fails_leaves_those_of_others(tmp_path: Path) -> None:
    async def script(clients: Clients) -> None:
        clients.transports[0].fails = True
        await clients.send(2, 1)

    clients = played(tmp_path, 2, script)
    assert [name for name, _ in clients.writes] == [1]
    assert [transport.is_aborted for transport in clients.transports] == [True, False]


def test_fresh_ids_have_16_bytes_and_are_different() -> None:
    ids = FreshIds()
    taken = [ids.take() for _ in range(1_000)]
    assert {len(each) for each in taken} == {16}
    assert len(set(taken)) == 1_000
