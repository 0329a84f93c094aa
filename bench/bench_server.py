"""The whole server: steady heartbeats of real members for each second of its processor time, how
soon it answers, what it weighs.

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
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apportion.wire.frames import FrameSplitter
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.table import decode_response, encode_request

MEMBERS_A_GROUP = 20
PARTITIONS = 64
WARM_SECONDS = 0.5
SECONDS = 2.0
ROUNDS = 3
STARTS = 5
NO_ERROR = bytes(2)  # after length, correlation id, tags and throttle time


class Served:
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
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", self.port)) as peer:
            call(peer, ApiVersionsRequest(), 0)
        self.ready_ms = (time.perf_counter() - started) * 1000

    def cpu_seconds(self) -> float:
        """Processor time of all its threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def rss_mb(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def stop(self) -> None:
        """It has ended, and cleanly."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def served(*settings: str) -> Iterator[Served]:
    """A broker on an empty directory."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        broker = Served(directory, settings)
        try:
            yield broker
        finally:
            broker.stop()


def call(peer: socket.socket, request: Any, version: int) -> Any:
    """The answer to one request on a blocking socket."""
    peer.sendall(encode_request(request, version, 1, "bench"))
    frames = FrameSplitter(1 << 26)
    found: list[bytes] = []
    while not found:
        data = peer.recv(1 << 16)
        assert data, "the broker has closed the connection"
        found = frames.feed(data)
    return decode_response(type(request), version, found[0])[1]


def joined(peer: socket.socket, group: str, member: str) -> int:
    """The member is in the group; its epoch."""
    said = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("bench",),
        topic_partitions=(),
    )
    answer = call(peer, said, 1)
    assert answer.error_code == 0, answer
    return int(answer.member_epoch)


def settled(peers: list[socket.socket]) -> list[bytes]:
    """Everybody is in its group and has what it shall have; the frame of the steady heartbeat of
    each.
    """
    names = [(f"group-{n // MEMBERS_A_GROUP}", f"member-{n}") for n in range(len(peers))]
    epochs = [joined(peer, *name) for peer, name in zip(peers, names, strict=True)]
    owned: list[Any] = [()] * len(peers)
    restless = True
    while restless:
        restless = False
        for n, peer in enumerate(peers):
            group, member = names[n]
            said = ConsumerGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=epochs[n], topic_partitions=owned[n]
            )
            answer = call(peer, said, 1)
            assert answer.error_code == 0, answer
            if answer.member_epoch != epochs[n] or answer.assignment is not None:
                restless = True
            epochs[n] = answer.member_epoch
            if answer.assignment is not None:
                owned[n] = answer.assignment.topic_partitions
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
    """The second process: members settle, then each sends its heartbeat as soon as the last one is
    answered.

    Prints "ready", then the count of answers at each line that it reads.
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
    frames = settled(peers)
    selector = selectors.EpollSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for peer, frame in zip(peers, frames, strict=True):
        selector.register(peer, selectors.EVENT_READ, frame)
        peer.sendall(frame)
    print("ready", flush=True)
    answered = 0
    while True:
        for key, _ in selector.select():
            if key.data is None:
                if not sys.stdin.readline():
                    return
                print(answered, flush=True)
                continue
            answer = key.fileobj.recv(4096)  # type: ignore[union-attr]
            assert answer[13:15] == NO_ERROR, f"a heartbeat was refused: {answer!r}"
            answered += 1
            key.fileobj.sendall(key.data)  # type: ignore[union-attr]


def heartbeats(connections: int) -> float:
    """Steady heartbeats for each second of the server's processor time: the median of some
    rounds.
    """
    with served() as broker:
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


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    starts = []
    for _ in range(STARTS):
        with served() as broker:
            starts.append((broker.ready_ms, broker.rss_mb()))
    ready_ms, rss_mb = sorted(starts)[STARTS // 2]
    rows: list[tuple[str, float, str, int, str]] = [
        (f"heartbeats_per_s_{connections}", round(heartbeats(connections)), "1/s", 30_000, "higher")
        for connections in (100, 2000)
    ]
    rows += [
        ("serve_ready_ms", round(ready_ms), "ms", 400, "lower"),
        ("serve_rss_mb", round(rss_mb, 1), "MB", 90, "lower"),
    ]
    return [
        dict(zip(("name", "value", "unit", "target", "better"), row, strict=True)) for row in rows
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(int(sys.argv[2]), int(sys.argv[3]))
    else:
        print(json.dumps(run(), indent=1))
