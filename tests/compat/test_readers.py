"""Readers of three foreign clients that are told their partitions: they see what was produced, from
where they were told to.
"""

import asyncio
import warnings
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from apportion.broker import EmbeddedBroker
from apportion.wire.absent_apis import ABSENT_APIS
from apportion.wire.table import APIS

if TYPE_CHECKING:
    from tests.compat.conftest import Served


COUNT = 300
DESCRIBE_LOG_DIRS = next(key for key, name in ABSENT_APIS.items() if name == "DescribeLogDirs")

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


def test_kafka_python_takes_this_broker_for_4_2(served: "Served") -> None:
    """Its one sign of 4.3 and newer is DescribeLogDirs 5, which is absent here."""
    from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions

    from kafka import KafkaConsumer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        consumer = KafkaConsumer(bootstrap_servers=served.bootstrap)
        taken = consumer.config["api_version"]
        consumer.close()
    advertised = {api.key: (api.versions[0], api.versions[-1]) for api in APIS.values()}
    with_log_dirs = advertised | {DESCRIBE_LOG_DIRS: (1, 5)}
    assert (taken, infer_broker_version_from_api_versions(with_log_dirs)) == ((4, 2), (4, 3))


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


def offsets_to_the_end(bootstrap: str) -> list[int]:
    """The offsets of the only partition of `__consumer_offsets`, as far as its end is announced."""
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "exporter", "enable.partition.eof": True}
    )
    reader.assign([TopicPartition("__consumer_offsets", 0, 0)])
    found = []
    while (message := reader.poll(10)) is not None and message.error() is None:
        found.append(message.offset() or 0)
    error = None if message is None else message.error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF
    _, end = reader.get_watermark_offsets(TopicPartition("__consumer_offsets", 0))
    reader.close()
    # Exporters of lag wait for the record before the high watermark.
    assert found[-1] == end - 1
    return found


def test_an_exporter_reads_the_cleaned_offsets_topic_to_its_end() -> None:
    with EmbeddedBroker(
        offsets_topic_num_partitions=1, offsets_topic_segment_bytes=20_000
    ) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(10)
        member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        commits, left = 0, list[int]()
        # Until something was cleaned away.
        while len(left) >= commits:
            for offset in range(commits, commits + 300):
                member.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
            commits += 300
            left = offsets_to_the_end(broker.bootstrap)
        member.close()
