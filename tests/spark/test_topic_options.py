"""The options of a write to a topic: defaults, what goes to librdkafka, and what is refused."""

import pickle

import pytest

from apportion.security.client_security import PLAINTEXT, ClientSecurity, PasswordLogin
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.options.values import OptionError

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


def refusal(**options: str) -> str:
    with pytest.raises(OptionError) as refused:
        TopicWriterOptions.parse({**GOOD, **options})
    return str(refused.value)


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


def test_a_writers_login_goes_to_executors_and_into_no_repr() -> None:
    options = TopicWriterOptions.parse(
        {
            **GOOD,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
            'required username="alice" password="a-secret";',
        }
    )
    assert options.security == ClientSecurity(login=PasswordLogin("PLAIN", "alice", "a-secret"))
    assert pickle.loads(pickle.dumps(options)) == options
    assert "a-secret" not in repr(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"kafka.bootstrap.servers": " "},
            "option kafka.bootstrap.servers is missing: give the brokers as host:port with commas "
            'between, as in .option("kafka.bootstrap.servers", "...").',
        ),
        (
            {"kafka.bootstrap.servers": "h"},
            "option kafka.bootstrap.servers: bootstrap server 'h' is not host:port; write each "
            "broker as host:port.",
        ),
        ({"topic": " "}, "option topic is empty: give a name, or leave it out."),
        (
            {"kafka.acks": "1"},
            "option kafka.acks is '1': give all or -1: with less, a record could be lost after it "
            "was taken for written.",
        ),
        (
            {"kafka.enable.idempotence": "false"},
            "option kafka.enable.idempotence is 'false': give true: without it, a request that is "
            "sent again could write twice, or in another order.",
        ),
        (
            {"kafka.compression.type": "brotli"},
            "option kafka.compression.type is 'brotli': give none or gzip or snappy or lz4 or "
            "zstd.",
        ),
        (
            {"kafka.compression.gzip.level": "3"},
            "option kafka.compression.gzip.level says nothing while kafka.compression.type is "
            "none: drop it.",
        ),
        (
            {"kafka.linger.ms": "soon"},
            "option kafka.linger.ms is 'soon': give a whole number from 0 to 900000.",
        ),
        (
            {"kafka.max.in.flight.requests.per.connection": "6"},
            "option kafka.max.in.flight.requests.per.connection is '6': give a whole number from "
            "1 to 5.",
        ),
        (
            {"kafka.buffer.memory": "1000000"},
            "option kafka.max.request.size is 1048576, more than kafka.buffer.memory, which is "
            "1000000: lower the one or raise the other.",
        ),
        (
            {"kafka.transactional.id": "x"},
            "option kafka.transactional.id cannot be used: writes are not "
            "transactional: they are at least once; drop the option.",
        ),
        (
            {"kafka.partitioner.class": "x"},
            "option kafka.partitioner.class cannot be used: records with a key go "
            "where Kafka's own partitioner puts them; give a column partition to put them "
            "elsewhere.",
        ),
        (
            {"path": "flights"},
            "option path cannot be used: a topic is no path; give its name as option topic.",
        ),
        (
            {"startingoffsets": "x"},
            "option startingOffsets cannot be used: it is for reading; drop the option.",
        ),
        (
            {"kafka.fetch.min.bytes": "1"},
            "option kafka.fetch.min.bytes cannot be used: it is for reading; drop the option.",
        ),
        (
            {"kafka.group.id": "x"},
            "option kafka.group.id cannot be used: it is for reading; drop the option.",
        ),
        (
            {"kafka.lingerms": "5"},
            "option kafka.lingerms is unknown (Spark hands names over in lower case): did you mean "
            "kafka.linger.ms?",
        ),
        (
            {"kafka.ssl.keystore.locations": "x"},
            "option kafka.ssl.keystore.locations is not known: did you mean "
            "kafka.ssl.keystore.location?",
        ),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.enabled.protocols": "TLSv1.3"},
            "option kafka.ssl.enabled.protocols cannot be used for writing: librdkafka offers "
            "TLSv1.2 and TLSv1.3; drop the option.",
        ),
    ],
)
def test_a_wrong_option_of_a_write_is_refused(options: dict[str, str], said: str) -> None:
    assert refusal(**options) == said


def test_a_wrong_login_of_a_write_is_refused_without_its_text() -> None:
    said = refusal(
        **{
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": "a-secret",
        }
    )
    assert said.startswith("option kafka.sasl.jaas.config ")
    assert "a-secret" not in said
