"""Connections that nobody uses any more: idle ones, and those whose client hangs up unnoticed."""

import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from apportion.node.settings import BrokerSettings, SettingRefused
from apportion.server.embedded import EmbeddedBroker
from apportion.store.files import RealDisk
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.produce import ProduceRequest
from apportion.wire.table import encode_request
from tests.server.peer import Peer, batch, produce

LIMIT_MS = 1_000
SETTING = "connections.max.idle.ms"


def fetch(max_bytes: int = 1, wait_ms: int = 2**31 - 1) -> FetchRequest:
    """A Fetch of the topic t from offset 1, or from 0 if it brings many bytes."""
    partition = FetchPartition(
        partition=0, fetch_offset=int(max_bytes == 1), partition_max_bytes=max_bytes
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=(FetchTopic(topic="t", partitions=(partition,)),),
    )


def with_topic(peer: Peer, size: int = 1) -> None:
    """Create the topic t with one record of that size."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    peer.ask(CreateTopicsRequest(topics=(topic,)), 7)
    peer.answer(CreateTopicsRequest, 7)
    peer.ask(produce("t", batch(size)), 12)
    peer.answer(ProduceRequest, 12)


def until_closed(bootstrap: str) -> Iterator[None]:
    """Come back a few times until the broker closes a new connection, after its time limit."""
    began = time.monotonic()  # before the broker has accepted it
    with Peer(bootstrap) as idle:
        idle.socket.settimeout(LIMIT_MS / 4 / 1000)
        while True:
            try:
                assert idle.is_closed()
                break
            except TimeoutError:
                yield
    assert LIMIT_MS / 1000 <= time.monotonic() - began < 20


def test_a_connection_is_closed_once_nothing_has_come_or_gone_for_its_limit() -> None:
    with (
        EmbeddedBroker(connections_max_idle_ms=LIMIT_MS) as broker,
        Peer(broker.bootstrap) as used,
        Peer(broker.bootstrap) as waiting,
    ):
        with_topic(used)
        waiting.ask(fetch(), 12)
        for _ in range(2):
            for _ in until_closed(broker.bootstrap):
                used.ask(ApiVersionsRequest(), 0)
                used.answer(ApiVersionsRequest, 0)
        # Also one whose request waits, as in Kafka.
        assert waiting.is_closed()
        used.ask(ApiVersionsRequest(), 0)
        used.answer(ApiVersionsRequest, 0)


def test_a_client_that_reads_nothing_is_idle_and_one_that_reads_slowly_is_not() -> None:
    size = 24 << 20
    with (
        EmbeddedBroker(connections_max_idle_ms=LIMIT_MS, message_max_bytes=size + 1000) as broker,
        Peer(broker.bootstrap) as slow,
        Peer(broker.bootstrap) as stuck,
    ):
        with_topic(slow, size)
        for peer in (slow, stuck):
            peer.ask(fetch(size), 12)
        read_bytes = 0
        for _ in range(3):
            for _ in until_closed(broker.bootstrap):
                read_bytes += len(slow.receive(min(1 << 20, size - read_bytes)))
        slow.receive(size - read_bytes)
        with pytest.raises((EOFError, ConnectionError)):
            stuck.receive(size)


def test_no_connection_is_closed_before_its_limit() -> None:
    limit_ms = 20
    with EmbeddedBroker(connections_max_idle_ms=limit_ms) as broker:

        def idle_for_s(_: int) -> float:
            began = time.monotonic()
            with Peer(broker.bootstrap) as idle:
                assert idle.is_closed()
            return time.monotonic() - began

        # Seven at a time fall out of step: those looked at when another one's time was over
        # were closed early, one of ten of them, while the clock was cut to milliseconds.
        with ThreadPoolExecutor(7) as clients:
            assert min(clients.map(idle_for_s, range(200))) >= limit_ms / 1000


def test_without_a_limit_nothing_is_closed_and_a_limit_of_zero_is_refused() -> None:
    with (
        EmbeddedBroker(connections_max_idle_ms=-1) as broker,
        Peer(broker.bootstrap) as peer,
    ):
        peer.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            peer.is_closed()
        peer.ask(ApiVersionsRequest(), 0)
        peer.answer(ApiVersionsRequest, 0)
    with pytest.raises(SettingRefused) as refused:
        BrokerSettings.of({SETTING: "0"})
    assert str(refused.value) == f"{SETTING} must be at least 1, or -1 for ever, not 0."


@contextmanager
def peer_of(broker: EmbeddedBroker) -> Iterator[Peer]:
    """A client of bare bytes, by TLS where the broker has that."""
    with Peer(broker.bootstrap) as peer:
        if broker.ca_location:
            context = ssl.create_default_context(cafile=broker.ca_location)
            peer.socket = context.wrap_socket(peer.socket, server_hostname="127.0.0.1")
        yield peer


def is_served(broker: EmbeddedBroker) -> bool:
    """Whether the broker answers a new client."""
    try:
        with peer_of(broker) as peer:
            peer.ask(ApiVersionsRequest(), 0)
            peer.answer(ApiVersionsRequest, 0)
    except (EOFError, OSError):
        return False
    return True


@pytest.mark.parametrize("security", [None, "SSL"])
def test_the_log_says_why_an_idle_connection_was_closed(
    caplog: pytest.LogCaptureFixture, security: str | None
) -> None:
    caplog.set_level(logging.WARNING, logger="apportion.server")
    with EmbeddedBroker(connections_max_idle_ms=200, security=security) as broker:
        with peer_of(broker) as idle:
            host, port = idle.socket.getsockname()
            assert idle.is_closed()
        with peer_of(broker):
            pass  # a peer that closes its connection is no news
    assert [record.getMessage() for record in caplog.records] == [
        f"closed the connection of {host}:{port}: nothing came or went for 200 ms "
        "(connections.max.idle.ms)"
    ]


def until_served(broker: EmbeddedBroker) -> None:
    """Come back once the broker answers a new client."""
    deadline = time.monotonic() + 30
    while not is_served(broker):
        assert time.monotonic() < deadline
        time.sleep(0.1)


# Where the system has not taken all bytes of the peer, it does not know of the end behind them.
@pytest.mark.parametrize(
    ("count", "limit_ms"), [(200, -1), (20_000, LIMIT_MS)], ids=["noticed", "closed as idle"]
)
@pytest.mark.parametrize("security", [None, "SSL"])
def test_a_peer_that_hangs_up_behind_more_long_requests_than_begin_is_gone_soon(
    security: str | None, count: int, limit_ms: int
) -> None:
    with EmbeddedBroker(
        max_connections=1, security=security, connections_max_idle_ms=limit_ms
    ) as broker:
        with peer_of(broker) as peer:
            with_topic(peer)
            peer.send(encode_request(fetch(), 12, 1, "test") * count)
        until_served(broker)


def test_a_producer_without_acks_that_hangs_up_loses_nothing_to_a_slow_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync, quick = RealDisk.sync, threading.Event()

    def slow_sync(self: RealDisk, paths: Iterable[str]) -> None:
        quick.wait(0.2)
        sync(self, paths)

    monkeypatch.setattr(RealDisk, "sync", slow_sync)
    monkeypatch.setattr("apportion.server.reading.LOOK_SECONDS", 0.02)
    with EmbeddedBroker(max_connections=1, apportion_connection_max_inflight_requests=10) as broker:
        with peer_of(broker) as peer:
            with_topic(peer)
            peer.send(encode_request(produce("t", batch(1), acks=0), 12, 1, "test") * 25)
        until_served(broker)
        quick.set()
        with peer_of(broker) as peer:
            peer.ask(produce("t", batch(1)), 12)
            [topic] = peer.answer(ProduceRequest, 12)[1].responses
    assert topic.partition_responses[0].base_offset == 26


# With TLS nothing is read from a peer that does not read, so its end is not looked for.
@pytest.mark.parametrize(
    ("security", "limit_ms"), [(None, -1), ("SSL", LIMIT_MS)], ids=["noticed", "closed as idle"]
)
def test_a_peer_that_hangs_up_without_reading_its_response_is_gone_soon(
    caplog: pytest.LogCaptureFixture, security: str | None, limit_ms: int
) -> None:
    caplog.set_level(logging.WARNING, logger="apportion.server")
    size = 16 << 20
    with (
        EmbeddedBroker(
            max_connections=1,
            security=security,
            connections_max_idle_ms=limit_ms,
            message_max_bytes=size + 1000,
        ) as broker,
        peer_of(broker) as peer,
    ):
        with_topic(peer, size)
        peer.ask(fetch(size), 12)
        assert peer.receive(4)  # so the response is on its way
        peer.send(encode_request(fetch(), 12, 1, "test") * 200)
        # The socket stays open: its system still takes, and acknowledges, what is sent.
        socket.socket.shutdown(peer.socket, socket.SHUT_WR)
        host, port = peer.socket.getsockname()
        until_served(broker)
    why = (
        "it hung up before it had its answers"
        if limit_ms < 0
        else f"nothing came or went for {limit_ms} ms (connections.max.idle.ms)"
    )
    assert f"closed the connection of {host}:{port}: {why}" in caplog.messages
