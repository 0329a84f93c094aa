"""Small requests: heartbeats of members at rest, and commits, for each second of a broker's CPU."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from bench.peers.brokers import Brokers, PeerBroker
from bench.peers.loads import Load, Requests
from bench.peers.members import VERSION, RestingMember, settled_members
from bench.peers.rounds import Samples, Say, interleaved
from bench.peers.rows import BROKERS, CONNECTIONS, MANY_CONNECTIONS, OURS, PeerMissing
from bench.peers.wires import TOPIC_RESOURCE, Wire, frame

from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

WARM_COMMITS, WARM_REQUESTS = 25_000, 250_000
SECONDS = 2.0
MEMBERS_A_GROUP = 20
PARTITIONS = 64
COMMITTERS, COMMITTED = 16, 4
BODY_AT = 9  # in a flexible response: length, correlation id, tags
ERROR_AT = BODY_AT + 4  # after the throttle time


PLAIN = {side: side for side in (OURS, *BROKERS)}
SYNCED = PLAIN | {"kfake": "kfake_synced"}
WITH_TLS = {OURS: "ours_with_tls", "kafka": "kafka_with_tls"}
"""The brokers of each side, by their names in `STARTS`."""


def nothing() -> None:
    """Do nothing before a round."""


class Prepared(NamedTuple):
    """A load that is connected, and what to do before each round."""

    load: Load
    before_round: Callable[[], None] = nothing


class SteadyRow(NamedTuple):
    """A row of small requests of one kind.

    prepare: connects the load to a broker; raises PeerMissing. starts: the broker of each side, by
    its name in `STARTS`. warm_requests: before the first round of a side.
    """

    name: str
    prepare: Callable[[PeerBroker], Prepared]
    starts: Mapping[str, str]
    warm_requests: int = WARM_REQUESTS

    def warm_up(self) -> str:
        """Return the warm-up and the length of a round, in words."""
        requests = f"{self.warm_requests:,} requests of the same load"
        return f"{requests} before the first round of {SECONDS:.0f} s"

    def measure(self, brokers: Brokers, rounds: int, say: Say) -> Samples:
        """Measure the row."""
        with ExitStack() as stack:
            sides = {
                side: stack.enter_context(SteadySide(self, partial(brokers.get, name))).play
                for side, name in self.starts.items()
            }
            return interleaved(sides, rounds, say)


class SteadySide:
    """One broker under the load of a row; a context manager."""

    def __init__(self, row: SteadyRow, broker: Callable[[], PeerBroker]) -> None:
        """Start nothing yet. broker: starts it, and raises PeerMissing."""
        self._row, self._broker = row, broker
        self._stack = ExitStack()
        self._prepared: Prepared | None = None

    def __enter__(self) -> "SteadySide":
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def play(self) -> dict[str, float]:
        """Play a round, the first time after the warm-up. Raises PeerMissing."""
        if self._prepared is None:
            self._prepared = self._row.prepare(self._broker())
            self._stack.callback(self._prepared.load.close)
            self._prepared.load.warm_up(self._row.warm_requests)
        self._prepared.before_round()
        return {self._row.name: self._prepared.load.per_cpu_second(SECONDS)}


def heartbeats(connections: int, broker: PeerBroker) -> Prepared:
    """Prepare steady heartbeats of new members, one on each connection. Raises PeerMissing."""
    groups = max(1, connections // MEMBERS_A_GROUP)
    with Wire(broker.bootstrap) as wire:
        members = settled_members(
            wire, f"heartbeats_{connections}", PARTITIONS, groups, connections
        )
    frames = [frame(member.steady_heartbeat(), VERSION) for member in members]
    return Prepared(Load(broker, Requests(frames, ERROR_AT, bytes(2))))


def prepare_commits(broker: PeerBroker) -> Prepared:
    """Prepare commits of new members, each in a group of its own. Raises PeerMissing."""
    wire = Wire(broker.bootstrap)
    members = settled_members(wire, "commits", COMMITTED, COMMITTERS, COMMITTERS)
    requests = commits(wire, members)

    def before_round() -> None:
        if broker.syncs_if_told:
            # From the first round on: in the warm-up it would come to a tenth of the commits.
            wire.alter(TOPIC_RESOURCE, "__consumer_offsets", "flush.messages", "1")
        for member in members:  # none in a load of commits is a heartbeat
            member.beat(wire, "commits")

    return Prepared(Load(broker, requests), before_round)


def commits(wire: Wire, members: Sequence[RestingMember]) -> Requests:
    """Return a commit of each member, whose offsets grow. Raises PeerMissing if one is refused."""
    marks = [0x1122334455660000 + partition for partition in range(COMMITTED)]
    frames = [frame(commit_of(member, marks), 9) for member in members]
    response = wire.call(commit_of(members[0], [0] * COMMITTED), 9)
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    if codes != [0] * COMMITTED:
        raise PeerMissing(f"a commit was refused: errors {codes}")
    counters = [frames[0].index(mark.to_bytes(8)) for mark in marks]
    assert all(each.index(marks[0].to_bytes(8)) == counters[0] for each in frames)
    return Requests(frames, BODY_AT, good_commit(), counters)


def commit_of(member: RestingMember, offsets: Sequence[int]) -> OffsetCommitRequest:
    """Return a commit of all partitions of the topic."""
    topic = OffsetCommitRequestTopic(
        name="commits",
        partitions=tuple(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
            for partition, offset in enumerate(offsets)
        ),
    )
    return OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        topics=(topic,),
    )


def good_commit() -> bytes:
    """Return the first bytes of a response of version 9 to a commit without errors."""
    partitions = b"".join(number.to_bytes(4) + bytes(3) for number in range(COMMITTED))
    name = b"commits"
    return (
        bytes(4)  # the throttle time
        + bytes([1 + 1, 1 + len(name)])
        + name
        + bytes([1 + COMMITTED])
        + partitions
    )


STEADY_ROWS = (
    SteadyRow("commits", prepare_commits, SYNCED, WARM_COMMITS),
    *(
        SteadyRow(f"heartbeats_{connections}", partial(heartbeats, connections), PLAIN)
        for connections in (CONNECTIONS, MANY_CONNECTIONS)
    ),
)
