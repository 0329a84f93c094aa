"""Foreign clients log in to our broker: confluent-kafka, kafka-python and aiokafka."""

import asyncio
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.server.secured import (
    MECHANISMS,
    PASSWORD,
    SETTINGS,
    Log,
    Secured,
    logged,
    running,
    token,
)

# it reads its schemas in an old way
with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka.net.sasl.oauth import AbstractTokenProvider

    from kafka import KafkaProducer

SESSION_MS = 1_500


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with running(SETTINGS | {"connections.max.reauth.ms": SESSION_MS}) as secured:
        yield secured


@pytest.fixture
def log(secured: Secured) -> Iterator[Log]:
    with logged(secured) as log:
        yield log


def confluent_options(secured: Secured, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap.servers": secured.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return options | {"oauth_cb": lambda _config: (token(), time.time() + 600)}
    return options | {"sasl.username": "alice", "sasl.password": password}


def test_confluent_kafka_logs_in_and_stays(secured: Secured, log: Log) -> None:
    delivered: list[tuple[str, Any]] = []
    producers = {each: Producer(confluent_options(secured, each)) for each in MECHANISMS}
    ends_at = time.monotonic() + 2 * SESSION_MS / 1000
    while time.monotonic() < ends_at:
        for mechanism, producer in producers.items():
            producer.produce("t", b"x", on_delivery=partial(seen, delivered, mechanism))
            producer.poll(0.01)
    assert [producer.flush(20) for producer in producers.values()] == [0] * len(producers)
    assert set(delivered) == {(mechanism, None) for mechanism in MECHANISMS}
    # They have authenticated again in time: no session was ended.
    assert log.messages.empty()


def seen(delivered: list[tuple[str, Any]], mechanism: str, error: Any, _message: Any) -> None:
    delivered.append((mechanism, error))


def test_confluent_kafka_hears_of_a_wrong_password(secured: Secured, log: Log) -> None:
    errors: list[Any] = []
    wrong = confluent_options(secured, "SCRAM-SHA-512", "wrong")
    admin = AdminClient(wrong | {"error_cb": errors.append})
    ends_at = time.monotonic() + 20
    while not errors and time.monotonic() < ends_at:
        admin.poll(0.1)
    assert "The broker did not accept the credentials." in errors[0].str()
    assert log.closing() == "SASL SCRAM-SHA-512: user 'alice' gave a wrong password"


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """The token of a test, for kafka-python."""

    def token(self) -> str:
        return token()


class AioProvider(AioTokenProvider):  # type: ignore[misc]
    """The same for aiokafka."""

    async def token(self) -> str:
        return token()


def options(secured: Secured, mechanism: str, provider: Any) -> dict[str, Any]:
    """The options of kafka-python, and of aiokafka, which has the same names."""
    given: dict[str, Any] = {
        "bootstrap_servers": secured.sasl,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return given | {"sasl_oauth_token_provider": provider}
    return given | {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(secured: Secured, mechanism: str) -> None:
    producer = KafkaProducer(**options(secured, mechanism, Provider()))
    assert producer.send("t", b"x").get(20).topic == "t"
    producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(secured: Secured, mechanism: str) -> None:
    async def send() -> Any:
        producer = AIOKafkaProducer(**options(secured, mechanism, AioProvider()))
        await producer.start()
        try:
            return await producer.send_and_wait("t", b"x")
        finally:
            await producer.stop()

    assert asyncio.run(asyncio.wait_for(send(), 30)).topic == "t"
