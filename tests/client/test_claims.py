"""A consumer that is in a group when a sink claims it, without a partition changing hands: it ends
before it commits.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.client.consumer import Consumer
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import AnotherSink, metadata_of
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import TopicIdPartition, TopicPartition, partitions_of
from tests.client import changes

CLAIM = metadata_of(("/lake/flights",))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings: dict[str, Any] = {"group.consumer.heartbeat.interval.ms": 200}
    with EmbeddedBroker(**settings) as broker:
        made: Any = Cluster(broker.bootstrap)
        made.broker = broker.bootstrap
        yield made
        made.close()


@pytest.fixture
def meeting(cluster: Any) -> Iterator[Callable[..., tuple[Consumer, Any, TopicIdPartition]]]:
    """`meeting(name, **options)`: a consumer that has the one partition of a topic, and a member of
    a query, which has come after it.
    """
    open_ones = []

    def make(name: str, **options: Any) -> tuple[Consumer, Any, TopicIdPartition]:
        (partition,) = partitions_of(cluster.create_topic(name, 1))
        consumer = Consumer(cluster.broker, name, topics=name, **options)
        open_ones.append(consumer.close)
        while not consumer.assignment:
            consumer.poll(100)
        query: Any = GroupMembership(cluster, new_member(name), (name,))
        open_ones.append(query.leave)
        query.start()
        query.wait(lambda view: view.epoch > 0, 20_000)
        return consumer, query, partition

    yield make
    for close in open_ones:
        close()


def test_a_claim_is_seen_when_the_group_has_changed(
    cluster: Cluster, meeting: Callable[..., tuple[Consumer, Any, TopicIdPartition]]
) -> None:
    consumer, query, partition = meeting("changed")
    changes.commit_as(query, {partition: 0}, metadata=CLAIM)
    with pytest.raises(AnotherSink, match="group changed: it belongs to the sink /lake/flights"):
        while True:
            consumer.poll(100)
    assert cluster.committed_offsets("changed", [partition]) == {
        partition: OffsetAndMetadata(0, CLAIM)
    }


def test_a_claim_that_comes_later_is_seen_before_the_first_commit(
    cluster: Cluster, meeting: Callable[..., tuple[Consumer, Any, TopicIdPartition]]
) -> None:
    consumer, query, partition = meeting("later")
    while consumer.session.status().epoch < query.status().epoch:
        consumer.poll(100)
    consumer.poll(0)  # it has looked by now
    changes.commit_as(query, {partition: 0}, metadata=CLAIM)
    with pytest.raises(AnotherSink, match="group later: it belongs to the sink /lake/flights"):
        consumer.commit({TopicPartition("later", 0): 1})
    assert cluster.committed_offsets("later", [partition]) == {
        partition: OffsetAndMetadata(0, CLAIM)
    }
    assert consumer.session.history()[-1].what == "left"


def test_a_claim_that_is_seen_when_the_consumer_closes_is_reported_to_on_lost(
    cluster: Cluster, meeting: Callable[..., tuple[Consumer, Any, TopicIdPartition]]
) -> None:
    calls: list[tuple[str, Any]] = []
    consumer, query, partition = meeting(
        "closed",
        auto_commit=True,
        auto_commit_interval_ms=60_000,
        on_lost=lambda lost: calls.append(("lost", lost)),
        on_revoked=lambda revoked: calls.append(("revoked", revoked)),
    )
    changes.commit_as(query, {partition: 0}, metadata=CLAIM)
    with pytest.raises(AnotherSink, match="group closed: it belongs to the sink /lake/flights"):
        consumer.close()
    assert calls == [("lost", (TopicPartition("closed", 0),))]
    assert cluster.committed_offsets("closed", [partition]) == {
        partition: OffsetAndMetadata(0, CLAIM)
    }
    assert consumer.session.history()[-1].what == "left"
