"""Fixtures of tests that play Spark's part of a `BatchMember` on the `broker` of their module."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from apportion.client.cluster import Cluster
from apportion.member.batch.span import Span
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.options.stream import SourceOptions
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch

if TYPE_CHECKING:
    from apportion.server.embedded import EmbeddedBroker
    from tests.spark.conftest import Broker

GroupProtocol = Literal["consumer", "classic"]

CLASSIC = {  # the options of a member of the classic protocol
    "kafka.group.protocol": "classic",
    "kafka.session.timeout.ms": "2000",
    "kafka.heartbeat.interval.ms": "200",
    "kafka.metadata.max.age.ms": "300",
}

SHORT_SESSIONS: dict[str, Any] = {
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.session.timeout.ms": 2_000,
    "group.min.session.timeout.ms": 1_000,
}
"""What the broker of a test is started with, which waits for silent members."""


@pytest.fixture(scope="module", params=["consumer", "classic"])
def protocol(request: pytest.FixtureRequest) -> GroupProtocol:
    """What the members of a test speak, on a broker of their own."""
    chosen: GroupProtocol = request.param
    return chosen


@pytest.fixture(scope="module")
def broker(protocol: GroupProtocol) -> "Iterator[EmbeddedBroker]":
    """A broker of this module in this process, for each protocol one."""
    from apportion.server.embedded import EmbeddedBroker

    with EmbeddedBroker(**SHORT_SESSIONS) as running:
        yield running


@pytest.fixture
def batch_member_of(
    broker: "Broker | EmbeddedBroker", protocol: GroupProtocol
) -> Iterator[Callable[..., BatchMember]]:
    """`batch_member_of(group, topic, **options)`: a batch member, closed at the end."""
    members: list[BatchMember] = []

    def make(group: str, topic: str, **options: str) -> BatchMember:
        facts = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.group.id": group,
            "subscribe": topic,
            **options,
        }
        facts |= CLASSIC if protocol == "classic" else {}
        members.append(BatchMember(SourceOptions.parse(facts)))
        return members[-1]

    yield make
    for member in members:
        member.close()


def create_topic(
    cluster: Cluster, name: str, partitions: int = 1, *, records: int = 0
) -> tuple[TopicIdPartition, ...]:
    """The partitions of a new topic, with so many records each."""
    created = partitions_of(cluster.create_topic(name, partitions))
    for partition in created:
        if records:
            produce(cluster, partition, records)
    return created


def produce(cluster: Cluster, partition: TopicIdPartition, count: int) -> None:
    cluster.produce(partition, encode_batch([(None, b"x", ())] * count, timestamp_ms=1))


def span_where(
    member: BatchMember,
    previous: Span,
    ready: Callable[[Span], object],
    limit: int | None = None,
) -> Span:
    """The first span for which `ready` holds, every one before it treated as Spark does: written,
    then handed back.
    """
    deadline = time.monotonic() + 60
    while not ready(previous := member.next_span(previous, limit)):
        assert time.monotonic() < deadline, previous
    return previous


def cluster_of(member: BatchMember) -> str:
    return member.options.bootstrap


def strategy_of(protocol: GroupProtocol) -> dict[str, Any]:
    return {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
