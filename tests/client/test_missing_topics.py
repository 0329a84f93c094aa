"""A consumer of a topic that does not exist says so once, and once more when it does."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

import apportion
from apportion.client import missing_topics
from apportion.client.cluster import Cluster
from apportion.client.consumer import Consumer
from apportion.errors import Code, Refused
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import free_ports
from apportion.wire.messages.metadata import MetadataRequest
from tests.kafka.golden.proxy import Asked, RecordingProxy


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def polled_until(consumer: Consumer, ready: Callable[..., Any]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        consumer.poll(50)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_missing_topic_is_logged_once_in_half_a_second_and_again_when_it_exists(
    broker: EmbeddedBroker,
    cluster: Cluster,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    protocol: Any,
) -> None:
    monkeypatch.setattr(missing_topics, "LOOKUP_INTERVAL_S", 0.1)
    topic, there = f"flihgts-{protocol}", f"there-{protocol}"
    cluster.create_topic(there, 1)
    waits = (
        f"group g-{protocol}: topic {topic} does not exist yet; it is read once it does: is "
        f"its name right? `apportion topics create {topic} --bootstrap {broker.bootstrap}` "
        "creates it"
    )
    comes = f"group g-{protocol}: topic {topic} exists now"

    def messages() -> list[str]:
        return [each.message for each in caplog.records if each.name == "apportion.consumer"]

    with apportion.Consumer(
        broker.bootstrap, f"g-{protocol}", topics=[topic, there], group_protocol=protocol
    ) as consumer:
        polled_until(consumer, messages)
        consumer.poll(500)  # several looks
        assert messages() == [waits]
        cluster.create_topic(topic, 1)
        polled_until(consumer, lambda: len(messages()) > 1)
        consumer.poll(500)
        assert messages() == [waits, comes]
        assert [each.levelname for each in caplog.records if each.name == "apportion.consumer"] == [
            "WARNING"
        ] * 2


class SilentProxy(RecordingProxy):
    """A proxy that keeps answers about metadata back until `tells` is set."""

    def __init__(self, upstream_port: int, port: int) -> None:
        super().__init__(upstream_port, port)
        self.tells, self.is_asked = threading.Event(), threading.Event()

    def answered(self, asked: Asked, response: bytes) -> None:
        """Wait with this answer."""
        metadata: Any = MetadataRequest
        if int.from_bytes(asked.frame[:2], "big") == metadata.__key__ and not self.tells.is_set():
            self.is_asked.set()
            self.tells.wait()


def test_a_poll_does_not_wait_for_the_answer_whether_a_topic_exists(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_topics, "LOOKUP_INTERVAL_S", 0.1)
    front, back = free_ports(2)
    proxy = SilentProxy(back, front)
    proxy.start()
    listeners: dict[str, Any] = {
        "listeners": f"PLAINTEXT://127.0.0.1:{back}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{front}",
    }
    proxy.tells.set()
    with (
        EmbeddedBroker(**listeners),
        apportion.Consumer(f"127.0.0.1:{front}", "g-mute", topics=["flihgts"]) as consumer,
    ):
        # a join waits for such an answer
        polled_until(consumer, lambda: consumer.session.status().epoch > 0)
        polled_until(consumer, lambda: "does not exist yet" in caplog.text)
        proxy.tells.clear()
        polled_until(consumer, proxy.is_asked.is_set)
        begun = time.monotonic()
        for _ in range(20):
            assert consumer.poll(10) == []
        assert time.monotonic() - begun < 5  # half of what a look may take
        assert consumer.session.status().epoch > 0
        proxy.tells.set()
        with closing(Cluster(f"127.0.0.1:{front}")) as asking:
            asking.create_topic("flihgts", 1)
        polled_until(consumer, lambda: "topic flihgts exists now" in caplog.text)


def test_a_topic_that_cannot_exist_is_refused_and_not_asked_for_again(cluster: Cluster) -> None:
    with pytest.raises(Refused) as refusal:
        cluster.topics(["no/name"])
    assert refusal.value.code is Code.INVALID_TOPIC_EXCEPTION
