"""Foreign clients on our secured broker: every way in, what they need of ACLs, and what they are
told without.
"""

import asyncio
import ssl
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from apportion.security.acls import ResourceType
from tests.certificates import Authority
from tests.compat.java.history import until
from tests.compat.java.jvm import Jvm, classic, modern
from tests.compat.secured import (
    LIFETIME_S,
    LISTENERS,
    WAYS,
    SecuredBroker,
    Way,
    confluent_options,
    grants,
    java_options,
    python_options,
)
from tests.node.acl_requests import acl
from tests.server.secured import token

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka.net.sasl.oauth import AbstractTokenProvider

    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [  # kafka-python's own doing
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FLIGHTS, GROUPS = "flights", "readers-"
DEADLINE_S = 30
PLAIN = Way("BARE", "PLAIN")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    made = SecuredBroker(tmp_path_factory.mktemp("secured"))
    made.admin.create_topic(FLIGHTS, 1)
    made.allow(*grants(FLIGHTS, GROUPS))
    yield made
    made.close()


def one_way(broker: SecuredBroker, way: Way, client: str) -> tuple[str, bytes]:
    """A group and a record of their own."""
    return f"{GROUPS}{client}-{way}", f"{client} by {way}".encode()


@pytest.mark.parametrize(
    ("way", "protocol"), [*zip(WAYS, ("classic", "consumer") * 3, strict=True)], ids=str
)
def test_confluent_kafka_produces_and_reads_in_a_group(
    broker: SecuredBroker, way: Way, protocol: str
) -> None:
    group, value = one_way(broker, way, "confluent")
    options = confluent_options(broker, way)
    producer = Producer(options | {"enable.idempotence": True})
    producer.produce(FLIGHTS, value)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer(
        options | {"group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol}
    )
    consumer.subscribe([FLIGHTS])
    read: list[bytes] = []
    give_up = time.monotonic() + DEADLINE_S
    while value not in read:
        assert time.monotonic() < give_up
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            read.append(message.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
    """Tokens for kafka-python."""

    def token(self) -> str:
        return token(LIFETIME_S)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_kafka_python_produces_and_reads_in_a_group(broker: SecuredBroker, way: Way) -> None:
    group, value = one_way(broker, way, "kafka-python")
    options = python_options(broker, way, Provider())
    if LISTENERS[way.listener].endswith("SSL"):
        options["ssl_cafile"] = broker.ca
    if way.listener == "MTLS":
        options |= {"ssl_certfile": broker.certificate, "ssl_keyfile": broker.key}
    producer = KafkaProducer(**options)
    producer.send(FLIGHTS, value).get(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(
        FLIGHTS,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=1000 * DEADLINE_S,
        **options,
    )
    assert any(record.value == value for record in consumer)
    consumer.commit()
    consumer.close()


class AioProvider(AioTokenProvider):  # type: ignore[misc]  # it has no types
    """Tokens for aiokafka."""

    async def token(self) -> str:
        return token(LIFETIME_S)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_aiokafka_produces_and_reads_in_a_group(broker: SecuredBroker, way: Way) -> None:
    group, value = one_way(broker, way, "aiokafka")

    async def run() -> None:
        options = python_options(broker, way, AioProvider())
        if LISTENERS[way.listener].endswith("SSL"):
            context = options["ssl_context"] = ssl.create_default_context(cafile=broker.ca)
            if way.listener == "MTLS":
                context.load_cert_chain(broker.certificate, broker.key)
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(FLIGHTS, value)
        async with AIOKafkaConsumer(
            FLIGHTS, group_id=group, auto_offset_reset="earliest", **options
        ) as consumer:
            while (await consumer.getone()).value != value:
                pass
            await consumer.commit()

    within(run)


def within(run: Callable[[], Awaitable[None]]) -> None:
    """It has ended in time."""

    async def limited() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await run()

    asyncio.run(limited())


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_java_produces_and_reads_in_a_group(
    broker: SecuredBroker, shared_jvm: Jvm, way: Way
) -> None:
    group, _ = one_way(broker, way, "java")
    options, bootstrap = java_options(broker, way), broker.addresses[way.listener]
    writer = shared_jvm.produce(f"writer {way}", bootstrap, FLIGHTS, 10, config=options)
    until(lambda: writer.events_of("closed"), "the producer is done")
    assert len(writer.records) == 10
    config = (classic("range") if way.mechanism else modern()) | options
    reader = shared_jvm.join(f"reader {way}", bootstrap, group, [FLIGHTS], config)
    until(lambda: set(writer.records) <= set(reader.records), "the reader has all")
    reader.leave()


def test_confluent_kafka_is_told_what_it_may_not_do(broker: SecuredBroker) -> None:
    options = confluent_options(broker, PLAIN, "mallory")
    errors: list[Any] = []
    producer = Producer(options)
    producer.produce(FLIGHTS, b"x", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert [error.code() for error in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    consumer = Consumer(options | {"group.id": "readers-of-mallory"})
    consumer.subscribe([FLIGHTS])
    assert next_error(consumer) == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


def next_error(consumer: Consumer) -> int:
    """The code of the next error; records that come before it are skipped."""
    give_up = time.monotonic() + DEADLINE_S
    while True:
        assert time.monotonic() < give_up
        message = consumer.poll(1)
        if message is not None and (error := message.error()) is not None:
            return int(error.code())


@pytest.mark.parametrize(
    ("has_certificate", "alert"),
    [(False, "alert certificate required"), (True, "alert unknown ca")],
)
def test_confluent_kafka_is_told_what_is_wrong_with_its_certificate(
    broker: SecuredBroker, has_certificate: bool, alert: str
) -> None:
    errors: list[KafkaError] = []
    options = confluent_options(broker, Way("MTLS")) | {"error_cb": errors.append}
    del options["ssl.certificate.location"], options["ssl.key.location"]
    if has_certificate:
        mallory = Authority("another CA").issue("mallory")
        options["ssl.certificate.pem"] = mallory.chain_pem()
        options["ssl.key.pem"] = mallory.key_pem()
    producer = Producer(options)
    until(lambda: producer.poll(0.1) or errors, "an error")
    assert alert in errors[0].str()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_that_loses_its_acl_is_told_so_and_reads_on_when_it_has_it_again(
    broker: SecuredBroker, protocol: str
) -> None:
    topic = f"lost-{protocol}"
    broker.admin.create_topic(topic, 1)
    broker.allow(*grants(topic, "lost-"))
    options = confluent_options(broker, PLAIN)
    consumer = Consumer(
        options
        | {
            "group.id": f"lost-{protocol}",
            "auto.offset.reset": "earliest",
            "group.protocol": protocol,
        }
    )
    consumer.subscribe([topic])
    producer = Producer(options)

    def reads(value: bytes) -> list[int]:
        """The codes of the errors until the value comes."""
        producer.produce(topic, value)
        assert producer.flush(DEADLINE_S) == 0
        codes: list[int] = []
        give_up = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < give_up, codes
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                codes.append(error.code())
            elif message.value() == value:
                return codes

    assert reads(b"before") == []
    broker.forbid(ResourceType.TOPIC, topic)
    assert next_error(consumer) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    broker.allow(*grants(topic, "lost-"))
    assert set(reads(b"after")) <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    broker.forbid(ResourceType.GROUP, "lost-")
    if protocol == "consumer":  # librdkafka ends such a member at its next heartbeat
        assert next_error(consumer) == KafkaError._FATAL
    else:
        with pytest.raises(KafkaException) as refused:
            consumer.commit(asynchronous=False)
        assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        broker.allow(acl(f"lost-{protocol}", resource_type=ResourceType.GROUP))
        consumer.commit(asynchronous=False)
    consumer.close()
