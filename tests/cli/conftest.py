"""A broker for the tests of the streams commands."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import TopicIdPartition
from apportion.wire.batch import encode_batch


@pytest.fixture(scope="module")
def broker() -> Iterator[SimpleNamespace]:
    """A broker with `t`, two partitions of two records each, that waits a moment for all members;
    and its clients by client id.
    """
    with EmbeddedBroker(group_initial_rebalance_delay_ms=250) as broker:
        clusters = {name: Cluster(broker.bootstrap, client_id=name) for name in ("one", "two")}
        topic = clusters["one"].create_topic("t", 2)
        partitions = [TopicIdPartition("t", topic.id, number) for number in range(2)]
        for partition in partitions:
            clusters["one"].produce(
                partition, encode_batch([(None, b"a", ()), (None, b"b", ())], timestamp_ms=1)
            )
        yield SimpleNamespace(bootstrap=broker.bootstrap, clusters=clusters, partitions=partitions)
        for cluster in clusters.values():
            cluster.close()
