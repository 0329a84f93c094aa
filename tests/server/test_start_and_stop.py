"""How a broker starts and ends, whatever its peers do meanwhile."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from apportion.node.settings import BrokerSettings
from apportion.server.connection import ServerConnection
from apportion.server.embedded import EmbeddedBroker
from apportion.server.server import Server, loop_factory
from apportion.store.disk import DiskError
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.messages.produce import PartitionProduceResponse, ProduceRequest
from apportion.wire.table import encode_request
from tests.server.peer import Peer, batch, produce


def test_a_broker_that_has_ended_is_not_entered_again() -> None:
    with EmbeddedBroker() as broker:
        pass
    with pytest.raises(RuntimeError, match="this broker has ended: make another"):
        broker.__enter__()


def test_a_second_broker_on_the_directory_is_refused(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path), pytest.raises(DiskError, match="another broker is using it"):
        EmbeddedBroker(tmp_path)
    with EmbeddedBroker(tmp_path) as again:
        assert again.bootstrap.startswith("127.0.0.1:")


def test_a_broker_that_cannot_listen_leaves_the_directory_free(tmp_path: Path) -> None:
    with (
        EmbeddedBroker() as other,
        pytest.raises(OSError, match=f"cannot listen on {other.bootstrap}"),
    ):
        EmbeddedBroker(tmp_path, listeners=other.bootstrap)
    with EmbeddedBroker(tmp_path) as again:
        assert again.bootstrap.startswith("127.0.0.1:")


@pytest.mark.parametrize("is_made_before", [False, True])
def test_a_broker_that_cannot_listen_makes_nothing(tmp_path: Path, is_made_before: bool) -> None:
    parent = tmp_path / "parent"
    if is_made_before:
        (parent / "data").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with EmbeddedBroker() as other, pytest.raises(OSError, match="cannot listen on"):
        EmbeddedBroker(parent / "data", listeners=other.bootstrap)
    assert sorted(tmp_path.rglob("*")) == before


def produce_for_ever(broker: EmbeddedBroker, answers: list[Any]) -> None:
    """Keep a window of requests under way until the broker hangs up; the partition's answers are
    added to `answers`.
    """
    with Peer(broker.bootstrap) as peer:
        try:
            for _ in range(40):
                peer.ask(produce("busy", batch(10)), 12)
            while True:
                answers.append(
                    peer.answer(ProduceRequest, 12)[1].responses[0].partition_responses[0]
                )
                peer.ask(produce("busy", batch(10)), 12)
        except (EOFError, OSError):
            return


def test_a_broker_that_is_never_idle_ends_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    answers: list[PartitionProduceResponse] = []
    broker = EmbeddedBroker(tmp_path)
    with Peer(broker.bootstrap) as peer:
        peer.ask(
            CreateTopicsRequest(
                topics=(CreatableTopic(name="busy", num_partitions=1, replication_factor=1),)
            ),
            7,
        )
        peer.answer(CreateTopicsRequest, 7)
    clients = [
        threading.Thread(target=produce_for_ever, args=(broker, answers), daemon=True)
        for _ in range(3)
    ]
    for client in clients:
        client.start()
    while len(answers) < 300:
        clients[0].join(0.01)
        assert clients[0].is_alive()
    ending = threading.Thread(target=broker.close, daemon=True)
    ending.start()
    ending.join(30)
    assert not ending.is_alive()
    for client in clients:
        client.join()
    with EmbeddedBroker(tmp_path) as again, Peer(again.bootstrap) as peer:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        peer.ask(
            ListOffsetsRequest(topics=(ListOffsetsTopic(name="busy", partitions=(wanted,)),)), 7
        )
        end = peer.answer(ListOffsetsRequest, 7)[1].topics[0].partitions[0].offset
    offsets = sorted(answer.base_offset for answer in answers)
    assert offsets == sorted(set(offsets))
    assert offsets[-1] < end


@pytest.mark.parametrize("passes", range(4))
def test_a_connection_made_while_the_broker_ends_is_closed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: int
) -> None:
    late, abort = [], ServerConnection.abort

    def noted(connection: ServerConnection) -> None:
        late.append(connection)
        abort(connection)

    monkeypatch.setattr(ServerConnection, "abort", noted)

    async def ended_while_accepting() -> socket.socket:
        server = Server(BrokerSettings.of({"listeners": "127.0.0.1:0"}), tmp_path)
        address = await server.start()
        serving = asyncio.create_task(server.run_until_ended())
        await asyncio.sleep(0)
        peer = socket.create_connection(address, timeout=10)
        for _ in range(passes):  # of the loop, which accepts in the first
            await asyncio.sleep(0)
        server.end()
        await serving
        return peer

    with (
        asyncio.Runner(loop_factory=loop_factory()) as runner,
        runner.run(ended_while_accepting()) as peer,
    ):
        assert (peer.recv(1), late) == (b"", [])


def test_a_peer_that_does_not_read_does_not_keep_a_broker_from_ending() -> None:
    broker = EmbeddedBroker(num_partitions=1)
    with Peer(broker.bootstrap) as peer:
        peer.ask(
            CreateTopicsRequest(
                topics=(CreatableTopic(name="wide", num_partitions=5000, replication_factor=1),)
            ),
            7,
        )
        peer.answer(CreateTopicsRequest, 7)
        request = encode_request(
            MetadataRequest(topics=(MetadataRequestTopic(name="wide"),)), 12, 1, "test"
        )
        for _ in range(100):  # 100 answers are more than what lies between the two takes
            peer.send(request)
        assert peer.socket.recv(1)
        ending = threading.Thread(target=broker.close, daemon=True)
        ending.start()
        ending.join(30)
        assert not ending.is_alive()


def test_sigterm_is_a_clean_end(tmp_path: Path) -> None:
    serve = [
        sys.executable,
        "-m",
        "apportion.cli.main",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    with subprocess.Popen(
        serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on 127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")
