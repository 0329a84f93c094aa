"""Rows written to topics of a real Kafka: by Spark, and by the producer of its tasks alone."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from apportion.client.cluster import Cluster
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.topic_sink.producer import TopicProducer
from apportion.testing.kafka import RealKafka
from tests.kafka.java import tool_command
from tests.kafka.secured import PASSWORD, SCRAM, Secured
from tests.spark.secrets import settings
from tests.spark.test_secured_writer import (  # the same scenario, on the `guarded` of this module
    TOPIC,
    Guarded,
    test_a_secured_write_leaves_no_password,
)
from tests.spark.test_topic_producer import OF_SEVEN, read, record, refusal

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


@pytest.fixture
def guarded(secured: Secured) -> Guarded:
    cluster = Cluster(secured.broker.bootstrap)
    cluster.create_topic(TOPIC, 1)
    cluster.close()
    options = {
        "kafka.bootstrap.servers": secured.broker.addresses["SASL"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": secured.ca,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM} username="alice" password="{PASSWORD}";',
    }
    return Guarded(options, PASSWORD, {"bootstrap.servers": secured.broker.bootstrap})


@pytest.fixture
def cluster(kafka: RealKafka) -> Iterator[Cluster]:
    made = Cluster(kafka.bootstrap)
    yield made
    made.close()


@pytest.fixture
def producer(kafka: RealKafka) -> Iterator[Callable[..., TopicProducer]]:
    """`producer(**options)`: one of its own; its look-ups end with the test."""
    made: list[TopicProducer] = []

    def start(**options: str) -> TopicProducer:
        given = {"kafka.bootstrap.servers": kafka.bootstrap, **options}
        made.append(TopicProducer(TopicWriterOptions.parse(given)))
        return made[-1]

    yield start
    for each in made:
        each.close()


def by_key(kafka: RealKafka, topic: str) -> dict[str, int]:
    """The partition of each key of a topic with seven."""
    found = read({"bootstrap.servers": kafka.bootstrap}, topic, 7)
    return {key.decode(): number for number, key, _, _ in found}


def test_a_key_goes_where_the_console_producer_puts_it(
    kafka: RealKafka,
    cluster: Cluster,
    producer: Callable[..., TopicProducer],
    tools: Path,
) -> None:
    theirs, ours = (f"by-key-{uuid4().hex[:8]}" for _ in range(2))
    cluster.create_topic(theirs, 7)
    cluster.create_topic(ours, 7)
    keys = [*OF_SEVEN, *(f"flight-{number}" for number in range(100, 1_100))]
    given = ["--bootstrap-server", kafka.bootstrap, "--topic", theirs]
    given += ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
    subprocess.run(
        tool_command(tools, CONSOLE_PRODUCER, *given),
        input="".join(f"{key}|v\n" for key in keys).encode(),
        capture_output=True,
        timeout=300,
        check=True,
    )
    producer().write(record(ours, key=key.encode()) for key in keys)
    placed = by_key(kafka, theirs)
    assert by_key(kafka, ours) == placed
    assert {key: placed[key] for key in OF_SEVEN} == OF_SEVEN


@pytest.mark.parametrize(
    ("config", "value", "said"),
    [
        (
            {"max.message.bytes": "1000"},
            b"x" * 3_000,
            "MESSAGE_TOO_LARGE: A message exceeds the size that the broker accepts: raise "
            "max.message.bytes of the topic and kafka.max.request.size for large records, or lower "
            "kafka.batch.size for batches of small ones",
        ),
        (
            {"cleanup.policy": "compact"},
            b"x",
            "INVALID_RECORD: The broker does not accept one of the records: a compacted topic "
            "takes no record without a key: fill the column key; the log of the broker may say "
            "more",
        ),
    ],
)
def test_a_record_that_kafka_does_not_take_is_named(
    config: dict[str, str],
    value: bytes,
    said: str,
    cluster: Cluster,
    producer: Callable[..., TopicProducer],
) -> None:
    topic = f"picky-{uuid4().hex[:8]}"
    cluster.create_topic(topic, 1, config=config)
    assert refusal(producer(), record(topic, value)) == f"topic {topic}, partition 0: {said}"


def test_a_write_creates_no_topic_on_kafka(
    kafka: RealKafka, cluster: Cluster, producer: Callable[..., TopicProducer]
) -> None:
    topic = f"missing-{uuid4().hex[:8]}"
    assert refusal(producer(), record(topic)) == (
        f"topic {topic} does not exist at {kafka.bootstrap}, and a write creates none: is its "
        f"name right? `apportion topics create {topic} --bootstrap {kafka.bootstrap}` creates it"
    )
    assert cluster.topics([topic], fresh=True).named(topic) is None


def test_a_topic_that_kafka_denies_is_named(secured: Secured) -> None:
    login: dict[str, Any] = {
        "kafka.bootstrap.servers": secured.broker.addresses["BARE"],
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        f'required username="bob" password="{PASSWORD}";',
    }
    bob = TopicProducer(TopicWriterOptions.parse(login))
    try:
        assert refusal(bob, record("flights")) == (
            "topic flights: TOPIC_AUTHORIZATION_FAILED: this client's principal has no permission "
            "for WRITE on the topic 'flights'; "
            "a user who may alter the cluster gives it by `apportion acls add "
            "--allow-principal User:NAME --operation Write --topic flights`"
        )
    finally:
        bob.close()
