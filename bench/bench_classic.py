"""A thousand members of one classic group join and sync, each on its own connection: what that
costs the whole server.

The load is this process: it encodes and decodes for all members, and no member waits for another
but at the group's own barriers.
"""

import json
import selectors
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.bench_server import Served, served

from apportion.wire.frames import FrameSplitter
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.table import decode_response, encode_request

MEMBERS = 1_000
PARTITIONS = 10  # of each member
DELAY_MS = 1_000  # the group waits so long for more members before its first generation
ROUNDS = 3


class Member:
    """One client on one connection: it has at most one request under way."""

    def __init__(self, port: int) -> None:
        self.peer = socket.create_connection(("127.0.0.1", port))
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames = FrameSplitter(1 << 26)
        self.member_id = ""
        self.generation = -1

    def send(self, request: Any, version: int) -> None:
        """The request is on its way."""
        self.asked = (type(request), version)
        self.peer.sendall(encode_request(request, version, 1, "bench"))

    def answer_or_none(self) -> Any:
        """The answer, if all of it has come."""
        found = self.frames.feed(self.peer.recv(1 << 18))
        return decode_response(*self.asked, found[0])[1] if found else None

    def join(self) -> None:
        """It asks to be in the next generation."""
        said = consumer_serde.encode(
            ConsumerProtocolSubscription(topics=("bench",), user_data=None)
        )
        protocols = tuple(
            JoinGroupRequestProtocol(name=name, metadata=said)
            for name in ("cooperative-sticky", "range")
        )
        request = JoinGroupRequest(
            group_id="bench",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        self.send(request, 9)

    def sync(self, assignments: tuple[SyncGroupRequestAssignment, ...]) -> None:
        """It asks for its assignment, and brings everybody's if it leads."""
        request = SyncGroupRequest(
            group_id="bench",
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
            assignments=assignments,
        )
        self.send(request, 5)


def answers(members: list[Member]) -> list[Any]:
    """What each is told, when all have been told."""
    told: dict[int, Any] = {}
    with selectors.DefaultSelector() as selector:
        for number, member in enumerate(members):
            selector.register(member.peer, selectors.EVENT_READ, number)
        while len(told) < len(members):
            for key, _ in selector.select():
                answer = members[key.data].answer_or_none()
                if answer is not None:
                    told[key.data] = answer
                    selector.unregister(key.fileobj)
    return [told[number] for number in range(len(members))]


def assigned(members: list[Member]) -> tuple[SyncGroupRequestAssignment, ...]:
    """Ten partitions for each."""
    return tuple(
        SyncGroupRequestAssignment(
            member_id=member.member_id,
            assignment=consumer_serde.encode(
                ConsumerProtocolAssignment(
                    assigned_partitions=(
                        ConsumerProtocolTopicPartition(
                            topic="bench",
                            partitions=tuple(range(number * PARTITIONS, (number + 1) * PARTITIONS)),
                        ),
                    ),
                    user_data=None,
                )
            ),
        )
        for number, member in enumerate(members)
    )


def generation(members: list[Member]) -> None:
    """All are in one generation, and have their assignments."""
    for member in members:
        member.join()
    told = answers(members)
    assert {(each.error_code, each.generation_id) for each in told} == {
        (0, told[0].generation_id)
    }, told[:3]
    for member, each in zip(members, told, strict=True):
        member.generation = each.generation_id
    everything = assigned(members)
    for member, each in zip(members, told, strict=True):
        member.sync(everything if each.leader == member.member_id else ())
    synced = answers(members)
    assert [bytes(each.assignment) for each in synced] == [
        bytes(each.assignment) for each in everything
    ]


def spent(broker: Served) -> tuple[float, float]:
    """Seconds of the server's processor time for the first generation, from the first knock on, and
    for a second one.
    """
    members = [Member(broker.port) for _ in range(MEMBERS)]
    before = broker.cpu_seconds()
    for member in members:
        member.join()
    for member, told in zip(members, answers(members), strict=True):
        member.member_id = told.member_id
    generation(members)
    first = broker.cpu_seconds()
    generation(members)  # the leader is the first to join again, so the group rebalances
    second = broker.cpu_seconds()
    for member in members:
        member.peer.close()
    return first - before, second - first


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    rounds = []
    for _ in range(ROUNDS):
        with served(f"group.initial.rebalance.delay.ms={DELAY_MS}") as broker:
            rounds.append(spent(broker))
    joining, again = (sorted(each)[ROUNDS // 2] for each in zip(*rounds, strict=True))
    rows = [
        ("classic_join_sync_s", joining, "s", 2, "lower"),
        ("classic_rejoin_sync_s", again, "s", None, "lower"),
    ]
    return [
        dict(zip(("name", "value", "unit", "target", "better"), row, strict=True)) for row in rows
    ]


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
