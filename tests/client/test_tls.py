"""TLS of a client: each failure of a handshake has its own sentence, and each file its fault."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from apportion.client.connection import BrokerConnection, Disconnected
from apportion.client.connection_security import ConnectionSecurity
from apportion.client.kafka_security import kafka_security
from apportion.client.security_options import client_security
from apportion.client.tls import tls_context
from apportion.errors import Code, Refused
from apportion.security.client_security import (
    ClientIdentity,
    ClientSecurity,
    PasswordLogin,
    TlsSettings,
)
from apportion.security.key_stores import KeyStore, StoreKind
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.table import api_versions_response, decode_request, encode_response
from tests.certificates import Authority, Issued, written
from tests.client.tls_listener import Serve, listening, server_context, tls_server

TIMEOUT_MS = 10_000
SECRET = "a-password-of-a-key"
HERE = ("127.0.0.1", "localhost")
AUTHORITY = Authority()
TRUSTED = KeyStore(text=AUTHORITY.pem)
BROKER, CLIENT = AUTHORITY.issue("broker", HERE), AUTHORITY.issue("client")
FOREIGNER = Authority("another CA").issue("client")
CLOSED = "closed by the broker"


def connect(port: int, tls: TlsSettings | None) -> BrokerConnection:
    security = ConnectionSecurity(ClientSecurity(tls))
    return BrokerConnection("127.0.0.1", port, "test", TIMEOUT_MS, security=security)


def failure(serve: Serve, tls: TlsSettings | None) -> str:
    """What a client says of such a listener, with B for its address."""
    with listening(serve) as port, pytest.raises((Refused, Disconnected)) as raised:
        connect(port, tls)
    if isinstance(raised.value, Refused):
        assert raised.value.code is Code.SSL_HANDSHAKE_FAILED
    return str(raised.value).replace(f"127.0.0.1:{port}", "B")


def identity(issued: Issued, password: str | None = None) -> ClientIdentity:
    key = KeyStore(text=issued.key_pem(password), password=password)
    return ClientIdentity(KeyStore(text=issued.chain_pem()), key)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (
            None,
            "the broker wants a client certificate (mTLS): set ssl.keystore.certificate.chain and "
            "ssl.keystore.key, or ssl.keystore.location",
        ),
        (
            identity(FOREIGNER),
            "the broker does not trust the CA of this client's certificate",
        ),
        (
            identity(AUTHORITY.issue("old", ends_in=-timedelta(hours=1))),
            "this client's certificate has expired",
        ),
    ],
)
def test_a_client_that_the_broker_does_not_trust_is_told_why(
    tmp_path: Path, own: ClientIdentity | None, why: str
) -> None:
    serve = tls_server(tmp_path, BROKER, client_ca=AUTHORITY.pem)
    assert failure(serve, TlsSettings(TRUSTED, own)) == (
        f"SSL_HANDSHAKE_FAILED: no TLS with the broker at B: {why}"
    )


@pytest.mark.parametrize(
    "tls",
    [
        TlsSettings(TRUSTED),
        TlsSettings(TRUSTED, identity(CLIENT)),
        TlsSettings(TRUSTED, identity(CLIENT, SECRET)),
        TlsSettings(checks_certificate=False),
        TlsSettings(TRUSTED, versions=("TLSv1.2",)),
    ],
)
def test_a_handshake_that_succeeds_goes_on_to_the_first_request(
    tmp_path: Path, tls: TlsSettings
) -> None:
    ca = AUTHORITY.pem if tls.identity else ""
    # The listener closes when it has the first byte of ApiVersions.
    assert failure(tls_server(tmp_path, BROKER, ca), tls).startswith(
        "the connection to the broker at B broke: "
    )


def test_a_host_name_is_not_checked_where_that_is_switched_off(tmp_path: Path) -> None:
    serve = tls_server(tmp_path, AUTHORITY.issue("elsewhere", ("kafka.example.com",)))
    tls = TlsSettings(TRUSTED, checks_host_name=False)
    assert failure(serve, tls).startswith("the connection to the broker at B broke: ")


def test_no_common_version_of_tls_is_said(tmp_path: Path) -> None:
    serve = tls_server(tmp_path, BROKER, newest="TLSv1_2")
    assert failure(serve, TlsSettings(TRUSTED, versions=("TLSv1.3",))) == (
        "SSL_HANDSHAKE_FAILED: no TLS with the broker at B: it speaks none of the TLS versions "
        "that this client offers"
    )


def answering(answer: bytes) -> Callable[[socket.socket], object]:
    def serve(accepted: socket.socket) -> None:
        accepted.recv(1 << 16)
        accepted.sendall(answer)

    return serve


def test_a_listener_without_tls_is_named_where_its_answer_shows_that() -> None:
    assert failure(answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), TlsSettings()) == (
        "SSL_HANDSHAKE_FAILED: no TLS with the broker at B: it speaks no TLS: set "
        "security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name a listener of SSL or SASL_SSL"
    )


def test_a_listener_that_closes_amid_the_handshake_may_have_no_tls() -> None:
    assert failure(answering(b""), TlsSettings()) == (
        f"no TLS handshake with the broker at B: {CLOSED}; this listener may have no TLS: see "
        "that security.protocol is that of the listener"
    )


def test_a_plain_client_sees_that_a_listener_speaks_tls() -> None:
    # The alert of a Kafka.
    assert failure(answering(b"\x15\x03\x03\x00\x02\x02\x50"), None) == (
        "SSL_HANDSHAKE_FAILED: the listener at B speaks TLS: set security.protocol to SSL, or to "
        "SASL_SSL if clients must authenticate there"
    )


def test_a_listener_that_closes_at_once_may_want_tls() -> None:
    assert failure(answering(b""), None) == (
        f"the connection to the broker at B broke: {CLOSED}; this listener may want TLS: see that "
        "security.protocol is that of the listener"
    )


def test_a_slow_handshake_ends_with_the_timeout() -> None:
    with listening(lambda accepted: accepted.recv(1 << 16) and accepted.recv(1)) as port:
        security = ConnectionSecurity(
            ClientSecurity(TlsSettings(), PasswordLogin("PLAIN", "a", SECRET))
        )
        with pytest.raises(Disconnected, match="no answer within 200 ms; this listener may have"):
            BrokerConnection("127.0.0.1", port, "test", 200, security=security)


def test_a_listener_with_a_full_backlog_ends_with_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        host, port = address = full.getsockname()
        for _ in range(3):  # the second is one too many already
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(address)
        with pytest.raises(Disconnected) as raised:
            BrokerConnection(host, port, "test", 200)
    assert str(raised.value) == (
        f"no connection to the broker at 127.0.0.1:{port}: no answer within 200 ms"
    )


def test_a_pkcs12_file_has_certificate_and_key_or_certificates(tmp_path: Path) -> None:
    store = written(tmp_path, "me.p12", CLIENT.pkcs12(SECRET))
    trust = written(tmp_path, "ca.p12", AUTHORITY.trusted_pkcs12(SECRET))
    for kind in (StoreKind.PKCS12, StoreKind.JKS):
        tls = TlsSettings(
            KeyStore(kind, trust, password=SECRET),
            ClientIdentity(KeyStore(kind, store, password=SECRET)),
        )
        serve = tls_server(tmp_path, BROKER, client_ca=AUTHORITY.pem)
        assert failure(serve, tls).startswith("the connection to the broker at B broke: ")


def test_pkcs12_needs_a_package_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    store = KeyStore(StoreKind.PKCS12, written(tmp_path, "ca.p12", b"0"))
    with pytest.raises(ValueError) as refused:
        tls_context(TlsSettings(store))
    assert str(refused.value) == (
        "CA certificates: PKCS12 files are read by the package cryptography, which is not "
        "installed: pip install '.[security]' in a clone of apportion"
    )


def test_certificate_and_key_may_be_in_one_file(tmp_path: Path) -> None:
    both = written(tmp_path, "me.pem", CLIENT.key_pem(SECRET) + CLIENT.chain_pem())
    store = KeyStore(location=both, password=SECRET)
    tls = TlsSettings(TRUSTED, ClientIdentity(KeyStore(location=both), store))
    serve = tls_server(tmp_path, BROKER, client_ca=AUTHORITY.pem)
    assert failure(serve, tls).startswith("the connection to the broker at B broke: ")


def test_a_file_that_cannot_be_used_is_named_without_its_password(tmp_path: Path) -> None:
    p12 = written(tmp_path, "me.p12", CLIENT.pkcs12("another"))
    jks = written(tmp_path, "me.jks", b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    text = written(tmp_path, "text.pem", "not PEM")
    mixed = written(tmp_path, "mixed.pem", CLIENT.chain_pem() + FOREIGNER.key_pem())
    chain = KeyStore(text=CLIENT.chain_pem())
    cases = [
        (
            TlsSettings(KeyStore(location=text)),
            f"CA certificates: the file '{text}' has no CA certificate in PEM",
        ),
        (
            TlsSettings(KeyStore(StoreKind.JKS, jks, password=SECRET)),
            f"CA certificates: the file '{jks}' is a Java keystore (JKS), which only Java reads: "
            f"make PKCS12 of it by `keytool -importkeystore -srckeystore {jks} -destkeystore "
            f"{jks}.p12 -deststoretype PKCS12` and set the type of the store to PKCS12",
        ),
        (
            TlsSettings(identity=ClientIdentity(KeyStore(StoreKind.PKCS12, p12, password=SECRET))),
            f"the client certificate: the file '{p12}' is no PKCS12, or its password is another "
            "one: see the password of the store",
        ),
        (
            TlsSettings(identity=ClientIdentity(chain, KeyStore(text=FOREIGNER.key_pem()))),
            "the client certificate: the PEM text has a key that does not belong to the PEM text",
        ),
        (
            TlsSettings(identity=ClientIdentity(KeyStore(location=mixed))),
            f"the client certificate: the file '{mixed}' has a key and a certificate that do not "
            "belong together",
        ),
        (
            TlsSettings(identity=ClientIdentity(chain, KeyStore(text=CLIENT.key_pem(SECRET)))),
            "the client certificate: the key of the PEM text needs a password: set "
            "ssl.key.password",
        ),
        (
            TlsSettings(
                identity=ClientIdentity(
                    chain, KeyStore(text=CLIENT.key_pem(SECRET), password="another")
                )
            ),
            "the client certificate: the key of the PEM text cannot be read: see that "
            "ssl.key.password is right",
        ),
    ]
    said = faults([tls for tls, _ in cases])
    assert said == [why for _, why in cases]
    assert SECRET not in "".join(said)


def faults(wrong: list[TlsSettings]) -> list[str]:
    """What is wrong with the files of each."""
    said = []
    for tls in wrong:
        with pytest.raises(ValueError) as refused:
            tls_context(tls)
        said.append(str(refused.value))
    return said


def test_a_fault_of_a_file_names_the_options_of_the_clients_own_dialect(tmp_path: Path) -> None:
    p12 = written(tmp_path, "me.p12", CLIENT.pkcs12("another"))
    locked = written(tmp_path, "me.pem", CLIENT.key_pem(SECRET) + CLIENT.chain_pem())
    python, spark = {"security_protocol": "SSL"}, {"kafka.security.protocol": "SSL"}
    cases = [
        (
            client_security({**python, "ssl_certificate_location": p12}),
            f"the client certificate: the file '{p12}' is PKCS12: give it as ssl_keystore_location",
        ),
        (
            client_security({**python, "ssl_ca_location": p12}),
            f"CA certificates: the file '{p12}' is PKCS12: make PEM of it by `openssl pkcs12 -in "
            f"{p12} -nokeys -out {p12}.pem`",
        ),
        (
            client_security({**python, "ssl_certificate_location": locked}),
            f"the client certificate: the key of the file '{locked}' needs a password: set "
            "ssl_key_password",
        ),
        (
            kafka_security(
                {
                    **spark,
                    "kafka.ssl.keystore.location": p12,
                    "kafka.ssl.keystore.type": "PEM",
                },
                "kafka.",
            ),
            f"the client certificate: the file '{p12}' is PKCS12: set kafka.ssl.keystore.type to "
            "PKCS12",
        ),
    ]
    for security, why in cases:
        with pytest.raises(ValueError) as refused:
            ConnectionSecurity(security)
        assert str(refused.value) == why


def test_a_store_of_another_format_or_without_its_parts_is_named(tmp_path: Path) -> None:
    p12 = written(tmp_path, "me.p12", CLIENT.pkcs12("another"))
    trust = written(tmp_path, "ca.p12", AUTHORITY.trusted_pkcs12(SECRET))
    chain = KeyStore(text=CLIENT.chain_pem())
    cases = [
        (
            TlsSettings(identity=ClientIdentity(chain)),
            "the client certificate: the PEM text has no private key",
        ),
        (
            TlsSettings(identity=ClientIdentity(KeyStore(text=CLIENT.key_pem()))),
            "the client certificate: the PEM text has no certificate",
        ),
        (
            TlsSettings(
                identity=ClientIdentity(
                    chain, KeyStore(text=CLIENT.key_pem().replace("\n", "\nAAAA", 1))
                )
            ),
            "the client certificate: certificate or key of the PEM text cannot be read: one of "
            "them is damaged",
        ),
        (
            TlsSettings(KeyStore(location=trust)),
            f"CA certificates: the file '{trust}' is PKCS12: set ssl.truststore.type to PKCS12, or "
            f"make PEM of it by `openssl pkcs12 -in {trust} -nokeys -out {trust}.pem`",
        ),
        (
            TlsSettings(identity=ClientIdentity(KeyStore(location=p12))),
            f"the client certificate: the file '{p12}' is PKCS12: set ssl.keystore.type to PKCS12",
        ),
        (
            TlsSettings(
                identity=ClientIdentity(KeyStore(StoreKind.PKCS12, trust, password=SECRET))
            ),
            f"the client certificate: the file '{trust}' has no private key",
        ),
    ]
    assert faults([tls for tls, _ in cases]) == [why for _, why in cases]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x17\x03\x03\x00\x20" + bytes(32), "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "WRONG_VERSION_NUMBER"),
    ],
)
def test_a_later_fault_of_tls_is_an_outage(tmp_path: Path, raw: bytes, reason: str) -> None:
    context = server_context(tmp_path, BROKER)

    def serve(accepted: socket.socket) -> None:
        with context.wrap_socket(accepted, server_side=True) as secured:
            asked = decode_request(secured.recv(1 << 16)[4:])
            body = api_versions_response()
            answer = encode_response(asked.api, asked.version, asked.correlation_id, body)
            secured.sendall(b"".join(answer))
            secured.recv(1 << 16)
            with socket.socket(fileno=os.dup(secured.fileno())) as beneath:
                beneath.sendall(raw)

    with listening(serve) as port:
        connection = connect(port, TlsSettings(TRUSTED))
        with pytest.raises(Disconnected) as broken:
            connection.call(FindCoordinatorRequest(key="g"), timeout_ms=TIMEOUT_MS, version=3)
    assert str(broken.value) == (
        f"the connection to the broker at 127.0.0.1:{port} broke: OpenSSL says {reason}"
    )


def test_pem_is_read_whatever_its_store_is_called(tmp_path: Path) -> None:
    for text in (AUTHORITY.pem, f"Bag Attributes\n    friendlyName: ca\n{AUTHORITY.pem}"):
        store = KeyStore(StoreKind.PKCS12, written(tmp_path, "ca.p12", text))
        assert failure(tls_server(tmp_path, BROKER), TlsSettings(store)).startswith(
            "the connection to the broker at B broke: "
        )
