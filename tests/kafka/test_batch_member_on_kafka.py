"""The Spark source's membership on a Kafka that reckons targets as it does by default: later, and
on another thread (KIP-1263).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.client.cluster import Cluster
from apportion.member.batch.span import EMPTY_SPAN
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.options.stream import SourceOptions
from apportion.testing.kafka import RealKafka
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch


@pytest.fixture
def bootstrap(jars: Path, tmp_path: Path) -> Iterator[str]:
    settings = {
        "group.consumer.assignment.interval.ms": "1000",
        "group.consumer.assignor.offload.enable": "true",
    }
    with RealKafka(jars, tmp_path, settings) as broker:
        yield broker.bootstrap


def test_reading_what_is_there_does_not_end_before_the_first_target_has_come(
    bootstrap: str,
) -> None:
    cluster = Cluster(bootstrap)
    partitions = partitions_of(cluster.create_topic("now", 3))
    for partition in partitions:
        cluster.produce(partition, encode_batch([(None, b"x", ())] * 4, timestamp_ms=1))
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.group.id": "now",
        "subscribe": "now",
        "startingOffsets": "earliest",
    }
    for _ in range(2):  # a second run finds a group that it must join anew
        owner = BatchMember(SourceOptions.parse(given))
        owner.stop_at_present_ends()
        asking = owner.next_span(EMPTY_SPAN, None)  # the writers, of whom there are none
        batch = owner.next_span(asking, None)
        assert owner.next_span(batch, None) is batch
        owner.close()
        assert batch.end_offsets() == dict.fromkeys(partitions, 4)
    cluster.close()
