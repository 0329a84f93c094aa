"""A real Kafka with listeners of every security protocol, and what its clients need."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from apportion.client.cluster import Cluster
from apportion.testing.kafka import RealKafka
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.describe_user_scram_credentials import SCRAM_SHA_512
from tests.certificates import DAY, Authority, written
from tests.node.scram_requests import with_password
from tests.server.secured import plain_users

TOPIC = "flights"
WRONG = "a-wrong-and-secret-password"
MODULES = "org.apache.kafka.common.security"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
PASSWORD = "correct-horse-battery-staple"
STORE_PASSWORD = "a-store-of-keys"
LISTENERS = {
    "TLS": "SSL",
    "MTLS": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "SASL": "SASL_SSL",
    "BARE": "SASL_PLAINTEXT",
    "LOGINS": "SASL_PLAINTEXT",
}
SHORT_SESSION_MS = 3_000
LOGINS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    "plain.connections.max.reauth.ms": "60000",
}
"""Settings of the listener for the order of SASL, of which our broker takes the same."""
USERS = ("alice", "bob", *(f"u{number}" for number in range(400)))
"""Who can log in by PLAIN."""
PLAIN_USERS = plain_users(**dict.fromkeys(USERS, PASSWORD))


class Secured(NamedTuple):
    """The broker, and the directory with what its clients need: alice's certificate, and the CA."""

    broker: RealKafka
    directory: Path

    @property
    def ca(self) -> str:
        """The file of the CA that clients trust."""
        return str(self.directory / "ca.pem")

    def options(self, listener: str = "SASL", **options: Any) -> dict[str, Any]:
        """Options of a Consumer for a listener, with these on top."""
        protocol = LISTENERS[listener]
        given: dict[str, Any] = {"security_protocol": protocol}
        if protocol.endswith("SSL"):
            given["ssl_ca_location"] = self.ca
        if protocol.startswith("SASL"):
            given |= {
                "sasl_mechanism": "PLAIN",
                "sasl_username": "alice",
                "sasl_password": PASSWORD,
            }
        return given | options


def secured_settings(directory: Path) -> dict[str, str]:
    """The settings of a Kafka with LISTENERS; writes its certificates into the directory, and one
    of a client.
    """
    authority = Authority()
    here = ("127.0.0.1", "localhost")
    certificates = {
        "TLS": authority.issue("broker", here),
        "MTLS": authority.issue("broker", here),
        "SASL": authority.issue("broker", here),
        "EXPIRED": authority.issue("broker", here, ends_in=-DAY),
        "ELSEWHERE": authority.issue("broker", ("kafka.example.com",)),
    }
    ca = written(directory, "ca.pem", authority.pem)
    client = authority.issue("alice")
    written(directory, "client.pem", client.chain_pem())
    written(directory, "client.key", client.key_pem(STORE_PASSWORD))
    written(directory, "client.p12", client.pkcs12(STORE_PASSWORD))
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Of listeners without a login; alice by a login, and by her certificate. Not bob.
        "super.users": "User:ANONYMOUS;User:alice;User:CN=alice",
        "listener.name.mtls.ssl.client.auth": "required",
    }
    for listener, issued in certificates.items():
        prefix = f"listener.name.{listener.lower()}.ssl"
        store = written(directory, f"{listener}.pem", issued.key_pem() + issued.chain_pem())
        settings |= {
            f"{prefix}.keystore.type": "PEM",
            f"{prefix}.keystore.location": store,
            f"{prefix}.truststore.type": "PEM",
            f"{prefix}.truststore.location": ca,
        }
    settings |= {f"listener.name.logins.{name}": value for name, value in LOGINS.items()}
    for listener in ("sasl", "bare", "logins"):
        prefix = f"listener.name.{listener}"
        settings |= {
            f"{prefix}.plain.sasl.jaas.config": PLAIN_USERS,
            f"{prefix}.scram-sha-512.sasl.jaas.config": (
                f"{MODULES}.scram.ScramLoginModule required;"
            ),
            f"{prefix}.oauthbearer.sasl.jaas.config": (
                f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="broker";'
            ),
        }
    settings["listener.name.bare.plain.connections.max.reauth.ms"] = str(SHORT_SESSION_MS)
    return settings


@contextmanager
def secured_kafka(jars: Path, directory: Path, **more: str) -> Iterator[RealKafka]:
    """A running Kafka with LISTENERS and these settings more (dots as underscores), with a record
    in TOPIC and a user of SCRAM.
    """
    directory.mkdir()
    settings = secured_settings(directory)
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    with RealKafka(jars, directory, settings, listeners=LISTENERS) as broker:
        cluster = Cluster(broker.bootstrap)
        topic = cluster.create_topic(TOPIC, 1)
        record = encode_batch([(None, b"a flight", ())], timestamp_ms=1)
        cluster.produce(partitions_of(topic)[0], record)
        cluster.close()
        add_scram_user(broker, "alice")
        yield broker


def add_scram_user(
    broker: RealKafka,
    name: str,
    password: str = PASSWORD,
    mechanism: int = SCRAM_SHA_512,
    iterations: int = 4_096,
) -> None:
    """Give the user the password, for SCRAM-SHA-512 or the other mechanism of that number."""
    asked = with_password(password, mechanism, name, iterations=iterations)
    with closing(Cluster(broker.bootstrap)) as cluster:
        assert [each.error_code for each in cluster.call(asked).results] == [0]
