"""Readers of three foreign clients on a log that was cleaned: batches with holes, and one in which
nothing is left.
"""

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from apportion.server.embedded import EmbeddedBroker
from apportion.store.compact import CleanerPause, clean_log
from apportion.store.files import RealDisk
from apportion.store.log import Log
from apportion.store.settings import LogSettings
from apportion.wire.batch import decode_batch, read_header

SEGMENT_BYTES = 2_000
# every tombstone is older than the first; and how many records each part of the log has
LONG_AGO, AGES = 1 << 62, 100

pytestmark = [  # kafka-python's own doing
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Rows = list[tuple[int | None, bytes | None, bytes | None]]
"""Offset, key and value of each record."""


def wrote(bootstrap: str, records: list[tuple[bytes, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 7})
    for key, value in records:
        producer.produce("t", value, key)
    assert producer.flush(20) == 0


def clean(log: Log, disk: RealDisk) -> None:
    for pause in clean_log(log, log.next_offset, LONG_AGO):
        if pause is CleanerPause.FLUSH:
            disk.sync(log.take_unsynced_paths())
    disk.sync(log.take_unsynced_paths())


@pytest.fixture
def cleaned(tmp_path: Path) -> tuple[Path, dict[str, Any], str]:
    """A broker with a log whose first segment was cleaned of everything, or of most; and what is
    left of it.
    """
    settings: dict[str, Any] = {"log_segment_bytes": SEGMENT_BYTES}
    with EmbeddedBroker(tmp_path, **settings) as broker:
        wrote(broker.bootstrap, [(b"gone", b"%d" % n) for n in range(AGES)])
        wrote(broker.bootstrap, [(b"gone", None)] * AGES)
    disk = RealDisk(tmp_path)
    [directory] = (str(path.relative_to(tmp_path)) for path in tmp_path.glob("topics/*/t-0"))
    log = Log.open(disk, directory, LogSettings(segment_bytes=SEGMENT_BYTES))
    clean(log, disk)
    first = next(log.batches(0))
    assert (read_header(first).count, read_header(first).last_offset_delta > AGES) == (0, True)
    disk.close()
    with EmbeddedBroker(tmp_path, **settings) as broker:
        wrote(broker.bootstrap, [(b"key %d" % (n % 9), b"value %d" % n) for n in range(3 * AGES)])
        wrote(broker.bootstrap, [(b"end", b"end")])
    return tmp_path, settings, directory


@pytest.fixture(params=["nothing left at first", "holes"])
def served(
    request: pytest.FixtureRequest, cleaned: tuple[Path, dict[str, Any], str]
) -> Iterator[tuple[str, Rows]]:
    """Where the broker listens, and what a reader sees from the beginning on: offset, key and
    value.
    """
    data_dir, settings, directory = cleaned
    disk = RealDisk(data_dir)
    log = Log.open(disk, directory, LogSettings(segment_bytes=SEGMENT_BYTES))
    if request.param == "holes":
        clean(log, disk)
    left: Rows = [
        (each.offset, each.key, each.value)
        for batch in log.batches(0)
        for each in decode_batch(batch)
    ]
    assert [offset for offset, _, _ in left] != list(range(log.next_offset))
    disk.close()
    with EmbeddedBroker(data_dir, **settings) as broker:
        yield broker.bootstrap, left


def test_confluent_kafka_reads_what_is_left(served: tuple[str, Rows]) -> None:
    bootstrap, left = served
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r"})
    consumer.assign([TopicPartition("t", 0, 0)])
    read: Rows = []
    while len(read) < len(left):
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        read.append((message.offset(), message.key(), message.value()))
    consumer.close()
    assert read == left


def test_kafka_python_reads_what_is_left(served: tuple[str, Rows]) -> None:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as ClientPartition

    bootstrap, left = served
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=5000
        )
        consumer.assign([ClientPartition("t", 0)])
        consumer.seek_to_beginning(ClientPartition("t", 0))
        read = []
        for message in consumer:
            read.append((message.offset, message.key, message.value))
            if len(read) == len(left):
                break
        consumer.close()
    assert read == left


def test_aiokafka_reads_what_is_left(served: tuple[str, Rows]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as ClientPartition

    bootstrap, left = served

    async def read() -> Rows:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([ClientPartition("t", 0)])
        received = [await asyncio.wait_for(consumer.getone(), 10) for _ in left]
        await consumer.stop()
        return [(each.offset, each.key, each.value) for each in received]

    assert asyncio.run(read()) == left
