"""A broker that holds its responses back does not keep a consumer from showing that it polls."""

import threading
from typing import Any

import apportion
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import free_ports
from apportion.wire.messages.fetch import FetchRequest
from apportion.wire.messages.metadata import MetadataRequest
from tests.kafka.golden.proxy import Asked, RecordingProxy


class HoldingProxy(RecordingProxy):
    """A proxy that holds back the responses of these APIs while `holds` is set."""

    def __init__(self, upstream_port: int, port: int, *requests: Any) -> None:
        super().__init__(upstream_port, port)
        self.keys = {request.__key__ for request in requests}
        self.holds, self.ended = threading.Event(), threading.Event()

    def answered(self, asked: Asked, response: bytes) -> None:
        """Wait with this response."""
        if int.from_bytes(asked.frame[:2], "big") in self.keys and self.holds.is_set():
            self.ended.wait()


def test_a_consumer_of_a_hung_broker_stays_in_its_group() -> None:
    front, back = free_ports(2)
    proxy = HoldingProxy(back, front, FetchRequest, MetadataRequest)
    proxy.start()
    listeners: dict[str, Any] = {
        "listeners": f"PLAINTEXT://127.0.0.1:{back}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{front}",
    }
    with EmbeddedBroker(**listeners):
        cluster = Cluster(f"127.0.0.1:{back}")
        cluster.create_topic("t", 4)
        cluster.close()
        with apportion.Consumer(
            f"127.0.0.1:{front}", "g", topics="t", max_poll_interval_ms=4_000
        ) as consumer:
            while len(consumer.assignment) < 4:
                consumer.poll(100)
            proxy.holds.set()
            # The first waits for Fetch. Its failure makes the leaders unknown, so the second waits
            # for Metadata.
            assert consumer.poll(0) == []
            assert consumer.poll(0) == []
            assert [event.what for event in consumer.session.history()] == ["offered", "adopted"]
            proxy.ended.set()
