"""The whole server: heartbeats for each second of its processor time, start time and memory.

The load comes from a second process with prebuilt frames, one request outstanding on each
connection. Work is divided by the processor time of the server, since both processes share a
machine with others.
"""

import json
import os
import resource
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apportion.broker import EmbeddedBroker
from apportion.wire.frames import FrameSplitter
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.table import decode_response, encode_request

MEMBERS_A_GROUP = 20
PARTITIONS = 64
WARM_SECONDS = 0.5
SECONDS = 2.0
ROUNDS = 3
STARTS = 5
EMBEDDED_STARTS = 20
NO_ERROR = bytes(2)  # after length, correlation id, tags and throttle time


def cpu_seconds(process: int) -> float:
    """Return the processor time of all threads of a process."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class ServerProcess:
    """`apportion serve` in a process of its own, timed from its start to its first answer."""

    def __init__(self, data_dir: str, settings: tuple[str, ...]) -> None:
        started = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "apportion.cli.main",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            data_dir,
        ]
        command += [word for setting in settings for word in ("--set", setting)]
        # An installed package has its bytecode; it is not to be compiled at each start here either.
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2])
        # Before the first connection, which begins the imports of the first group.
        self.ready_rss_mb = self.rss_mb()
        self.ready_cpu_ms = self.cpu_seconds() * 1000
        with socket.create_connection(("127.0.0.1", self.port)) as peer:
            call(peer, ApiVersionsRequest(), 0)
        self.ready_ms = (time.perf_counter() - started) * 1000

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads."""
        return cpu_seconds(self.process.pid)

    def rss_mb(self) -> float:
        """Return its resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def stop(self) -> None:
        """Stop the broker, which must end with code 0."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running_server(*settings: str) -> Iterator[ServerProcess]:
    """Run a broker on an empty directory."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        broker = ServerProcess(directory, settings)
        try:
            yield broker
        finally:
            broker.stop()


def call(peer: socket.socket, request: Any, version: int) -> Any:
    """Send one request on a blocking socket and return the response."""
    peer.sendall(encode_request(request, version, 1, "bench"))
    frames = FrameSplitter(1 << 26)
    received: list[bytes] = []
    while not received:
        data = peer.recv(1 << 16)
        assert data, "the broker has closed the connection"
        received = frames.feed(data)
    return decode_response(type(request), version, received[0])[1]


def find_coordinator(peer: socket.socket) -> None:
    """Look for the coordinator of the groups, as every client does before it joins."""
    found = call(peer, FindCoordinatorRequest(key_type=0, coordinator_keys=("bench",)), 6)
    assert found.coordinators[0].error_code == 0, found


def join_group(peer: socket.socket, group: str, member: str) -> int:
    """Let the member join its group; return its epoch."""
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("bench",),
        topic_partitions=(),
    )
    response = call(peer, heartbeat, 1)
    assert response.error_code == 0, response
    return int(response.member_epoch)


def join_and_reconcile(peers: list[socket.socket]) -> list[bytes]:
    """Let all members join and reconcile; return the frame of each one's steady heartbeat."""
    find_coordinator(peers[0])
    names = [(f"group-{n // MEMBERS_A_GROUP}", f"member-{n}") for n in range(len(peers))]
    epochs = [join_group(peer, *name) for peer, name in zip(peers, names, strict=True)]
    owned: list[Any] = [()] * len(peers)
    is_changing = True
    while is_changing:
        is_changing = False
        for n, peer in enumerate(peers):
            group, member = names[n]
            heartbeat = ConsumerGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=epochs[n], topic_partitions=owned[n]
            )
            response = call(peer, heartbeat, 1)
            assert response.error_code == 0, response
            if response.member_epoch != epochs[n] or response.assignment is not None:
                is_changing = True
            epochs[n] = response.member_epoch
            if response.assignment is not None:
                owned[n] = response.assignment.topic_partitions
    return [
        encode_request(
            ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch),
            1,
            1,
            "bench",
        )
        for (group, member), epoch in zip(names, epochs, strict=True)
    ]


def load(port: int, connections: int) -> None:
    """Run the second process: each member sends a heartbeat as soon as the last one is answered.

    Prints "ready" when all members have their assignments, then the number of responses so far for
    each line that it reads.
    """
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2
    )
    peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    for peer in peers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    call(
        peers[0],
        CreateTopicsRequest(
            topics=(CreatableTopic(name="bench", num_partitions=PARTITIONS, replication_factor=1),)
        ),
        7,
    )
    frames = join_and_reconcile(peers)
    selector = selectors.EpollSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for peer, frame in zip(peers, frames, strict=True):
        selector.register(peer, selectors.EVENT_READ, frame)
        peer.sendall(frame)
    print("ready", flush=True)
    responses = 0
    while True:
        for key, _ in selector.select():
            if key.data is None:
                if not sys.stdin.readline():
                    return
                print(responses, flush=True)
                continue
            response = key.fileobj.recv(4096)  # type: ignore[union-attr]
            assert response[13:15] == NO_ERROR, f"a heartbeat was refused: {response!r}"
            responses += 1
            key.fileobj.sendall(key.data)  # type: ignore[union-attr]


def heartbeats(connections: int) -> float:
    """Return the steady heartbeats for each second of the server's processor time, a median."""
    # Every join has its target at once, so the members are steady once none of them changes.
    with running_server("group.consumer.assignment.interval.ms=0") as broker:
        command = [sys.executable, __file__, "load", str(broker.port), str(connections)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as generator:
            assert generator.stdin is not None
            assert generator.stdout is not None
            assert generator.stdout.readline() == "ready\n"

            def count() -> int:
                generator.stdin.write("\n")  # type: ignore[union-attr]
                generator.stdin.flush()  # type: ignore[union-attr]
                return int(generator.stdout.readline())  # type: ignore[union-attr]

            time.sleep(WARM_SECONDS)
            rates = []
            for _ in range(ROUNDS):
                before, cpu = count(), broker.cpu_seconds()
                time.sleep(SECONDS)
                rates.append((count() - before) / (broker.cpu_seconds() - cpu))
            generator.stdin.close()
    return sorted(rates)[ROUNDS // 2]


def starts() -> list[tuple[str, float, str, int | None, str]]:
    """Return the rows of starts: medians. The first one, which may write bytecode, does not count.

    `python -c "from bench.bench_server import starts; print(starts())"` prints them alone.
    """
    found = []
    for _ in range(STARTS + 1):
        with running_server() as broker:
            with socket.create_connection(("127.0.0.1", broker.port)) as peer:
                find_coordinator(peer)
                for member in ("a", "b"):
                    join_group(peer, "group", member)
            found.append(
                (broker.ready_ms, broker.ready_cpu_ms, broker.ready_rss_mb, broker.rss_mb())
            )
    ready_ms, cpu_ms, rss_mb, group_rss_mb = map(statistics.median, zip(*found[1:], strict=True))
    return [
        ("serve_ready_ms", round(ready_ms), "ms", 200, "lower"),
        ("serve_ready_cpu_ms", round(cpu_ms), "ms", None, "lower"),
        ("serve_rss_mb", round(rss_mb, 1), "MB", 55, "lower"),
        ("serve_group_rss_mb", round(group_rss_mb, 1), "MB", None, "lower"),
        ("embedded_ready_ms", round(embedded_ready_ms(), 1), "ms", 50, "lower"),
    ]


def embedded_ready_ms() -> float:
    """Return how long a broker in a test takes to start, where another one ran before: a median."""
    took = []
    for _ in range(EMBEDDED_STARTS + 1):
        started = time.perf_counter()
        with EmbeddedBroker():
            took.append(time.perf_counter() - started)
    return statistics.median(took[1:]) * 1000


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    rows: list[tuple[str, float, str, int | None, str]] = [
        (f"heartbeats_per_s_{connections}", round(heartbeats(connections)), "1/s", target, "higher")
        for connections, target in ((1, None), (100, 30_000), (2000, 30_000))
    ]
    rows += starts()
    return [
        dict(zip(("name", "value", "unit", "target", "better"), row, strict=True)) for row in rows
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(int(sys.argv[2]), int(sys.argv[3]))
    else:
        print(json.dumps(run(), indent=1))
