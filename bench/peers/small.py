"""More small requests by CPU second: classic heartbeats, fetches of nothing, and those over TLS."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count

from bench.peers.brokers import PeerBroker
from bench.peers.loads import Load, Requests
from bench.peers.rows import CONNECTIONS, PeerMissing
from bench.peers.steady import (
    ERROR_AT,
    MEMBERS_A_GROUP,
    PLAIN,
    WARM_COMMITS,
    WITH_TLS,
    Prepared,
    SteadyRow,
    heartbeats,
    prepare_commits,
)
from bench.peers.wires import LIMIT_S, Wire, frame

from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 300_000  # as long as kfake allows: members outlive the rounds of other sides
JOIN, SYNC, HEARTBEAT, FETCH = 7, 5, 4, 12  # versions; that of Fetch is the last with topic names
MEMBER_ID_REQUIRED = 79
POLL_S = 0.05
NO_LEADER_YET = (3, 6)  # the topic is new
FETCHED = "nothing"
runs = count()


def classic_heartbeats(broker: PeerBroker) -> Prepared:
    """Prepare heartbeats of members of new classic groups. Raises PeerMissing."""
    run = next(runs)
    groups = [f"classic-{run}-{at}" for at in range(CONNECTIONS // MEMBERS_A_GROUP)]
    requests = [request for group in groups for request in members_of(broker, group)]
    frames = [frame(request, HEARTBEAT) for request in requests]
    return Prepared(Load(broker, Requests(frames, ERROR_AT, bytes(2))))


def members_of(broker: PeerBroker, group: str) -> list[HeartbeatRequest]:
    """Let MEMBERS_A_GROUP members join a new classic group; return a heartbeat of each.

    Raises PeerMissing if they do not settle.
    """
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker.bootstrap)) for _ in range(MEMBERS_A_GROUP)]
        wires[0].wait_for_coordinator(group)
        members = [ClassicMember(wire, group) for wire in wires]

        def are_settled() -> bool:
            return {member.heard for member in members} == {members[0].generation}

        pool = stack.enter_context(ThreadPoolExecutor(MEMBERS_A_GROUP))
        # Those that are in wait for the others, and join again as often as those do.
        list(pool.map(lambda member: member.settle(are_settled), members))
        return [member.heartbeat() for member in members]


class ClassicMember:
    """A member of a classic group.

    generation: the one that it has joined; -1 for none. heard: the one of its last heartbeat that
    was not refused; None if that was.
    """

    def __init__(self, wire: Wire, group: str) -> None:
        """Be no member yet."""
        self._wire, self._group = wire, group
        self._member_id = ""
        self.generation = -1
        self.heard: int | None = None

    def settle(self, are_settled: Callable[[], bool]) -> None:
        """Join, and again after each rebalance, until all members are in one generation.

        Raises PeerMissing.
        """
        deadline = time.monotonic() + LIMIT_S
        while not are_settled():
            if time.monotonic() > deadline:
                raise PeerMissing(f"{self._group} did not settle within {LIMIT_S} s")
            if self._wire.call(self.heartbeat(), HEARTBEAT).error_code:
                self.heard = None
                self._join()
            else:
                self.heard = self.generation
                time.sleep(POLL_S)

    def heartbeat(self) -> HeartbeatRequest:
        """Return a heartbeat of the member's generation."""
        return HeartbeatRequest(
            group_id=self._group, generation_id=self.generation, member_id=self._member_id
        )

    def _join(self) -> None:
        """Join and sync; what is refused, the next heartbeat is, too."""
        joined = self._wire.call(join_of(self._group, self._member_id), JOIN)
        if joined.error_code == MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            joined = self._wire.call(join_of(self._group, self._member_id), JOIN)
        if joined.error_code:
            return
        self.generation = joined.generation_id
        assignments = tuple(
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"")
            for member in joined.members  # the leader's alone has any
        )
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        self._wire.call(request, SYNC)


def join_of(group: str, member_id: str) -> JoinGroupRequest:
    """Return a member's request to join."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )


def empty_fetches(broker: PeerBroker) -> Prepared:
    """Prepare fetches of an empty topic, without a session or a wait. Raises PeerMissing."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic=FETCHED, partitions=(partition,)),)
    )
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(FETCHED, 1)
        body = wire.call_until(
            request,
            FETCH,
            lambda body: body.responses[0].partitions[0].error_code not in NO_LEADER_YET,
        )
    [found] = body.responses[0].partitions
    if body.error_code or found.error_code or found.records:
        raise PeerMissing(f"a fetch of an empty topic had error {found.error_code}")
    frames = [frame(request, FETCH)] * CONNECTIONS
    return Prepared(Load(broker, Requests(frames, ERROR_AT, good_fetch())))


def good_fetch() -> bytes:
    """Return what a response of version 12 without errors and records has behind its throttle time.

    No error, no session, one topic, one partition: its index, no error, a high watermark of 0.
    """
    name = FETCHED.encode()
    return bytes(2 + 4) + bytes([1 + 1, 1 + len(name)]) + name + bytes([1 + 1]) + bytes(4 + 2 + 8)


MORE_STEADY_ROWS = (
    *(
        SteadyRow(f"{name}_{CONNECTIONS}{ending}", prepare, starts)
        for name, prepare in (
            ("classic_heartbeats", classic_heartbeats),
            ("empty_fetches", empty_fetches),
        )
        for ending, starts in (("", PLAIN), ("_tls", WITH_TLS))
    ),
    SteadyRow(f"heartbeats_{CONNECTIONS}_tls", partial(heartbeats, CONNECTIONS), WITH_TLS),
    SteadyRow("commits_tls", prepare_commits, WITH_TLS, WARM_COMMITS),
)
