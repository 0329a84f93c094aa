"""Our own clients at a listener of our broker whose TLS is not theirs."""

from collections.abc import Iterator
from typing import Any

import pytest

from apportion import Consumer
from apportion.errors import Code, Refused
from apportion.server.embedded import EmbeddedBroker
from tests.certificates import Authority

AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker", ("127.0.0.1",))
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
    with EmbeddedBroker(**SETTINGS) as broker:
        yield broker.addresses


def refusal(bootstrap: str, **security: Any) -> tuple[Code, str]:
    """What the first poll of a consumer raises."""
    with (
        pytest.raises(Refused) as refused,
        Consumer(bootstrap, "g", topics="t", **security) as consumer,
    ):
        consumer.poll(20_000)
    return refused.value.code, refused.value.why


def test_a_consumer_by_tls_is_told_that_a_listener_has_none(addresses: dict[str, str]) -> None:
    for name in ("PLAIN", "LOGIN"):
        assert refusal(addresses[name], security_protocol="SSL") == (
            Code.SSL_HANDSHAKE_FAILED,
            f"no TLS with the broker at {addresses[name]}: it speaks no TLS: set security_protocol "
            "to PLAINTEXT or SASL_PLAINTEXT, or name a listener of SSL or SASL_SSL",
        )


def test_a_consumer_without_tls_is_told_that_a_listener_speaks_it(
    addresses: dict[str, str],
) -> None:
    for name in ("SSL", "MUTUAL"):
        assert refusal(addresses[name]) == (
            Code.SSL_HANDSHAKE_FAILED,
            f"the listener at {addresses[name]} speaks TLS: set security_protocol to SSL, or to "
            "SASL_SSL if clients must authenticate there",
        )
