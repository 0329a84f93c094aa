"""A broker's certificate that a client does not accept is named, with what is wrong with it."""

import logging
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from apportion.client.tls import handshake_failure_or_none
from apportion.errors import Refused
from apportion.security.client_security import TlsSettings
from apportion.security.key_stores import KeyStore
from apportion.server.embedded import EmbeddedBroker
from tests.certificates import DAY, Authority, Issued
from tests.client.test_tls import (
    AUTHORITY,
    BROKER,
    CLIENT,
    HERE,
    TRUSTED,
    connect,
    failure,
    identity,
)
from tests.client.tls_listener import tls_server

OLD = AUTHORITY.issue("old", HERE, ends_in=-DAY)
UNTRUSTED = (
    "its certificate, CN=broker, issued by CN=CA of a test, is of no CA that this client trusts: "
    "set ssl.truststore.location to the CA of the cluster"
)
NAME_IT = (
    "name the broker as its certificate does, or set ssl.endpoint.identification.algorithm to none"
)


@pytest.mark.parametrize(
    ("issued", "tls", "why"),
    [
        (
            BROKER,
            TlsSettings(KeyStore(text=Authority("another CA").pem)),
            UNTRUSTED,
        ),
        (
            BROKER,
            TlsSettings(KeyStore(text=Authority().pem)),  # of the same name
            UNTRUSTED,
        ),
        (
            BROKER,
            TlsSettings(),
            UNTRUSTED,
        ),
        (
            AUTHORITY.issue("elsewhere", ("kafka.example.com", "10.0.0.1")),
            TlsSettings(TRUSTED),
            "its certificate, CN=elsewhere, is for kafka.example.com, 10.0.0.1, and not for the "
            f"host '127.0.0.1': {NAME_IT}",
        ),
        (
            AUTHORITY.issue("nameless"),
            TlsSettings(TRUSTED),
            "its certificate, CN=nameless, is for nameless, and not for the host "
            f"'127.0.0.1': {NAME_IT}",
        ),
        (
            OLD,
            TlsSettings(TRUSTED),
            "its certificate, CN=old, has expired: it was valid until "
            f"{OLD.certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC",
        ),
    ],
    ids=("another CA", "another CA of its name", "no CA", "elsewhere", "nameless", "old"),
)
def test_a_broker_that_cannot_be_trusted_is_refused_with_the_reason(
    tmp_path: Path, issued: Issued, tls: TlsSettings, why: str
) -> None:
    assert failure(tls_server(tmp_path, issued), tls) == (
        f"SSL_HANDSHAKE_FAILED: no TLS with the broker at B: {why}"
    )


PRESENTED = BROKER.certificate.public_bytes(Encoding.DER)
OF_CHAIN = "a certificate of the chain of its certificate, CN=broker, "
NOT_YET = "is not valid yet: see that the clock of this host is right"


@pytest.mark.parametrize(
    ("presented", "code", "why"),
    [
        (b"", 62, f"its certificate is not of the host 'broker': {NAME_IT}"),
        (b"", 10, "its certificate has expired"),
        (b"", 9, f"its certificate {NOT_YET}"),
        (b"", 20, UNTRUSTED.replace(", CN=broker, issued by CN=CA of a test,", "")),
        (b"", 1, "its certificate cannot be verified: words of OpenSSL"),
        (PRESENTED, 10, f"{OF_CHAIN}has expired"),
        (PRESENTED, 9, f"{OF_CHAIN}{NOT_YET}"),
    ],
)
def test_a_certificate_that_cannot_be_had_again_is_left_out_or_its_chain_named(
    presented: bytes, code: int, why: str
) -> None:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "words of OpenSSL"
    failure = handshake_failure_or_none(error, "broker:9093", presented)
    assert failure is not None
    assert failure.why == f"no TLS with the broker at broker:9093: {why}"


@pytest.mark.parametrize("versions", [("TLSv1.2",), ("TLSv1.2", "TLSv1.3")])
def test_the_log_of_the_broker_has_the_one_reason_why_the_client_went(
    caplog: pytest.LogCaptureFixture, versions: tuple[str, ...]
) -> None:
    caplog.set_level(logging.WARNING, logger="apportion.server")
    tls = TlsSettings(
        KeyStore(text=Authority("another CA").pem), identity(CLIENT), versions=versions
    )
    broker = EmbeddedBroker(
        listeners="SSL://127.0.0.1:0",
        ssl_keystore_certificate_chain=BROKER.chain_pem(),
        ssl_keystore_key=BROKER.key_pem(),
        ssl_client_auth="required",
        ssl_truststore_certificates=AUTHORITY.pem,
    )
    with broker, pytest.raises(Refused) as refused:
        connect(int(broker.bootstrap.rpartition(":")[2]), tls)
    assert refused.value.why.endswith(UNTRUSTED)
    (line,) = caplog.messages
    assert line.endswith(
        "its client does not trust this broker's certificate: it does not know its CA"
    )
