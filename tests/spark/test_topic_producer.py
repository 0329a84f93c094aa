"""What the producer of a task does with records: on a broker in this process, without Spark."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.types import StructType

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.settings import declared
from apportion.spark.options.topic_write import LEVELS, ProducerOptions, TopicWriterOptions
from apportion.spark.topic_sink.producer import TopicProducer
from apportion.spark.topic_sink.records import NotWritten, OutgoingRecord
from apportion.spark.topic_sink.writer import batch_writer
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

OF_SEVEN = {
    "": 2,
    "0": 3,
    "1": 2,
    "2": 2,
    "_?": 3,
    "a": 5,
    "ab": 0,
    "abc": 4,
    "abcd": 5,
    "abcde": 4,
    "kafka": 3,
    "AA1141": 6,
    "flight-1": 0,
    "flight-2": 2,
    "é": 4,
    "日本": 1,
    "x" * 37: 3,
}
"""The partition, of seven, to which kafka-console-producer of Apache Kafka 4.3.1 sends each key;
`tests/kafka/test_topic_writer_on_kafka.py` asks it again.
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(broker: EmbeddedBroker) -> Iterator[Cluster]:
    made = Cluster(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[Callable[..., TopicProducer]]:
    """`producer(**options)`: one of its own; its look-ups end with the test."""
    made: list[TopicProducer] = []

    def start(bootstrap: str = broker.bootstrap, **options: str) -> TopicProducer:
        given = {"kafka.bootstrap.servers": bootstrap, **options}
        made.append(TopicProducer(TopicWriterOptions.parse(given)))
        return made[-1]

    yield start
    for each in made:
        each.close()


def record(topic: str, value: bytes | None = b"v", **others: Any) -> OutgoingRecord:
    return topic, others.get("partition", -1), others.get("key"), value, others.get("headers")


def read(config: dict[str, Any], topic: str, partitions: int) -> list[tuple[Any, ...]]:
    """Partition, key, value and headers of every record, by confluent-kafka's consumer."""
    own = {"group.id": "readers", "enable.auto.commit": False, "enable.partition.eof": True}
    reader = Consumer({**config, **own, "log_level": 0})
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = reader.poll(20)
        assert message is not None, "the topic has no end"
        if message.error():
            ended += 1
            continue
        found.append((message.partition(), message.key(), message.value(), message.headers()))
    reader.close()
    return sorted(found, key=lambda each: each[0])


def read_plain(broker: EmbeddedBroker, topic: str, partitions: int = 1) -> list[tuple[Any, ...]]:
    return read({"bootstrap.servers": broker.bootstrap}, topic, partitions)


def refusal(producer: TopicProducer, *records: OutgoingRecord) -> str:
    with pytest.raises(NotWritten) as refused:
        producer.write(records)
    return str(refused.value)


def test_records_arrive_as_they_are(
    broker: EmbeddedBroker, cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    cluster.create_topic("as-they-are", 2)
    cluster.create_topic("another", 1)
    headers = [("h", b"1"), ("h", None), ("é", b"")]
    writer = producer()
    records = [
        record("as-they-are", key=b"k", partition=1, headers=headers),
        record("as-they-are", None, key=b"gone", partition=1),
        record("as-they-are", b"", key=b"", partition=0, headers=[]),
        record("another"),
    ]
    assert writer.write(records) == 4
    assert read_plain(broker, "as-they-are", 2) == [
        (0, b"", b"", None),
        (1, b"k", b"v", headers),
        (1, b"gone", None, None),
    ]
    assert read_plain(broker, "another") == [(0, None, b"v", None)]
    # The next task of this worker uses the same producer.
    assert writer.write([record("another", b"w")]) == 1
    assert [value for _, _, value, _ in read_plain(broker, "another")] == [b"v", b"w"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_full_buffer_makes_the_task_wait(
    codec: str,
    broker: EmbeddedBroker,
    cluster: Cluster,
    producer: Callable[..., TopicProducer],
) -> None:
    topic = f"waited-for-{codec}"
    cluster.create_topic(topic, 1)
    writer = producer(
        **{
            "kafka.buffer.memory": "20000",
            "kafka.max.request.size": "10000",
            "kafka.compression.type": codec,
        }
    )
    values = [b"%06d" % number + b"." * 500 for number in range(2_000)]
    assert writer.write(record(topic, value) for value in values) == 2_000
    assert [value for _, _, value, _ in read_plain(broker, topic)] == values


def test_a_key_goes_where_kafkas_own_producer_puts_it(
    broker: EmbeddedBroker, cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    cluster.create_topic("by-key", 7)
    producer().write(record("by-key", key=key.encode()) for key in OF_SEVEN)
    found = {key.decode(): number for number, key, _, _ in read_plain(broker, "by-key", 7)}
    assert found == OF_SEVEN


def test_a_missing_topic_is_named_and_not_created(
    broker: EmbeddedBroker, cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    assert refusal(producer(), record("flihgts")) == (
        f"topic flihgts does not exist at {broker.bootstrap}, and a write creates none: is its "
        f"name right? `apportion topics create flihgts --bootstrap {broker.bootstrap}` creates it"
    )
    assert cluster.topics(["flihgts"], fresh=True).named("flihgts") is None


def test_a_deleted_topic_is_not_created_again(
    cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    cluster.create_topic("deleted", 1)
    writer = producer(**{"kafka.delivery.timeout.ms": "2000", "kafka.linger.ms": "0"})
    writer.write([record("deleted")])
    cluster.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="deleted"),), timeout_ms=5_000))
    assert refusal(writer, record("deleted")).startswith("topic deleted, partition 0: ")
    assert cluster.topics(["deleted"], fresh=True).named("deleted") is None


TOO_LARGE = (
    "MESSAGE_TOO_LARGE: A message exceeds the size that the broker accepts: raise "
    "max.message.bytes of the topic and kafka.max.request.size for large records, or lower "
    "kafka.batch.size for batches of small ones"
)
REFUSED: dict[str, tuple[dict[str, str] | None, dict[str, str], bytes, str]] = {
    "a b": (
        None,
        {},
        b"v",
        ": INVALID_TOPIC_EXCEPTION: topic 'a b': That is no valid topic for this operation.",
    ),
    "small": ({}, {"kafka.max.request.size": "2000"}, b"x" * 3_000, f": {TOO_LARGE}"),
    "tiny": ({"max.message.bytes": "1000"}, {}, b"x" * 3_000, f", partition 0: {TOO_LARGE}"),
    "compacted": (
        {"cleanup.policy": "compact"},
        {},
        b"v",
        ", partition 0: INVALID_RECORD: The broker does not accept one of the records: a compacted "
        "topic takes no record without a key: fill the column key; the log of the broker may say "
        "more",
    ),
}
"""By the topic's name: its configuration (None: it cannot be created), the options of the write,
the value of the record, and what is said after the name.
"""


@pytest.mark.parametrize("topic", REFUSED)
def test_a_record_that_cannot_be_written_is_named_with_the_remedy(
    topic: str, cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    config, options, value, said = REFUSED[topic]
    if config is not None:
        cluster.create_topic(topic, 1, config=config)
    assert refusal(producer(**options), record(topic, value)) == f"topic {topic}{said}"


def test_a_partition_is_refused_until_the_topic_has_it(
    broker: EmbeddedBroker, cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    cluster.create_topic("growing", 2)
    writer = producer(**{"kafka.metadata.max.age.ms": "100"})
    assert refusal(writer, record("growing", partition=2)) == (
        "topic growing: column partition is 2 in a row, and the topic has partitions 0 to 1: "
        "choose one of these, or add partitions"
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("growing", 3)])["growing"].result(10)
    assert producer().write([record("growing", partition=2)]) == 1


def test_records_that_wait_are_not_written_after_a_failure(
    broker: EmbeddedBroker, cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    cluster.create_topic("all-or-few", 1)
    writer = producer(**{"kafka.linger.ms": "900000", "kafka.delivery.timeout.ms": "1000000"})
    good = [record("all-or-few") for _ in range(10)]
    assert refusal(writer, *good, record("nowhere")).startswith("topic nowhere does not exist")
    assert read_plain(broker, "all-or-few") == []


def test_a_broker_that_does_not_answer_is_named(producer: Callable[..., TopicProducer]) -> None:
    away = producer("127.0.0.1:1", **{"kafka.delivery.timeout.ms": "300"})
    said = (
        "topic t: no broker of 127.0.0.1:1 has answered: no connection to the broker at "
        "127.0.0.1:1: Connection refused; see that a broker listens there and can be reached from "
        "this host, or give another kafka.bootstrap.servers"
    )
    assert refusal(away, record("t")) == said
    with pytest.raises(NotWritten) as refused:
        away.topics.require("t", is_patient=False)
    assert str(refused.value) == said


def test_a_record_that_nobody_acknowledges_ends_the_task(
    producer: Callable[..., TopicProducer], caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedBroker() as lost:
        cluster = Cluster(lost.bootstrap)
        cluster.create_topic("t", 1)
        cluster.close()
        writer = producer(lost.bootstrap, **{"kafka.delivery.timeout.ms": "2000"})
        writer.write([record("t")])
    assert refusal(writer, record("t")) == (
        "topic t, partition 0: _MSG_TIMED_OUT: not acknowledged within "
        "kafka.delivery.timeout.ms: see that the brokers run and that the topic has leaders, or "
        "raise the timeout"
    )
    # Once, however often the producer has tried to connect.
    assert caplog.messages == [f"no broker of {lost.bootstrap} can be reached: records wait"]


def test_a_worker_without_the_library_says_what_to_install(
    broker: EmbeddedBroker,
    producer: Callable[..., TopicProducer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)  # importing it fails
    said = (
        "writing to a topic needs the package confluent-kafka in the Python of the driver and of "
        "every executor: there, pip install '.[spark]' in a clone of apportion"
    )
    with pytest.raises(NotWritten) as in_a_task:
        producer()
    assert str(in_a_task.value) == said
    fields = StructType().add("value", "string").add("topic", "string")
    with pytest.raises(NotWritten) as in_the_plan:
        batch_writer({"kafka.bootstrap.servers": broker.bootstrap}, fields, overwrite=False)
    assert str(in_the_plan.value) == said


@pytest.mark.parametrize("bound", ["at_least", "at_most"])
def test_librdkafka_takes_every_number_that_an_option_takes(
    bound: str, broker: EmbeddedBroker, producer: Callable[..., TopicProducer]
) -> None:
    bounds = {
        name: str(getattr(setting, bound))
        for name, setting in declared(ProducerOptions).items()
        if setting.at_least is not None and not name.endswith(".level")
    }
    producer(**bounds)
    for codec, (least, most) in LEVELS.items():
        level = str(least if bound == "at_least" else most)
        named = {"kafka.compression.type": codec, f"kafka.compression.{codec}.level": level}
        producer(**named)
