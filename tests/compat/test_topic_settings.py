"""Topics with settings as foreign clients make and read them, and as our own consumer does."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

import apportion

if TYPE_CHECKING:
    from apportion.member.records.fetch_buffer import ConsumerRecord
    from tests.compat.conftest import Served


LONG_AGO_MS = 1_000_000_000_000


def made(bootstrap: str, name: str, **config: Any) -> None:
    """The topic is there, with one partition and these settings, dots as underscores."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(10)


def delivered(bootstrap: str, topic: str, *keys: bytes | None, **config: Any) -> list[Any]:
    """What librdkafka reports for a record of each key that it sends in one batch: the error, or
    none.
    """
    reports = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 200, **config})
    for key in keys:
        producer.produce(
            topic,
            b"v",
            key=key,
            timestamp=LONG_AGO_MS,
            on_delivery=lambda error, message: reports.append(error),
        )
    assert producer.flush(20) == 0
    return [error and error.code() for error in reports]


def timestamps(bootstrap: str, topic: str, count: int) -> tuple[list[tuple[int, int]], int]:
    """Type and time of so many records, as librdkafka reads them; and where the first moment finds
    them.
    """
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": "r"})
    consumer.assign([ClientPartition(topic, 0, 0)])
    results = [consumer.poll(10).timestamp() for _ in range(count)]
    [at] = consumer.offsets_for_times([ClientPartition(topic, 0, LONG_AGO_MS + 1)], 10)
    consumer.close()
    return results, at.offset


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_reads_the_time_of_the_append(served: "Served", codec: str) -> None:
    began_ms = time.time() * 1000
    made(served.bootstrap, "appended", message_timestamp_type="LogAppendTime")
    made(served.bootstrap, "created")
    for topic in ("appended", "created"):
        assert delivered(served.bootstrap, topic, b"a", b"b", **{"compression.type": codec}) == [
            None,
            None,
        ]
    typed_times, at = timestamps(served.bootstrap, "appended", 2)
    assert [kind for kind, _ in typed_times] == [TIMESTAMP_LOG_APPEND_TIME] * 2
    assert all(began_ms - 1 <= moment <= time.time() * 1000 for _, moment in typed_times)
    assert at == 0
    assert timestamps(served.bootstrap, "created", 2) == (
        [(TIMESTAMP_CREATE_TIME, LONG_AGO_MS)] * 2,
        -1,
    )


def test_librdkafka_reports_records_without_a_key_to_a_compacted_topic(served: "Served") -> None:
    made(served.bootstrap, "keyed", cleanup_policy="compact")
    assert delivered(served.bootstrap, "keyed", b"a", b"b") == [None, None]
    assert delivered(served.bootstrap, "keyed", None) == [KafkaError.INVALID_RECORD]


def test_librdkafka_is_told_which_setting_is_not_there(served: "Served") -> None:
    with pytest.raises(KafkaException) as refused:
        made(served.bootstrap, "tiered", remote_storage_enable="true")
    error = refused.value.args[0]
    assert (error.code(), error.str()) == (
        KafkaError.INVALID_CONFIG,
        "remote.storage.enable has to be its default, false: tiered storage is not there yet",
    )


def test_our_own_consumer_reads_the_time_of_the_append(served: "Served") -> None:
    began_ms = time.time() * 1000
    made(served.bootstrap, "appended", message_timestamp_type="LogAppendTime")
    delivered(served.bootstrap, "appended", b"a", b"b")
    with closing(
        apportion.Consumer(
            served.bootstrap, group_id="g", topics=["appended"], auto_offset_reset="earliest"
        )
    ) as consumer:
        records: list[ConsumerRecord] = []
        while len(records) < 2:
            records += consumer.poll(10_000)
    assert all(began_ms - 1 <= record.timestamp_ms <= time.time() * 1000 for record in records)
