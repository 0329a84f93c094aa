"""A member whose broker goes away and comes back on the same address, with the same data."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes


@pytest.fixture
def address() -> str:
    """Returns an address at which nothing listens yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def start(tmp_path: Path, address: str) -> Iterator[Callable[..., EmbeddedBroker]]:
    """Starts the broker, each time on the same port and directory."""
    running = []

    def begin() -> EmbeddedBroker:
        broker = EmbeddedBroker(
            tmp_path,
            listeners=address,
            group_consumer_heartbeat_interval_ms=200,
            group_consumer_session_timeout_ms=5_000,
        )
        running.append(broker)
        return broker

    yield begin
    for broker in running:
        broker.close()


def test_a_member_keeps_its_place_over_a_restart_of_its_broker(
    start: Callable[..., EmbeddedBroker],
) -> None:
    broker = start()
    cluster = Cluster(broker.bootstrap, timeout_ms=20_000)
    topic = cluster.create_topic("t", 3)
    session = GroupMembership(cluster, new_member("g"), ["t"])
    session.start()
    offered: Any = session.wait(lambda view: bool(view.target), 20_000)
    session.adopt(offered.incarnation, offered.target)
    changes.commit_as(session, {partitions_of(topic)[0]: 5})
    before = session.status()
    broker.close()
    with pytest.raises(Disconnected):
        cluster.list_offsets(partitions_of(topic), -1, timeout_ms=300)
    broker = start()
    accepted_ms = before.last_accepted_ms or 0
    after = session.wait(lambda view: (view.last_accepted_ms or 0) > accepted_ms + 1_000, 20_000)
    assert (after.incarnation, after.epoch, after.owned) == (1, before.epoch, before.owned)
    changes.commit_as(session, {partitions_of(topic)[1]: 6})
    assert changes.committed_as(session, partitions_of(topic)) == dict(
        zip(partitions_of(topic), [5, 6, None], strict=True)
    )
    assert session.leave()
    cluster.close()


def test_a_consumer_that_waited_for_its_first_broker_says_that_it_answers(
    start: Callable[..., EmbeddedBroker], address: str, caplog: pytest.LogCaptureFixture
) -> None:
    def messages() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "apportion.session"]

    with apportion.Consumer(address, "g-early", topics=["t"]) as consumer:
        while not messages():
            consumer.poll(20)
        start()
        while len(messages()) < 2:
            consumer.poll(20)
    _, answered = messages()
    assert re.fullmatch(r"group g-early: a broker answers again after \d+ s", answered)


def test_a_consumer_says_once_that_it_cannot_fetch_and_once_that_it_fetches_again(
    start: Callable[..., EmbeddedBroker], caplog: pytest.LogCaptureFixture
) -> None:
    broker = start()
    cluster = Cluster(broker.bootstrap, timeout_ms=20_000)
    partition = partitions_of(cluster.create_topic("t", 1))[0]
    cluster.produce(partition, encode_batch([(None, b"before", ())], timestamp_ms=0))

    def messages() -> list[str]:
        lines = [each.getMessage() for each in caplog.records if each.name == "apportion.consumer"]
        return [line for line in lines if "fetch" in line]

    with apportion.Consumer(
        broker.bootstrap, "g-outage", topics=["t"], auto_offset_reset="earliest"
    ) as consumer:
        assert len(consumer.poll(20_000)) == 1
        broker.close()
        while not messages():
            consumer.poll(20)
        for _ in range(20):
            assert consumer.poll(20) == []
        (began,) = messages()
        assert re.match(
            "group g-outage: cannot fetch now, and tries again until it can: .*connection", began
        )
        broker = start()
        cluster.produce(partition, encode_batch([(None, b"after", ())], timestamp_ms=0))
        assert len(consumer.poll(20_000)) == 1
        assert [line.rpartition(" after ")[0] for line in messages()[1:]] == [
            "group g-outage: fetches again"
        ]
    cluster.close()


def test_a_consumer_reads_on_over_a_restart_of_its_broker(
    start: Callable[..., EmbeddedBroker],
) -> None:
    broker = start()
    cluster = Cluster(broker.bootstrap, timeout_ms=20_000)
    partition = partitions_of(cluster.create_topic("t", 1))[0]
    cluster.produce(partition, encode_batch([(None, b"before", ())], timestamp_ms=0))
    with apportion.Consumer(
        broker.bootstrap, "g", topics=["t"], auto_offset_reset="earliest"
    ) as consumer:
        records = consumer.poll(20_000)
        broker.close()
        assert consumer.poll(500) == []
        broker = start()
        cluster.produce(partition, encode_batch([(None, b"after", ())], timestamp_ms=0))
        records += consumer.poll(20_000)
        consumer.commit()
    assert [(record.offset, record.value) for record in records] == [(0, b"before"), (1, b"after")]
    assert cluster.committed("g", [partition]) == {partition: 2}
    cluster.close()


def test_a_streams_group_goes_on_and_shares_anew_over_a_restart_of_its_broker(
    start: Callable[..., EmbeddedBroker],
) -> None:
    broker = start()
    cluster = Cluster(broker.bootstrap, timeout_ms=20_000)
    cluster.create_topic("lines", 4)
    cluster.close()
    processes: list[apportion.StreamsConsumer] = []

    def begin() -> None:
        processes.append(
            apportion.StreamsConsumer(
                broker.bootstrap,
                "application",
                topology=[{"sources": ["lines"], "changelogs": ["application-changelog"]}],
                group_protocol="consumer",
                num_standby_replicas=1,
            )
        )

    def poll_until(*sizes: int) -> None:
        deadline = time.monotonic() + 60
        while sorted(len(each.tasks.active) for each in processes) != list(sizes):
            assert time.monotonic() < deadline, [each.tasks for each in processes]
            for each in processes:
                each.poll(20)

    try:
        begin()
        begin()
        poll_until(2, 2)
        before = [each.tasks for each in processes]
        broker.close()
        broker = start()
        begin()
        poll_until(1, 1, 2)
        kept = [
            set(each.tasks.active) <= set(was.active)
            for each, was in zip(processes, before, strict=False)
        ]
        assert kept == [True, True]
    finally:
        for each in processes:
            each.close()
