"""A range of offsets, read as a task of a Spark query reads it."""

from contextlib import closing

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch, read_header


def test_a_range_far_from_the_beginning_is_read_and_nothing_before_it() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        (partition,) = partitions_of(cluster.create_topic("far", 1))
        for _ in range(3):
            records = encode_batch([(None, b"x", ())] * 1_000, timestamp_ms=1)
            cluster.produce(partition, records)
        batches = [*cluster.fetch_range(partition, 1_500, 2_600)]
        assert [read_header(batch).base_offset for batch in batches] == [1_000, 2_000]
