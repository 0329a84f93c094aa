"""Writes to secured brokers: librdkafka has the login and the certificates that the source has, and
a write that is not let in, or not allowed, says so without a secret.
"""

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from apportion.broker import AclBinding, AclOperation, BrokerSecurity, EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.security.claims import unsecured_token
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.topic_sink.producer import TopicProducer
from apportion.spark.topic_sink.records import NotWritten
from tests.certificates import written
from tests.node.acl_requests import acl
from tests.spark.test_topic_producer import read, record, refusal

PASSWORD = "a-password-of-alice-alone"
STORE_PASSWORD = "a-password-of-a-store"
USERS = {"admin": "a-password-of-the-admin", "alice": PASSWORD}
MAY_WRITE = acl("flights", operation=AclOperation.WRITE)
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


@contextmanager
def secured(**security: Any) -> Iterator[EmbeddedBroker]:
    """A broker with a topic flights."""
    with EmbeddedBroker(security=BrokerSecurity(**security)) as broker:
        admin = client_security(broker.client_options("admin"))
        cluster = Cluster(broker.bootstrap, security=admin)
        cluster.create_topic("flights", 1)
        cluster.close()
        yield broker


@contextmanager
def producer(broker: EmbeddedBroker, options: Mapping[str, str]) -> Iterator[TopicProducer]:
    given = {f"kafka.{name}": value for name, value in options.items()}
    given["kafka.bootstrap.servers"] = broker.bootstrap
    made = TopicProducer(TopicWriterOptions.parse(given))
    try:
        yield made
    finally:
        made.close()


def values(broker: EmbeddedBroker) -> list[bytes]:
    return [value for _, _, value, _ in read(broker.client_config("admin"), "flights", 1)]


@pytest.fixture(scope="module")
def passwords() -> Iterator[EmbeddedBroker]:
    """TLS and passwords; alice may write to flights, and no more."""
    with secured(users=USERS, super_users=["User:admin"], acls=[MAY_WRITE]) as broker:
        yield broker


def test_a_user_who_may_write_needs_nothing_else(passwords: EmbeddedBroker) -> None:
    mechanisms = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
    for each in mechanisms:
        with producer(passwords, passwords.client_properties("alice", mechanism=each)) as alice:
            assert alice.write([record("flights", each.encode())]) == 1
    assert values(passwords) == [each.encode() for each in mechanisms]


def test_a_topic_that_is_denied_is_named(passwords: EmbeddedBroker) -> None:
    with producer(passwords, passwords.client_properties("alice")) as alice:
        assert refusal(alice, record("secrets")) == (
            "topic secrets: TOPIC_AUTHORIZATION_FAILED: this client's principal has no permission "
            "for WRITE on the topic 'secrets'; "
            "a user who may alter the cluster gives it by `apportion acls add "
            "--allow-principal User:NAME --operation Write --topic secrets`"
        )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            [acl("elsewhere", operation=AclOperation.WRITE)],
            "topic flights, partition 0: TOPIC_AUTHORIZATION_FAILED: this client's principal has "
            "no permission for WRITE on the topic 'flights'; "
            "a user who may alter the cluster gives it by `apportion "
            "acls add --allow-principal User:NAME --operation Write --topic flights`",
        ),
        (
            [],
            "CLUSTER_AUTHORIZATION_FAILED: this client's principal may write to no topic at all; "
            "a user who may alter the cluster gives "
            "WRITE by `apportion acls add --allow-principal User:NAME "
            "--operation Write --topic TOPIC`, and old brokers want --operation IdempotentWrite "
            "--cluster besides",
        ),
    ],
)
def test_a_topic_that_may_be_read_alone_is_refused(other: list[AclBinding], said: str) -> None:
    reads = acl("flights", operation=AclOperation.READ)
    with (
        secured(users=USERS, super_users=["User:admin"], acls=[reads, *other]) as broker,
        producer(broker, broker.client_properties("alice")) as alice,
    ):
        assert refusal(alice, record("flights")) == said


def test_a_wrong_password_is_refused_without_its_text(passwords: EmbeddedBroker) -> None:
    properties = passwords.client_properties("alice")
    wrong = {**properties, "sasl.jaas.config": properties["sasl.jaas.config"].replace("-a", "-b")}
    with producer(passwords, wrong) as alice:
        assert refusal(alice, record("flights")) == (
            "topic flights: SASL_AUTHENTICATION_FAILED: the broker at "
            f"{passwords.bootstrap} does not accept user 'alice' by SCRAM-SHA-512: see that the "
            "name and the password are right"
        )


def token(_config: str) -> tuple[str, float]:
    """A token of the admin, for `module:function`."""
    expires_at_s = time.time() + 600
    return unsecured_token({"sub": "admin", "iat": time.time(), "exp": expires_at_s}), expires_at_s


def token_alone(_config: str) -> str:
    """The same without the time at which it is over."""
    return token("")[0]


def test_tokens_come_from_the_users_own_function() -> None:
    given: Any = {"mechanisms": ["OAUTHBEARER"], "unsecured_tokens": True}
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": OAUTH,
    }
    with secured(protocol="SASL_PLAINTEXT", **given) as broker:
        for function in ("token", "token_alone"):
            handler = {"sasl.login.callback.handler.class": f"{__name__}:{function}"}
            with producer(broker, options | handler) as admin:
                assert admin.write([record("flights")]) == 1
        assert values(broker) == [b"v"] * 2


def stores(broker: EmbeddedBroker, directory: Path) -> dict[str, dict[str, str]]:
    """A client's certificate and the authority's in each shape that an option may have."""
    options = broker.client_options("etl")
    pem = Path(options["ssl_key_location"]).read_text()
    key = load_pem_private_key(pem.encode(), None)
    certificate = load_pem_x509_certificate(pem[pem.index("-----BEGIN CERT") :].encode())
    authority = load_pem_x509_certificate(Path(broker.ca_location).read_bytes())
    locked = BestAvailableEncryption(STORE_PASSWORD.encode())
    identity = pkcs12.serialize_key_and_certificates(b"etl", key, certificate, None, locked)  # type: ignore[arg-type]
    trusted = pkcs12.serialize_key_and_certificates(b"ca", None, None, [authority], locked)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked).decode()
    return {
        "PEM files": broker.client_properties("etl"),
        "PKCS12": {
            "security.protocol": "SSL",
            "ssl.truststore.location": written(directory, "ca.p12", trusted),
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.keystore.location": written(directory, "etl.p12", identity),
            "ssl.keystore.password": STORE_PASSWORD,
        },
        "PEM texts, the key encrypted": {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": Path(broker.ca_location).read_text(),
            "ssl.keystore.certificate.chain": certificate.public_bytes(Encoding.PEM).decode(),
            "ssl.keystore.key": encrypted.replace("\n", "\\n"),
            "ssl.key.password": STORE_PASSWORD,
        },
        "no check of the host's name": {
            **broker.client_properties("etl"),
            "ssl.endpoint.identification.algorithm": "none",
        },
    }


def test_a_client_certificate_may_come_in_any_shape(tmp_path: Path) -> None:
    with secured(protocol="SSL", needs_client_certificate=True) as broker:
        shapes = stores(broker, tmp_path)
        for shape, options in shapes.items():
            with producer(broker, options) as client:
                assert client.write([record("flights", shape.encode())]) == 1
        assert values(broker) == [shape.encode() for shape in shapes]


def test_a_certificate_that_an_executor_lacks_is_named(tmp_path: Path) -> None:
    with secured(protocol="SSL", needs_client_certificate=True) as broker:
        options = stores(broker, tmp_path)["PKCS12"]
        given = {f"kafka.{name}": value for name, value in options.items()}
        parsed = TopicWriterOptions.parse({"kafka.bootstrap.servers": broker.bootstrap, **given})
        Path(options["ssl.keystore.location"]).unlink()
        with pytest.raises(NotWritten) as refused:
            TopicProducer(parsed)
        assert str(refused.value) == (
            f"on {socket.gethostname()}: the client certificate: the file "
            f"{options['ssl.keystore.location']!r} cannot be read: No such file or directory"
        )
