"""Requests that are in flight together on one connection: each shows what those before it did."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from apportion.broker import EmbeddedBroker
from apportion.machine import Caller
from apportion.node.settings import BrokerSettings
from apportion.server.request_receiver import RespondingConnection, ResponseSlot
from apportion.server.server import Server
from apportion.wire.batch import encode_batch
from apportion.wire.table import SERVED_APIS, api_of, encode_request
from tests.message_texts import request_and_version
from tests.node import kit
from tests.node.acl_requests import AUTHORIZED, EVERY_ACL, acl, creating, deleting, describing
from tests.node.config_requests import changes_of, describe, incremental, whole
from tests.node.group_requests import commit
from tests.node.scram_requests import altering, upsertion
from tests.node.scram_requests import describing as describing_users
from tests.server.peer import Peer
from tests.server.test_connection import answer

NUMBERS = count(1)
RECORD = encode_batch([(None, b"a", ())], timestamp_ms=1_700_000_000_000)


class Asked(NamedTuple):
    """A request with its version."""

    request: Any
    version: int

    @property
    def frame(self) -> bytes:
        return encode_request(self.request, self.version, 1, "test")


class Pair:
    """A connection, and what stands for the signs in the texts of the requests of one pair.

    $N: a number, so that its topic, group and user are its own. $I: the id of its topic. $M: the
    classic member that has joined its group.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.signs = {"$N": str(next(NUMBERS)), "$I": "00" * 16, "$M": "nobody"}

    def answers(self, *asked: Asked) -> list[Any]:
        """The answers to requests that are in flight together."""
        self.peer.send(b"".join(each.frame for each in asked))
        return [
            self.peer.answer(type(request), version)[1]
            for request, version in asked
            if getattr(request, "acks", -1)
        ]

    def do(self, request: "Request") -> None:
        """Send a request of the setup, and remember what its answer named."""
        [answer] = self.answers(request(self))
        match type(answer).__name__:
            case "CreateTopicsResponse":
                self.signs["$I"] = answer.topics[0].topic_id.hex()
            case "JoinGroupResponse":
                self.signs["$M"] = answer.member_id


Request = Callable[[Pair], Asked]


def text(line: str) -> Request:
    """The request of a line, in the newest version or in that of its second word."""

    def asked(pair: Pair) -> Asked:
        given = line
        for sign, value in pair.signs.items():
            given = given.replace(sign, value)
        return Asked(*request_and_version(given, {}))

    return asked


def of(request: Callable[[str], Any], version: int | None = None) -> Request:
    """A request about the pair's topic, or about its user, who is called so, too."""

    def asked(pair: Pair) -> Asked:
        made = request(f"t{pair.signs['$N']}")
        return Asked(made, api_of(type(made)).versions[-1] if version is None else version)

    return asked


CREATE = text("CreateTopics topics=[name=t$N num_partitions=1 replication_factor=1]")
PRODUCE = of(lambda topic: kit.produce(topic, RECORD), 12)
COMMIT = text("OffsetCommit 9 group_id=g$N topics=[name=t$N partitions=[committed_offset=1]]")
JOIN = text(
    "JoinGroup 3 group_id=g$N session_timeout_ms=30000 rebalance_timeout_ms=60000 "
    "protocol_type=consumer protocols=[name=range]"
)
SYNC = text("SyncGroup 3 group_id=g$N member_id=$M generation_id=1 assignments=[member_id=$M]")
BEAT = text(
    "ConsumerGroupHeartbeat group_id=g$N member_id=m member_epoch=0 rebalance_timeout_ms=60000 "
    "subscribed_topic_names=[t$N] topic_partitions=[] client_assignors=[name=lag]"
)
PREPARE = text("ConsumerGroupPrepareAssignment group_id=g$N member_id=m member_epoch=1")
MAKE_ACL = of(lambda name: creating(acl(name)))
OWN = EVERY_ACL._replace

WRITES: dict[str, tuple[tuple[Request, ...], Request]] = {
    "Produce": ((CREATE, PRODUCE), PRODUCE),
    "Produce without an answer": (
        (CREATE, PRODUCE),
        of(lambda topic: kit.produce(topic, RECORD, acks=0), 12),
    ),
    "Metadata": ((), text("Metadata topics=[name=t$N] allow_auto_topic_creation=yes")),
    "OffsetCommit": ((CREATE,), COMMIT),
    "JoinGroup": ((), JOIN),
    "SyncGroup": ((JOIN,), SYNC),
    "LeaveGroup": ((JOIN, SYNC), text("LeaveGroup group_id=g$N members=[member_id=$M]")),
    "CreateTopics": ((), CREATE),
    "DeleteTopics": ((CREATE, PRODUCE), text("DeleteTopics 5 topic_names=[t$N]")),
    "DeleteRecords": (
        (CREATE, PRODUCE),
        text("DeleteRecords topics=[name=t$N partitions=[partition_index=0 offset=1]]"),
    ),
    "InitProducerId": ((), text("InitProducerId transaction_timeout_ms=1000")),
    "CreateAcls": ((), MAKE_ACL),
    "DeleteAcls": ((MAKE_ACL,), of(lambda name: deleting(OWN(name=name)))),
    "AlterConfigs": (
        (CREATE,),
        of(lambda topic: whole(("topic", topic, (("retention.ms", "1000"),)))),
    ),
    "CreatePartitions": (
        (CREATE,),
        text("CreatePartitions topics=[name=t$N count=2 assignments=null]"),
    ),
    "DeleteGroups": ((CREATE, COMMIT), text("DeleteGroups groups_names=[g$N]")),
    "IncrementalAlterConfigs": (
        (CREATE,),
        of(lambda topic: incremental(("topic", topic, changes_of(retention_ms="1000")))),
    ),
    "OffsetDelete": (
        (CREATE, COMMIT),
        text("OffsetDelete group_id=g$N topics=[name=t$N partitions=[partition_index=0]]"),
    ),
    "AlterUserScramCredentials": ((), of(lambda name: altering(upsertion(name)))),
    "ConsumerGroupHeartbeat": ((CREATE,), BEAT),
    "ConsumerGroupPrepareAssignment": ((CREATE, BEAT), PREPARE),
    "ConsumerGroupInstallAssignment": (
        (CREATE, BEAT, PREPARE),
        text(
            "ConsumerGroupInstallAssignment group_id=g$N member_id=m member_epoch=1 group_epoch=2 "
            "members=[member_id=m topic_partitions=[topic_id=$I partitions=[0]]]"
        ),
    ),
}
"""Each API that writes: what is done before, and the request that has the effect."""

READS: dict[str, Request] = {
    "Fetch": of(kit.fetch, 12),
    "ListOffsets earliest": text(
        "ListOffsets replica_id=-1 topics=[name=t$N partitions=[partition_index=0 timestamp=-2]]"
    ),
    "ListOffsets latest": text(
        "ListOffsets replica_id=-1 topics=[name=t$N partitions=[partition_index=0 timestamp=-1]]"
    ),
    "OffsetForLeaderEpoch": text(
        "OffsetForLeaderEpoch replica_id=-1 topics=[topic=t$N partitions=[partition=0 "
        "current_leader_epoch=-1 leader_epoch=0]]"
    ),
    "Metadata": text("Metadata topics=[name=t$N] allow_auto_topic_creation=no"),
    "OffsetFetch": text("OffsetFetch 9 groups=[group_id=g$N topics=null]"),
    "FindCoordinator": text("FindCoordinator coordinator_keys=[g$N]"),
    "Heartbeat": text("Heartbeat group_id=g$N generation_id=1 member_id=$M"),
    "DescribeGroups": text("DescribeGroups groups=[g$N]"),
    "ListGroups": text("ListGroups"),
    "ApiVersions": text("ApiVersions client_software_name=a client_software_version=1"),
    "DescribeAcls": of(lambda name: describing(OWN(name=name))),
    "DescribeConfigs": of(lambda topic: describe("topic", topic, "retention.ms")),
    "DescribeUserScramCredentials": of(describing_users),
    "DescribeCluster": text("DescribeCluster"),
    "ConsumerGroupDescribe": text("ConsumerGroupDescribe group_ids=[g$N]"),
    "ListConfigResources": text("ListConfigResources"),
}
"""Each API that reads, of what may be the pair's own."""
LOGIN = {"SaslHandshake", "SaslAuthenticate"}
"""They are about their connection, which starts nothing else before they are answered."""

LOG = {"Fetch", "ListOffsets earliest", "ListOffsets latest", "OffsetForLeaderEpoch"}
TOPIC = {"DescribeConfigs", "Metadata", "ListConfigResources"}
GROUP = {"DescribeGroups", "ListGroups"}
SHOWN: dict[str, set[str]] = {
    "Produce": LOG - {"ListOffsets earliest"},
    "Produce without an answer": LOG - {"ListOffsets earliest"},
    "Metadata": LOG | TOPIC,
    "OffsetCommit": {"ConsumerGroupDescribe", "OffsetFetch", *GROUP},
    "JoinGroup": {"ConsumerGroupDescribe", *GROUP},
    "SyncGroup": GROUP,
    "LeaveGroup": {"Heartbeat", *GROUP},
    "CreateTopics": LOG | TOPIC,
    "DeleteTopics": LOG | TOPIC,
    "DeleteRecords": {"Fetch", "ListOffsets earliest"},
    "InitProducerId": set(),
    "CreateAcls": {"DescribeAcls"},
    "DeleteAcls": {"DescribeAcls"},
    "AlterConfigs": {"DescribeConfigs"},
    "CreatePartitions": {"Metadata"},
    "DeleteGroups": {"ConsumerGroupDescribe", "OffsetFetch", *GROUP},
    "IncrementalAlterConfigs": {"DescribeConfigs"},
    # With its last offset the group is gone.
    "OffsetDelete": {"ConsumerGroupDescribe", "OffsetFetch", *GROUP},
    "AlterUserScramCredentials": {"DescribeUserScramCredentials"},
    "ConsumerGroupHeartbeat": {"ConsumerGroupDescribe", *GROUP},
    "ConsumerGroupPrepareAssignment": set(),
    "ConsumerGroupInstallAssignment": {"ConsumerGroupDescribe", "ListGroups"},
}
"""What shows the effect of each API that writes."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    settings = {name.replace(".", "_"): value for name, value in AUTHORIZED.items()}
    with EmbeddedBroker(group_initial_rebalance_delay_ms=5, **settings) as broker:
        with Peer(broker.bootstrap) as peer:
            Pair(peer).do(text("FindCoordinator coordinator_keys=[g]"))
        yield broker.bootstrap


def test_every_api_has_a_place_in_these_tables() -> None:
    placed = LOGIN | {name.partition(" ")[0] for name in (*WRITES, *READS)}
    assert placed == {api.name for api in SERVED_APIS.values()}
    assert WRITES.keys() == SHOWN.keys()


def stale_and_shown(
    address: str, prepared: Callable[[Pair], None], write: Request, readings: Iterable[str]
) -> tuple[set[str], set[str]]:
    """The APIs that show less behind the request than when they are asked again; and those that
    show its effect then.
    """
    stale, shown = set(), set()
    with Peer(address) as peer:
        for reading in readings:
            pair, read = Pair(peer), READS[reading]
            prepared(pair)
            [before] = pair.answers(read(pair))
            *_, behind = pair.answers(write(pair), read(pair))
            [after] = pair.answers(read(pair))
            if behind != after:
                stale.add(reading)
            if before != after:
                shown.add(reading)
    return stale, shown


@pytest.mark.parametrize("writing", WRITES)
def test_a_request_shows_what_the_one_before_it_did(address: str, writing: str) -> None:
    setup, write = WRITES[writing]

    def prepared(pair: Pair) -> None:
        for request in setup:
            pair.do(request)

    assert stale_and_shown(address, prepared, write, READS) == (set(), SHOWN[writing])


def behind_a_fetch(pair: Pair) -> list[int]:
    """The sizes of a Fetch that waits at offset 1, and of one behind it and a Produce; in between
    the offset of that.
    """
    waiting = of(lambda topic: kit.fetch(topic, 1, max_wait_ms=50), 12)
    first, produced, second = pair.answers(waiting(pair), PRODUCE(pair), waiting(pair))
    return [
        len(first.responses[0].partitions[0].records),
        produced.responses[0].partition_responses[0].base_offset,
        len(second.responses[0].partitions[0].records),
    ]


def test_a_fetch_that_waits_holds_up_what_is_behind_it(address: str) -> None:
    with Peer(address) as peer:
        pair = Pair(peer)
        for request in (CREATE, PRODUCE):
            pair.do(request)
        assert behind_a_fetch(pair) == [0, 1, len(RECORD)]


class ListeningServer(Server):
    """A server that tells what comes in and goes out on its connections, in order."""

    heard: list[str]

    def submit(
        self, connection: RespondingConnection, slot: ResponseSlot, request: Any, caller: Caller
    ) -> None:
        self.heard.append(slot.api.name)
        super().submit(connection, slot, request, caller)

    def write_soon(self, connection: RespondingConnection) -> None:
        self.heard.append("->")
        super().write_soon(connection)


@pytest.mark.parametrize(
    ("settings", "names", "expected"),
    [
        ({}, "Produce Produce Produce", "Produce Produce Produce -> -> ->"),
        ({}, "OffsetCommit OffsetCommit", "OffsetCommit OffsetCommit -> ->"),
        ({}, "Produce Produce OffsetCommit", "Produce Produce -> -> OffsetCommit ->"),
        ({}, "OffsetCommit Produce", "OffsetCommit -> Produce ->"),
        ({"apportion.connection.max.inflight.requests": 1}, *["Produce Produce"] * 2),
        ({"apportion.connection.max.inflight.bytes": 150}, *["Produce Produce"] * 2),
    ],
    ids=["produce", "commits", "produce-then-commit", "commit-then-produce", "requests", "bytes"],
)
def test_requests_of_one_api_share_a_flush_within_the_limits(
    tmp_path: Path, settings: dict[str, Any], names: str, expected: str
) -> None:
    if settings:
        expected = expected.replace("Produce", "Produce ->")
    frames = {
        "Produce": encode_request(kit.produce("t", RECORD), 12, 1, "test"),
        "OffsetCommit": encode_request(commit("g", 1), 9, 1, "test"),
    }

    async def heard() -> list[str]:
        server = ListeningServer(
            BrokerSettings.of({"listeners": "127.0.0.1:0"} | settings), tmp_path
        )
        server.heard = []
        streams = await asyncio.open_connection(*await server.start())
        for line in ("Metadata topics=[name=t]", "FindCoordinator coordinator_keys=[g]"):
            await answer(streams, *request_and_version(line, {}))
        server.heard.clear()
        reader, writer = streams
        writer.write(b"".join(frames[name] for name in names.split()))
        for _ in names.split():
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.close()
        await server.stop()
        return server.heard

    assert " ".join(asyncio.run(asyncio.wait_for(heard(), 60))) == expected
