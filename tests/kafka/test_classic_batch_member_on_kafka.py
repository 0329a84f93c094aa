"""The Spark source's membership on a Kafka that does not have KIP-848, as before 4.0: classic
groups are all there is.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.options.stream import SourceOptions
from apportion.testing.kafka import RealKafka
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes

CLASSIC = {
    "kafka.group.protocol": "classic",
    "kafka.session.timeout.ms": "6000",
    "kafka.heartbeat.interval.ms": "200",
    "kafka.metadata.max.age.ms": "500",
    "startingOffsets": "earliest",
}
OwnerOf = Callable[[str, str, dict[str, str]], BatchMember]


@pytest.fixture(scope="module")
def bootstrap(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"group.coordinator.rebalance.protocols": "classic", "broker.rack": "here"}
    with RealKafka(jars, tmp_path_factory.mktemp("kafka"), settings) as broker:
        yield broker.bootstrap


@pytest.fixture
def owner_of(bootstrap: str) -> Iterator[OwnerOf]:
    """`owner_of(group, topic, **options)`: an owner; it has left its group at the end."""
    owners = []

    def make(group: str, topic: str, options: dict[str, str]) -> BatchMember:
        given = {"kafka.bootstrap.servers": bootstrap, "kafka.group.id": group, "subscribe": topic}
        owners.append(BatchMember(SourceOptions.parse(given | options)))
        return owners[-1]

    yield make
    for owner in owners:
        owner.close()


def produce(cluster: Cluster, partitions: Sequence[TopicIdPartition], count: int) -> None:
    for partition in partitions:
        cluster.produce(partition, encode_batch([(None, b"x", ())] * count, timestamp_ms=1))


def read_by(
    owners: list[BatchMember], until: Callable[[list[Span]], bool], spans: list[Span] | None = None
) -> list[Span]:
    """What each owner has read when `until` holds of the spans; each asked in turn, its last span
    written before.
    """
    spans = spans or [EMPTY_SPAN] * len(owners)
    deadline = time.monotonic() + 60
    while not until(spans):
        assert time.monotonic() < deadline, spans
        spans = [owner.next_span(span, None) for owner, span in zip(owners, spans, strict=True)]
    return spans


def test_present_records_are_read_and_a_second_run_goes_on(
    cluster: Cluster, owner_of: OwnerOf
) -> None:
    partitions = partitions_of(cluster.create_topic("now", 3))
    for total in (4, 8):
        produce(cluster, partitions, 4)
        owner = owner_of("now", "now", CLASSIC)
        owner.stop_at_present_ends()
        asking = owner.next_span(EMPTY_SPAN, None)  # the writers, of whom there are none
        batch = owner.next_span(asking, None)
        assert owner.next_span(batch, None) is batch
        owner.close()
        assert batch.end_offsets() == dict.fromkeys(partitions, total)


def test_queries_share_hand_over_and_take_back(cluster: Cluster, owner_of: OwnerOf) -> None:
    partitions = partitions_of(cluster.create_topic("shared", 4))
    produce(cluster, partitions, 5)
    one, two = (
        owner_of("shared", "shared", CLASSIC | {"kafka.client.id": name}) for name in ("one", "two")
    )
    first, second = read_by(
        [one, two], lambda spans: [len(span.ranges) for span in spans] == [2, 2]
    )
    assert {**first.end_offsets(), **second.end_offsets()} == dict.fromkeys(partitions, 5)
    two.close()
    produce(cluster, partitions, 5)
    (last,) = read_by(
        [one], lambda spans: spans[0].end_offsets() == dict.fromkeys(partitions, 10), [first]
    )
    assert cluster.committed("shared", partitions) == {
        partition: start for partition, (start, _) in last.ranges.items()
    }


def test_a_partition_that_is_added_is_read_from_its_beginning(
    cluster: Cluster, owner_of: OwnerOf
) -> None:
    cluster.create_topic("grows", 1)
    owner = owner_of("grows", "grows", CLASSIC | {"startingOffsets": "latest"})
    (span,) = read_by([owner], lambda spans: len(spans[0].ranges) == 1)
    _, added = partitions_of(changes.grow_topic(cluster, "grows", 2))
    produce(cluster, [added], 3)
    (span,) = read_by([owner], lambda spans: spans[0].ranges.get(added, (0, 0))[1] == 3, [span])
    assert span.ranges[added] == (0, 3)


def test_the_racks_of_replicas_are_seen_and_a_consumer_may_have_one(
    bootstrap: str, cluster: Cluster
) -> None:
    topic = cluster.create_topic("racked", 2)
    assert cluster.look_up(["racked", "nowhere"]) == (
        TopicDescription("racked", topic.id, 2, (("here",), ("here",))),
    )
    options: dict[str, Any] = {
        "group_protocol": "classic",
        "partition_assignment_strategy": "range",
        "client_rack": "here",
    }
    with apportion.Consumer(bootstrap, "racked", topics=["racked"], **options) as consumer:
        while len(consumer.assignment) < 2:
            consumer.poll(100)


def test_without_kip_848_the_consumer_protocol_is_refused_with_the_remedy(
    bootstrap: str, cluster: Cluster, owner_of: OwnerOf
) -> None:
    cluster.create_topic("new", 1)
    remedy = "a broker without KIP-848 has classic groups only, so choose the classic protocol"
    owner = owner_of("new", "new", {})
    with pytest.raises(MembershipFailed, match=remedy):
        read_by([owner], lambda spans: False)
    with (
        apportion.Consumer(bootstrap, "newer", topics=["new"]) as consumer,
        pytest.raises(Refused, match=remedy) as refusal,
    ):
        while True:
            consumer.poll(1_000)
    assert refusal.value.code is Code.UNSUPPORTED_VERSION
