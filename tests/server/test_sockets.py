"""Bytes on a socket: right ones, wrong ones, too many, and peers that do not read."""

import logging
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.messages.produce import ProduceRequest
from apportion.wire.table import SERVED_APIS, encode_request
from tests.server.peer import Peer, batch, framed, header, produce


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings: dict[str, Any] = {"socket.request.max.bytes": 200_000, "fetch.max.bytes": 1 << 20}
    with EmbeddedBroker(**settings) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("too large", struct.pack(">i", 200_001)),
        ("negative", struct.pack(">i", -1)),
        ("http", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("empty", framed(b"")),
        ("cut in the header", framed(b"\x00\x03\x00")),
        ("unknown api", framed(header(99, 0))),
        ("negative api", framed(header(-1, 0))),
        ("unknown version", framed(header(3, 99) + bytes(20))),
        ("client id too long", framed(struct.pack(">hhih", 3, 1, 1, 30000) + b"x")),
        ("no body", framed(header(3, 1))),
        ("impossible array", framed(header(3, 1) + struct.pack(">i", 2**31 - 1))),
        ("negative array", framed(header(3, 1) + struct.pack(">i", -2))),
        (
            "impossible compact array",
            framed(header(3, 9) + b"\x00" + b"\xff\xff\xff\xff\x0f" + b"\x00" * 4),
        ),
        ("endless varint", framed(header(3, 9) + b"\x00" + b"\xff" * 20)),
        ("not text", framed(header(3, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe")),
    ],
)
def test_bytes_that_mean_nothing_close_the_connection(
    caplog: pytest.LogCaptureFixture, name: str, data: bytes
) -> None:
    caplog.set_level(logging.WARNING, logger="apportion.server")
    with (
        EmbeddedBroker(socket_request_max_bytes=200_000) as broker,
        Peer(broker.bootstrap) as peer,
        Peer(broker.bootstrap) as other,
    ):
        peer.send(data)
        assert peer.is_closed()
        other.ask(ApiVersionsRequest(), 0)
        assert other.answer(ApiVersionsRequest, 0)[1].error_code == Code.NONE
    lines = [
        record.getMessage()
        for record in caplog.records
        if "closed the connection" in record.getMessage()
    ]
    assert len(lines) == 1, lines


def test_a_group_name_with_line_breaks_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="apportion.server")
    group = "g\n2026-01-01 ERROR forged \x1b[31m"
    with EmbeddedBroker(group_min_session_timeout_ms=100) as broker, Peer(broker.bootstrap) as peer:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=100,
            rebalance_timeout_ms=100,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        peer.ask(FindCoordinatorRequest(coordinator_keys=(group,)), 6)
        peer.answer(FindCoordinatorRequest, 6)
        peer.ask(request, 3)  # older than KIP-394: it is in at once, and then silent
        peer.answer(JoinGroupRequest, 3)
        while not any("forged" in record.getMessage() for record in caplog.records):
            peer.ask(ListGroupsRequest(), 4)
            peer.answer(ListGroupsRequest, 4)
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_a_frame_that_stops_in_the_middle_harms_nobody(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer, Peer(broker.bootstrap) as other:
        peer.send(encode_request(MetadataRequest(topics=None), 12, 1, "test")[:-3])
        other.ask(ApiVersionsRequest(), 0)
        assert other.answer(ApiVersionsRequest, 0)[0] == 1


def test_a_frame_may_come_byte_by_byte(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        for byte in encode_request(MetadataRequest(topics=()), 12, 7, "test"):
            peer.send(bytes([byte]))
        assert peer.answer(MetadataRequest, 12)[0] == 7


def test_a_version_of_tomorrow_gets_the_list_of_today_in_version_0(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        peer.send(framed(header(18, 99, correlation_id=5) + b"\x00whatever"))
        correlation_id, body = peer.answer(ApiVersionsRequest, 0)
        assert (correlation_id, body.error_code) == (5, Code.UNSUPPORTED_VERSION)
        assert [key.api_key for key in body.api_keys] == sorted(SERVED_APIS)
        peer.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
        assert peer.answer(ApiVersionsRequest, 3)[1].error_code == Code.NONE


def test_bytes_after_a_request_are_ignored_as_librdkafka_sends_them(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        peer.send(bytes.fromhex("000000170003000d00000003000772646b61666b610000000000010000"))
        correlation_id, body = peer.answer(MetadataRequest, 13)
        assert (correlation_id, body.error_code) == (3, Code.NONE)


def test_answers_come_in_the_order_of_the_requests(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        topic = CreatableTopic(name="ordered", num_partitions=1, replication_factor=1)
        peer.ask(CreateTopicsRequest(topics=(topic,)), 7, 1)
        peer.answer(CreateTopicsRequest, 7)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
        wait = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            topics=(FetchTopic(topic="ordered", partitions=(partition,)),),
        )
        peer.ask(wait, 12, 2)
        peer.ask(MetadataRequest(topics=()), 12, 3)
        peer.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 6, 4)
        classes = [(FetchRequest, 12), (MetadataRequest, 12), (FindCoordinatorRequest, 6)]
        assert [peer.answer(*each)[0] for each in classes] == [2, 3, 4]


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def send_until_stopped(peer: Peer, broker: EmbeddedBroker, frame: bytes) -> None:
    """The peer has sent this request until the broker took no more; others are served, and little
    memory is taken.
    """
    # more than any socket buffer takes
    asked, sent = memoryview(frame * ((50 << 20) // len(frame))), 0
    before = rss_bytes()
    peer.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        while sent < len(asked):
            sent += peer.socket.send(asked[sent:])
    with Peer(broker.bootstrap) as other:
        other.ask(ApiVersionsRequest(), 0)
        other.answer(ApiVersionsRequest, 0)
    assert rss_bytes() - before < 64 << 20
    peer.socket.settimeout(10)


def test_a_peer_that_asks_and_does_not_read_is_stopped_and_served_when_it_reads(
    broker: EmbeddedBroker,
) -> None:
    with Peer(broker.bootstrap) as peer:
        topic = CreatableTopic(name="flood", num_partitions=1, replication_factor=1)
        peer.ask(CreateTopicsRequest(topics=(topic,)), 7)
        peer.answer(CreateTopicsRequest, 7)
        for _ in range(8):
            peer.ask(produce("flood", batch(100_000)), 12)
            peer.answer(ProduceRequest, 12)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            topics=(FetchTopic(topic="flood", partitions=(partition,)),),
        )
        send_until_stopped(peer, broker, encode_request(request, 12, 1, "test"))
        assert peer.answer(FetchRequest, 12)[1].responses[0].partitions[0].error_code == Code.NONE


def test_small_requests_with_large_answers_cost_no_more_than_is_read(
    broker: EmbeddedBroker,
) -> None:
    with Peer(broker.bootstrap) as peer:
        topic = CreatableTopic(name="wide", num_partitions=5000, replication_factor=1)
        peer.ask(CreateTopicsRequest(topics=(topic,)), 7)
        peer.answer(CreateTopicsRequest, 7)
        request = MetadataRequest(topics=(MetadataRequestTopic(name="wide"),))
        send_until_stopped(peer, broker, encode_request(request, 12, 1, "test"))
        assert len(peer.answer(MetadataRequest, 12)[1].topics[0].partitions) == 5000


def test_a_flood_of_requests_is_answered_one_by_one(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        peer.send(b"".join(encode_request(ListGroupsRequest(), 5, n, "test") for n in range(2000)))
        assert [peer.answer(ListGroupsRequest, 5)[0] for _ in range(2000)] == list(range(2000))


def test_produce_without_acks_gets_no_answer(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        topic = CreatableTopic(name="silent", num_partitions=1, replication_factor=1)
        peer.ask(CreateTopicsRequest(topics=(topic,)), 7)
        peer.answer(CreateTopicsRequest, 7)
        peer.ask(produce("silent", batch(10), acks=0), 12, 8)
        peer.ask(ApiVersionsRequest(), 0, 9)
        assert peer.answer(ApiVersionsRequest, 0)[0] == 9


def test_a_request_before_bytes_that_mean_nothing_is_answered(broker: EmbeddedBroker) -> None:
    with Peer(broker.bootstrap) as peer:
        heartbeat = HeartbeatRequest(group_id="none", generation_id=1, member_id="m")
        peer.send(encode_request(heartbeat, 4, 1, "test") + framed(header(99, 0)))
        assert peer.answer(HeartbeatRequest, 4)[0] == 1
        assert peer.is_closed()


def test_a_refused_produce_without_acks_closes_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    partition = FetchPartition(partition=0, partition_max_bytes=1)
    slow = FetchRequest(
        max_wait_ms=300,
        min_bytes=1,
        topics=(FetchTopic(topic="after", partitions=(partition,)),),
    )
    requests: list[tuple[Any, int]] = [
        (slow, 12),
        (produce("no topic", batch(10), acks=0), 12),
        (produce("after", batch(10), acks=0), 12),
        (ApiVersionsRequest(), 0),
    ]
    with EmbeddedBroker() as broker:
        with Peer(broker.bootstrap) as peer:
            topic = CreatableTopic(name="after", num_partitions=1, replication_factor=1)
            peer.ask(CreateTopicsRequest(topics=(topic,)), 7)
            peer.answer(CreateTopicsRequest, 7)
            peer.send(
                b"".join(
                    encode_request(request, version, number, "test")
                    for number, (request, version) in enumerate(requests)
                )
            )
            # What came before is answered, and what comes behind is not done.
            assert peer.answer(FetchRequest, 12)[0] == 0
            assert peer.is_closed()
        with Peer(broker.bootstrap) as peer:
            peer.ask(produce("after", batch(10)), 12)
            (answer,) = peer.answer(ProduceRequest, 12)[1].responses
            assert answer.partition_responses[0].base_offset == 0
    (line,) = [each for each in caplog.messages if "closed the connection" in each]
    assert line.endswith(
        ": its Produce with acks=0 is refused, for no topic-0: UNKNOWN_TOPIC_OR_PARTITION"
    )


def is_served(address: str) -> bool:
    """Whether the broker answers a new client."""
    with Peer(address) as peer:
        try:
            peer.ask(ApiVersionsRequest(), 0)
            peer.answer(ApiVersionsRequest, 0)
        except (EOFError, ConnectionError):
            return False
    return True


def test_a_peer_that_goes_away_amid_a_long_request_is_noticed_in_two_seconds() -> None:
    partition = FetchPartition(partition=0, partition_max_bytes=1)
    short, endless = (
        FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=(FetchTopic(topic="t", partitions=(partition,)),),
        )
        for wait_ms in (100, 2**31 - 1)
    )
    # The last one waits for the endless one, and so the broker does not read on.
    requests = [short, endless, produce("no topic", batch(10), acks=0)]
    with EmbeddedBroker(max_connections=1) as broker:
        with Peer(broker.bootstrap) as peer:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            peer.ask(CreateTopicsRequest(topics=(topic,)), 7)
            peer.answer(CreateTopicsRequest, 7)
            peer.send(b"".join(encode_request(each, 12, 1, "test") for each in requests))
            assert peer.answer(FetchRequest, 12)[1].error_code == Code.NONE
        give_up = time.monotonic() + 20
        while not is_served(broker.bootstrap):
            assert time.monotonic() < give_up


def test_too_many_connections_are_turned_away() -> None:
    with (
        EmbeddedBroker(max_connections=2) as broker,
        Peer(broker.bootstrap) as first,
        Peer(broker.bootstrap) as second,
    ):
        for peer in (first, second):
            peer.ask(ApiVersionsRequest(), 0)
            peer.answer(ApiVersionsRequest, 0)
        with Peer(broker.bootstrap) as third:
            assert third.is_closed()


def test_more_clients_are_served_than_a_shell_would_grant_files(tmp_path: Path) -> None:
    serve = (
        f"exec {sys.executable} -m apportion.cli.main serve --listen 127.0.0.1:0 --data-dir "
        f"{tmp_path / 'data'}"
    )
    with subprocess.Popen(
        ["sh", "-c", f"ulimit -Sn 64; {serve}"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("listening on ").strip()
            with ExitStack() as stack:
                peers = [stack.enter_context(Peer(address)) for _ in range(100)]
                for peer in peers:
                    peer.ask(ApiVersionsRequest(), 0)
                assert [peer.answer(ApiVersionsRequest, 0)[1].error_code for peer in peers] == [
                    Code.NONE
                ] * 100
        finally:
            process.kill()
