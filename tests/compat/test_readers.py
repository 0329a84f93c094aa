"""Readers of three foreign clients that are told their partitions: they see what was produced, from
where they were told to.
"""

import asyncio
import warnings
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

if TYPE_CHECKING:
    from tests.compat.conftest import Served


COUNT = 300

pytestmark = [  # kafka-python's own doing
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def filled(served: "Served") -> "Served":
    """A broker with one partition of `t` that holds the numbers up to COUNT, each with its own
    time.
    """
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(10)
    producer = Producer({"bootstrap.servers": served.bootstrap, "batch.num.messages": 10})
    for n in range(COUNT):
        producer.produce("t", b"%d" % n, timestamp=1_700_000_000_000 + n)
    assert producer.flush(20) == 0
    return served


NUMBERS = [b"%d" % n for n in range(COUNT)]


def test_confluent_kafka_reads(filled: "Served") -> None:
    consumer = Consumer(
        {"bootstrap.servers": filled.bootstrap, "group.id": "r", "fetch.message.max.bytes": 1000}
    )
    at_time = consumer.offsets_for_times([TopicPartition("t", 0, 1_700_000_000_000 + 77)], 10)
    assert at_time[0].offset == 77
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=10) == (0, COUNT)
    consumer.assign([TopicPartition("t", 0, 0)])
    read: list[bytes | None] = []
    while len(read) < COUNT:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert read == NUMBERS


def test_kafka_python_reads(filled: "Served") -> None:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as ClientPartition

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        consumer = KafkaConsumer(
            bootstrap_servers=filled.bootstrap, group_id=None, consumer_timeout_ms=5000
        )
        consumer.assign([ClientPartition("t", 0)])
        consumer.seek_to_beginning(ClientPartition("t", 0))
        read = []
        for message in consumer:
            read.append(message.value)
            if len(read) == COUNT:
                break
        assert (
            consumer.offsets_for_times({ClientPartition("t", 0): 1_700_000_000_000 + 77})[
                ClientPartition("t", 0)
            ].offset
            == 77
        )
        consumer.close()
    assert read == NUMBERS


def test_aiokafka_reads(filled: "Served") -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as ClientPartition

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=filled.bootstrap, group_id=None, auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([ClientPartition("t", 0)])
        values = [(await asyncio.wait_for(consumer.getone(), 10)).value for _ in range(COUNT)]
        await consumer.stop()
        return values

    assert asyncio.run(read()) == NUMBERS


def test_confluent_kafka_administers(filled: "Served") -> None:
    admin = AdminClient({"bootstrap.servers": filled.bootstrap})
    admin.create_partitions([NewPartitions("t", 4)])["t"].result(10)
    assert len(admin.list_topics(timeout=10).topics["t"].partitions) == 4
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
    assert (
        admin.describe_configs([resource])[resource].result(10)["cleanup.policy"].value == "delete"
    )
    cluster = admin.describe_cluster().result(10)
    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [
        (1, filled.bootstrap)
    ]
    admin.delete_topics(["t"])["t"].result(10)
    assert "t" not in admin.list_topics(timeout=10).topics
