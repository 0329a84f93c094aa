"""Fixtures of tests that play Spark's part of a `BatchMember` on the `broker` of their module."""

import time

import pytest

from apportion.client.cluster import Cluster
from apportion.spark.batch_member import BatchMember
from apportion.spark.options import SourceOptions
from apportion.wire.batch import encode_batch

CLASSIC = {  # the options of a member of the classic protocol
    "kafka.group.protocol": "classic",
    "kafka.session.timeout.ms": "4000",
    "kafka.heartbeat.interval.ms": "200",
    "kafka.metadata.max.age.ms": "300",
}

SHORT_SESSIONS = {
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.session.timeout.ms": 4_000,
    "group.min.session.timeout.ms": 1_000,
}
"""What the broker of a test is started with, which waits for silent members."""


@pytest.fixture(scope="module", params=["consumer", "classic"])
def protocol(request):
    """What the members of a test speak, on a broker of their own."""
    return request.param


@pytest.fixture
def cluster(broker):
    made = Cluster(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def batch_member_of(broker, protocol):
    """`batch_member_of(group, topic, **options)`: a batch member, closed at the end."""
    members = []

    def make(group, topic, **options):
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


def produce(cluster, partition, count):
    cluster.produce(partition, encode_batch([(None, b"x", ())] * count, timestamp_ms=1))


def span_where(member, previous, ready, limit=None):
    """The first span for which `ready` holds, every one before it treated as Spark does: written,
    then handed back.
    """
    deadline = time.monotonic() + 60
    while not ready(previous := member.next_span(previous, limit)):
        assert time.monotonic() < deadline, previous
    return previous


def cluster_of(member):
    return member.options.bootstrap


def strategy_of(protocol):
    return {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
