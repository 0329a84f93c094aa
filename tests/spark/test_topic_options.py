"""The options of a write to a topic: defaults, what goes to librdkafka, and what is refused."""

from apportion.security.client_security import PLAINTEXT
from apportion.spark.options.topic_write import TopicWriterOptions

GOOD = {"kafka.bootstrap.servers": "h:9092"}
DEFAULTS: dict[str, str | int] = {
    "compression.type": "none",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "message.max.bytes": 1_048_576,
    "delivery.timeout.ms": 120_000,
    "request.timeout.ms": 30_000,
    "retries": 2_147_483_647,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000,
    "max.in.flight.requests.per.connection": 5,
    "topic.metadata.refresh.interval.ms": 300_000,
    "connections.max.idle.ms": 540_000,
    "queue.buffering.max.kbytes": 32_768,
}


def test_the_brokers_alone_are_enough() -> None:
    assert TopicWriterOptions.parse(GOOD) == TopicWriterOptions(
        bootstrap="h:9092",
        topic=None,
        client_id="apportion-spark-writer",
        security=PLAINTEXT,
        delivery_timeout_ms=120_000,
        request_timeout_ms=30_000,
        producer=tuple(DEFAULTS.items()),
    )


def test_settings_of_kafkas_producer_go_to_librdkafka() -> None:
    given = {
        "kafka.compression.type": "zstd",
        "kafka.compression.zstd.level": "3",
        "kafka.linger.ms": "50",
        "kafka.batch.size": "16384",
        "kafka.max.request.size": "2000000",
        "kafka.buffer.memory": "2000001",
        "kafka.acks": "-1",
        "kafka.enable.idempotence": "true",
        "kafka.delivery.timeout.ms": "20000",
        "kafka.request.timeout.ms": "25000",
        "kafka.retries": "7",
        "kafka.retry.backoff.ms": "10",
        "kafka.retry.backoff.max.ms": "20",
        "kafka.max.in.flight.requests.per.connection": "1",
        "kafka.metadata.max.age.ms": "1000",
        "kafka.connections.max.idle.ms": "0",
        "kafka.client.id": "etl",
        "topic": " flights ",
        # Spark hands its own option over, too.
        "checkpointLocation": "/checkpoints/v1",
    }
    parsed = TopicWriterOptions.parse(
        {name.lower(): value for name, value in {**GOOD, **given}.items()}
    )
    assert (parsed.topic, parsed.client_id) == ("flights", "etl")
    # A look-up takes no longer than a record may.
    assert (parsed.delivery_timeout_ms, parsed.request_timeout_ms) == (20_000, 20_000)
    assert dict(parsed.producer) == {
        "compression.type": "zstd",
        "compression.level": 3,
        "linger.ms": 50,
        "batch.size": 16_384,
        "message.max.bytes": 2_000_000,
        "delivery.timeout.ms": 20_000,
        "request.timeout.ms": 25_000,
        "retries": 7,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 20,
        "max.in.flight.requests.per.connection": 1,
        "topic.metadata.refresh.interval.ms": 1_000,
        "connections.max.idle.ms": 0,
        "queue.buffering.max.kbytes": 1_954,  # no less than the bytes
    }
