"""The Spark source's membership on a Kafka that computes targets as it does by default: later than
the heartbeat that needs one (KIP-1263).
"""

from collections.abc import Callable

from apportion.client.cluster import Cluster
from apportion.member.batch.span import EMPTY_SPAN
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.options.stream import SourceOptions
from apportion.testing.kafka import RealKafka
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from tests.kafka.conftest import until
from tests.node.config_requests import describe, incremental

INTERVAL = "consumer.assignment.interval.ms"


def set_value(cluster: Cluster) -> str | None:
    """The interval of the group as the broker knows it."""
    (described,) = cluster.call(describe("group", "now", INTERVAL)).results
    value: str | None = described.configs[0].value
    return value


def test_reading_what_is_there_does_not_end_before_the_first_target_has_come(
    standing: Callable[[str], RealKafka],
) -> None:
    bootstrap = standing("expiring").bootstrap
    cluster = Cluster(bootstrap)
    cluster.call(incremental(("group", "now", ((INTERVAL, "=", "1000"),))))
    until(lambda: set_value(cluster) == "1000")
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
