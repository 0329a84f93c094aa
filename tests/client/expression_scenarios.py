"""What a Consumer that subscribes by a pattern must do on any broker with KIP-848: played against
ours in tests/client, on a real Kafka in tests/kafka.

A module that adopts these adopts scenarios.py first, whose fixtures they take.
"""

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from apportion.client.cluster import Cluster
from apportion.client.consumer import Consumer
from apportion.errors import Code, Refused
from apportion.member.group_claims import AnotherSink
from apportion.topics import partitions_of
from tests.client import changes
from tests.client.scenarios import fill

if TYPE_CHECKING:
    from apportion.member.records.fetch_buffer import ConsumerRecord


@pytest.fixture
def prefix() -> str:
    """What the names of a test's topics begin with."""
    return f"flights-{uuid4().hex[:8]}-"


def read(consumer: Consumer, count: int) -> dict[str, int]:
    """How many records came of each topic, when there are `count`."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += consumer.poll(1_000)
    topics = sorted({record.topic for record in records})
    return {topic: sum(record.topic == topic for record in records) for topic in topics}


def test_a_pattern_matches_the_topics_there_are_and_within_10_s_those_that_come(
    bootstrap: str, cluster: Cluster, group: str, prefix: str
) -> None:
    for name in (f"{prefix}a", f"{prefix}b", f"x-{prefix}a"):
        fill(cluster, cluster.create_topic(name, 2), each=3)
    with Consumer(bootstrap, group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(pattern=f"{prefix}.*")
        assert read(consumer, 12) == {f"{prefix}a": 6, f"{prefix}b": 6}
        consumer.commit()
        fill(cluster, cluster.create_topic(f"{prefix}c", 1), each=3)
        assert read(consumer, 3) == {f"{prefix}c": 3}


def test_a_pattern_gives_way_to_names_and_comes_beside_them(
    bootstrap: str, cluster: Cluster, group: str, prefix: str
) -> None:
    for name in (f"{prefix}a", f"{prefix}b"):
        fill(cluster, cluster.create_topic(name, 1), each=3)
    with Consumer(bootstrap, group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([], pattern=f"{prefix}a")
        assert read(consumer, 3) == {f"{prefix}a": 3}
        consumer.subscribe([f"{prefix}b"])
        assert read(consumer, 3) == {f"{prefix}b": 3}
        while {partition.topic for partition in consumer.assignment} != {f"{prefix}b"}:
            consumer.poll(100)
        consumer.subscribe([f"{prefix}b"], pattern=f"{prefix}a")
        while {partition.topic for partition in consumer.assignment} != {
            f"{prefix}a",
            f"{prefix}b",
        }:
            consumer.poll(100)


def test_a_pattern_that_the_broker_refuses_ends_the_membership_with_its_reason(
    bootstrap: str, group: str
) -> None:
    with Consumer(bootstrap, group) as consumer:
        consumer.subscribe(pattern="(")
        with pytest.raises(Refused) as refused:
            while True:
                consumer.poll(1_000)
        assert refused.value.code is Code.INVALID_REGULAR_EXPRESSION
        assert "missing" in refused.value.why


def test_a_pattern_that_matches_the_topics_of_a_sink_is_refused(
    bootstrap: str, cluster: Cluster, group: str, prefix: str
) -> None:
    topic = cluster.create_topic(f"{prefix}a", 1)
    fill(cluster, topic, each=3)
    changes.commit(cluster, group, {partitions_of(topic)[0]: 1}, metadata='{"sinks":["table"]}')
    consumer = Consumer(bootstrap, group, auto_offset_reset="earliest")
    consumer.subscribe(pattern=f"{prefix}.*")
    with pytest.raises(AnotherSink):
        while True:
            consumer.poll(1_000)
