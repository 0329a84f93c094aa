from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.messages.list_offsets import LATEST
from demo.flights import flights
from demo.produce import PacedProducer

FAST = 1_000_000.0


def test_events_flow_slowly_until_they_may_finish_and_then_all_are_acknowledged() -> None:
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        topic = cluster.create_topic("flights", 3)
        producer = PacedProducer(broker.bootstrap, "flights", flights(1_000), 1_000, FAST)
        producer.start()
        producer.join(0.5)
        assert producer.is_alive()
        assert producer.sent < 100
        producer.finish()
        producer.join(30)
        ends = cluster.list_offsets(partitions_of(topic), LATEST)
        cluster.close()
    assert (producer.error, producer.sent, producer.acknowledged, sum(ends.values())) == (
        None,
        1_000,
        1_000,
        1_000,
    )


def test_a_producer_that_is_ended_early_has_no_error() -> None:
    with EmbeddedBroker() as broker:
        producer = PacedProducer(broker.bootstrap, "flights", flights(1_000), 1_000, FAST)
        producer.start()
        producer.end()
        producer.join(30)
    assert (producer.is_alive(), producer.error) == (False, None)
