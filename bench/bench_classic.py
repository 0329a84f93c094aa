"""What a thousand joining members of one classic group cost the whole server.

Each has a connection of its own, and all are in this process. No member waits for another one,
except where the coordinator makes it wait for JoinGroup and SyncGroup.
"""

import json
import selectors
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.bench_server import ServerProcess, find_coordinator, running_server

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
INITIAL_DELAY_MS = 1_000  # group.initial.rebalance.delay.ms
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
        """Send a request."""
        self.in_flight = (type(request), version)
        self.peer.sendall(encode_request(request, version, 1, "bench"))

    def response_or_none(self) -> Any:
        """Return the response if all of it has arrived."""
        frames = self.frames.feed(self.peer.recv(1 << 18))
        return decode_response(*self.in_flight, frames[0])[1] if frames else None

    def join(self) -> None:
        """Send JoinGroup."""
        metadata = consumer_serde.encode(
            ConsumerProtocolSubscription(topics=("bench",), user_data=None)
        )
        protocols = tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata)
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
        """Send SyncGroup, with the assignments of all members if this one leads."""
        request = SyncGroupRequest(
            group_id="bench",
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
            assignments=assignments,
        )
        self.send(request, 5)


def responses_of(members: list[Member]) -> list[Any]:
    """Wait until every member has a response, and return them in the members' order."""
    responses: dict[int, Any] = {}
    with selectors.DefaultSelector() as selector:
        for number, member in enumerate(members):
            selector.register(member.peer, selectors.EVENT_READ, number)
        while len(responses) < len(members):
            for key, _ in selector.select():
                response = members[key.data].response_or_none()
                if response is not None:
                    responses[key.data] = response
                    selector.unregister(key.fileobj)
    return [responses[number] for number in range(len(members))]


def assignments_of(members: list[Member]) -> tuple[SyncGroupRequestAssignment, ...]:
    """Return an assignment with ten partitions for each member."""
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
    """Let all members join one generation and get their assignments."""
    for member in members:
        member.join()
    joined = responses_of(members)
    assert {(response.error_code, response.generation_id) for response in joined} == {
        (0, joined[0].generation_id)
    }, joined[:3]
    for member, response in zip(members, joined, strict=True):
        member.generation = response.generation_id
    assignments = assignments_of(members)
    for member, response in zip(members, joined, strict=True):
        member.sync(assignments if response.leader == member.member_id else ())
    synced = responses_of(members)
    assert [bytes(response.assignment) for response in synced] == [
        bytes(one.assignment) for one in assignments
    ]


def processor_seconds(broker: ServerProcess) -> tuple[float, float]:
    """Return the server's processor time for the first generation and for a second one, in s.

    The first one includes the JoinGroup requests without a member id.
    """
    members = [Member(broker.port) for _ in range(MEMBERS)]
    find_coordinator(members[0].peer)
    before = broker.cpu_seconds()
    for member in members:
        member.join()
    for member, response in zip(members, responses_of(members), strict=True):
        member.member_id = response.member_id
    generation(members)
    first = broker.cpu_seconds()
    generation(members)  # the leader rejoins first, which starts a rebalance
    second = broker.cpu_seconds()
    for member in members:
        member.peer.close()
    return first - before, second - first


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    rounds = []
    for _ in range(ROUNDS):
        with running_server(f"group.initial.rebalance.delay.ms={INITIAL_DELAY_MS}") as broker:
            rounds.append(processor_seconds(broker))
    joining, rejoining = (sorted(times)[ROUNDS // 2] for times in zip(*rounds, strict=True))
    rows = [
        ("classic_join_sync_s", joining, "s", 2, "lower"),
        ("classic_rejoin_sync_s", rejoining, "s", None, "lower"),
    ]
    return [
        dict(zip(("name", "value", "unit", "target", "better"), row, strict=True)) for row in rows
    ]


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
