"""Our own clients at a TLS listener of our broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from apportion import Consumer
from apportion.errors import Code, Refused
from apportion.server.embedded import EmbeddedBroker
from tests.certificates import Authority, written

AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker", ("127.0.0.1",))
ALICE = AUTHORITY.issue("alice")
MALLORY = Authority("another CA").issue("mallory")
SETTINGS: dict[str, Any] = {
    "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAIN", "SSL", "MUTUAL", "LOGIN")),
    "listener.security.protocol.map": "PLAIN:PLAINTEXT,SSL:SSL,MUTUAL:SSL,LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "ssl.keystore.certificate.chain": BROKER.chain_pem(),
    "ssl.keystore.key": BROKER.key_pem(),
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.mutual.ssl.truststore.certificates": AUTHORITY.pem,
}


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """Where each listener of a broker is that has a record in `t`."""
    with EmbeddedBroker(**SETTINGS) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"v")
        assert producer.flush(20) == 0
        yield broker.addresses


def read(bootstrap: str, **security: Any) -> bytes | None:
    """The value of the first record that a consumer of its own group reads."""
    with Consumer(
        bootstrap,
        "g",
        topics="t",
        auto_offset_reset="earliest",
        security_protocol="SSL",
        ssl_ca_pem=AUTHORITY.pem,
        **security,
    ) as consumer:
        [record] = consumer.poll(20_000)
        return record.value


def test_a_consumer_reads_by_tls(addresses: dict[str, str]) -> None:
    assert read(addresses["SSL"]) == b"v"


def test_a_consumer_shows_its_certificate(addresses: dict[str, str], tmp_path: Path) -> None:
    mine = {
        "ssl_certificate_location": written(tmp_path, "alice.pem", ALICE.chain_pem()),
        "ssl_key_pem": ALICE.key_pem(),
    }
    assert read(addresses["MUTUAL"], **mine) == b"v"


def test_a_consumer_by_tls_is_told_that_a_listener_has_none(addresses: dict[str, str]) -> None:
    for name in ("PLAIN", "LOGIN"):
        with pytest.raises(Refused) as refused:
            read(addresses[name])
        assert (refused.value.code, refused.value.why) == (
            Code.SSL_HANDSHAKE_FAILED,
            f"no TLS with the broker at {addresses[name]}: it speaks no TLS: set security_protocol "
            "to PLAINTEXT or SASL_PLAINTEXT, or name a listener of SSL or SASL_SSL",
        )


def test_a_consumer_without_tls_is_told_that_a_listener_speaks_it(
    addresses: dict[str, str],
) -> None:
    for name in ("SSL", "MUTUAL"):
        with (
            pytest.raises(Refused) as refused,
            Consumer(addresses[name], "g", topics="t") as consumer,
        ):
            consumer.poll(20_000)
        assert (refused.value.code, refused.value.why) == (
            Code.SSL_HANDSHAKE_FAILED,
            f"the listener at {addresses[name]} speaks TLS: set security_protocol to SSL, or to "
            "SASL_SSL if clients must authenticate there",
        )


@pytest.mark.parametrize(
    ("security", "why"),
    [
        (
            {},
            "the broker wants a client certificate (mTLS): set ssl_certificate_location and "
            "ssl_key_location, or ssl_keystore_location",
        ),
        (
            {
                "ssl_certificate_pem": MALLORY.chain_pem(),
                "ssl_key_pem": MALLORY.key_pem(),
            },
            "the broker does not trust the CA of this client's certificate",
        ),
    ],
)
def test_a_consumer_that_the_broker_does_not_trust_fails_for_good(
    addresses: dict[str, str], security: dict[str, str], why: str
) -> None:
    with pytest.raises(Refused) as refused:
        read(addresses["MUTUAL"], **security)
    assert (refused.value.code, refused.value.why.endswith(why)) == (
        Code.SSL_HANDSHAKE_FAILED,
        True,
    ), refused.value.why
