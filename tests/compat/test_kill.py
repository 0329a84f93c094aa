"""SIGKILL of the broker under load, again and again: nothing that it acknowledged is lost or
doubled.
"""

import os
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from tests.compat.conftest import Served


KILLS = int(os.environ.get("APPORTION_KILLS", "20"))
SEED = int(os.environ.get("APPORTION_KILLS_SEED", "20"))

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Load:
    """An idempotent producer and a committer, each on a thread of its own, that write down what
    they were told.
    """

    def __init__(self, bootstrap: str) -> None:
        self.stop = threading.Event()
        self.acknowledged: dict[tuple[int, int], bytes] = {}  # (partition, offset) -> value
        self.failed: list[Any] = []
        self.committed = 0
        self._bootstrap = bootstrap
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._commit)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(error)
            else:
                self.acknowledged[message.partition(), message.offset()] = message.value()

        number = 0
        while not self.stop.is_set():
            producer.produce(
                "t", b"%d" % number, key=b"%d" % (number % 11), on_delivery=on_delivery
            )
            number += 1
            producer.poll(0)
            time.sleep(0.0005)
        assert producer.flush(30) == 0

    def _commit(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "committer",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        offset = 1
        while not self.stop.is_set():
            try:
                consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
                self.committed = offset
                offset += 1
            except Exception:  # the broker is dead at the moment
                time.sleep(0.02)
        consumer.close()


def test_twenty_kills_lose_and_double_nothing(served: "Served") -> None:
    chance = random.Random(SEED)
    reader = {
        "bootstrap.servers": served.bootstrap,
        "group.id": "committer",
        "enable.auto.commit": False,
    }
    with Load(served.bootstrap) as load:
        for _ in range(KILLS):
            before = len(load.acknowledged), load.committed
            deadline = time.monotonic() + 30
            while len(load.acknowledged) <= before[0] or load.committed <= before[1]:
                assert time.monotonic() < deadline, (
                    f"no progress after a kill: {before}; {served.log()}"
                )
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.3))
            served.kill()
            served.start()
    assert load.failed == []
    consumer = Consumer(reader)
    offset = consumer.committed([TopicPartition("t", 0)], timeout=20)[0].offset
    assert load.committed <= offset <= load.committed + 1
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(3)])
    stored: dict[Any, bytes | None] = {}
    while len(stored) < len(load.acknowledged):
        message = consumer.poll(10)
        assert message is not None, f"{len(stored)} of {len(load.acknowledged)} records are there"
        assert message.error() is None
        stored[message.partition(), message.offset()] = message.value()
    consumer.close()
    assert load.acknowledged.items() <= stored.items()
    values = list(stored.values())
    assert len(values) == len(set(values))
