"""Producers of three foreign clients: everything that they were told is stored is there once, and
in order.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from tests.compat.conftest import Served


pytestmark = [  # kafka-python's own doing
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COUNT = 500
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def read_all(bootstrap: str, topic: str, count: int) -> dict[int, list[Any]]:
    """Every record of the topic, by partition: offset, key, value, headers."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    stored: dict[Any, list[Any]] = {partition: [] for partition in partitions}
    while sum(map(len, stored.values())) < count:
        message = consumer.poll(10)
        assert message is not None, f"{sum(map(len, stored.values()))} of {count} records came"
        assert message.error() is None
        stored[message.partition()].append(
            (message.offset(), message.key(), message.value(), message.headers())
        )
    assert consumer.poll(0.2) is None
    consumer.close()
    return stored


def check(stored: dict[int, list[Any]], sent: list[tuple[bytes, bytes]]) -> None:
    """`found` holds what was sent, once, at offsets without a gap, each key in the order of its
    sending.
    """
    for records in stored.values():
        assert [offset for offset, *_ in records] == list(range(len(records)))
        values = [int(value) for _, _, value, _ in records]
        assert values == sorted(values)
    assert sorted(
        (key, value) for records in stored.values() for _, key, value, _ in records
    ) == sorted(sent)


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_produces(served: "Served", codec: str, idempotent: bool) -> None:
    producer = Producer(
        {
            "bootstrap.servers": served.bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 2,
            "queue.buffering.max.messages": 1000,
        }
    )
    delivered = []
    sent = [(b"k%d" % (n % 7), b"%d" % n) for n in range(COUNT)]
    for key, value in sent:
        producer.produce(
            "t",
            value,
            key,
            headers={"h": b"1"},
            on_delivery=lambda error, message: delivered.append(error),
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    assert delivered == [None] * COUNT
    stored = read_all(served.bootstrap, "t", COUNT)
    check(stored, sent)
    assert {headers[0] for records in stored.values() for *_, headers in records} == {("h", b"1")}


@pytest.mark.parametrize("acks", [0, 1])
def test_confluent_kafka_produces_with_fewer_acks(served: "Served", acks: int) -> None:
    producer = Producer({"bootstrap.servers": served.bootstrap, "acks": acks})
    sent = [(b"k", b"%d" % n) for n in range(COUNT)]
    for key, value in sent:
        producer.produce("t", value, key)
    assert producer.flush(30) == 0
    check(read_all(served.bootstrap, "t", COUNT), sent)


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", [None, "gzip"])  # those that need no further package
def test_kafka_python_produces(served: "Served", codec: str | None, idempotent: bool) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=served.bootstrap,
        compression_type=codec,
        enable_idempotence=idempotent,
        linger_ms=2,
    )
    sent = [(b"k%d" % (n % 7), b"%d" % n) for n in range(COUNT)]
    futures = [producer.send("t", value, key) for key, value in sent]
    delivered = [future.get(30) for future in futures]
    producer.close()
    stored = read_all(served.bootstrap, "t", COUNT)
    check(stored, sent)
    positions = [(each.partition, each.offset) for each in delivered]
    assert sorted(positions) == sorted(
        (partition, offset) for partition, records in stored.items() for offset, *_ in records
    )


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_aiokafka_produces(served: "Served", codec: str | None, idempotent: bool) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> list[Any]:
        producer = AIOKafkaProducer(
            bootstrap_servers=served.bootstrap,
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=2,
        )
        await producer.start()
        waiting = [await producer.send("t", value, key) for key, value in sent]
        delivered = [await each for each in waiting]
        await producer.stop()
        return delivered

    sent = [(b"k%d" % (n % 7), b"%d" % n) for n in range(COUNT)]
    delivered = asyncio.run(produce())
    assert len(delivered) == COUNT
    check(read_all(served.bootstrap, "t", COUNT), sent)


def test_a_transactional_producer_is_told_at_once_that_there_are_no_transactions(
    served: "Served",
) -> None:
    from confluent_kafka import KafkaException

    producer = Producer({"bootstrap.servers": served.bootstrap, "transactional.id": "t"})
    with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.init_transactions(10)
