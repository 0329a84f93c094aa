"""Clients that we did not write, at a broker whose listeners have TLS."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.certificates import Authority, Issued, written
from tests.compat.conftest import serve

AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker", ("127.0.0.1",))
ALICE = AUTHORITY.issue("alice")
MALLORY = Authority("another CA").issue("mallory")


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The options of a client that trusts a broker which wants client certificates."""
    directory = tmp_path_factory.mktemp("tls")
    keystore = written(directory, "broker.pem", BROKER.key_pem() + BROKER.chain_pem())
    ca = written(directory, "ca.pem", AUTHORITY.pem)
    settings = (
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={keystore}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={ca}",
        "ssl.client.auth=required",
        "listener.security.protocol.map=PLAINTEXT:SSL",
    )
    with serve(directory, *settings) as served:
        yield {
            "bootstrap.servers": served.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": ca,
        }


def test_confluent_kafka_writes_and_reads_by_tls_with_its_certificate(
    mutual: dict[str, str],
) -> None:
    options = mutual | {
        "ssl.certificate.pem": ALICE.chain_pem(),
        "ssl.key.pem": ALICE.key_pem(),
    }
    producer = Producer(options)
    values = [b"%d" % number * 1_000 for number in range(100)]
    for value in values:
        producer.produce("t", value)
    assert producer.flush(20) == 0
    consumer = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    read: list[bytes | None] = []
    while len(read) < len(values):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert read == values


@pytest.mark.parametrize(
    ("identity", "alert"),
    [(None, "alert certificate required"), (MALLORY, "alert unknown ca")],
)
def test_confluent_kafka_is_told_what_is_wrong_with_its_certificate(
    mutual: dict[str, str], identity: Issued | None, alert: str
) -> None:
    errors: list[KafkaError] = []
    options = {**mutual, "error_cb": errors.append}
    if identity is not None:
        options |= {
            "ssl.certificate.pem": identity.chain_pem(),
            "ssl.key.pem": identity.key_pem(),
        }
    producer = Producer(options)
    for _ in range(100):
        producer.poll(0.1)
        if errors:
            break
    assert alert in errors[0].str()
