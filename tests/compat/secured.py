"""Our broker with a listener of every security protocol, and the ways in for foreign clients."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from apportion.client.cluster import Cluster
from apportion.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    ResourceType,
)
from apportion.security.client_security import ClientSecurity, PasswordLogin
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import free_ports
from apportion.wire.messages.describe_user_scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from tests.certificates import Authority, written
from tests.node.acl_requests import acl, creating, deleted, deleting
from tests.node.scram_requests import with_password
from tests.server.secured import plain_users, token

PASSWORD, ADMIN = "correct-horse-battery-staple", "admin"
MODULES = "org.apache.kafka.common.security"
LISTENERS = {"TLS": "SSL", "MTLS": "SSL", "BARE": "SASL_PLAINTEXT", "SASL": "SASL_SSL"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USERS = ("alice", "mallory", ADMIN)
LIFETIME_S = 3_600
"""How long tokens of clients are good."""


class Way(NamedTuple):
    """How a client connects: a listener, and a mechanism where that has SASL."""

    listener: str
    mechanism: str = ""

    def __str__(self) -> str:
        return f"{self.listener}-{self.mechanism}" if self.mechanism else self.listener


WAYS = [
    Way("TLS"),
    Way("MTLS"),
    *(Way(listener, each) for listener, each in zip(("BARE", "SASL") * 2, MECHANISMS, strict=True)),
]
"""A mechanism is the same with TLS beneath it and without: each is tried once."""
PRINCIPALS = ("User:alice", "User:CN=alice", "User:ANONYMOUS")
"""Who comes in by these ways."""


class SecuredBroker:
    """The broker from here to `close`; `addresses` are those of its listeners."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        hosts = ("127.0.0.1", "localhost")
        issued, client = authority.issue("broker", hosts), authority.issue("alice")
        self.ca = written(directory, "ca.pem", authority.pem)
        self.certificate = written(directory, "client.pem", client.chain_pem())
        self.key = written(directory, "client.key", client.key_pem())
        self.store = written(directory, "both.pem", client.key_pem() + client.chain_pem())
        keystore = written(directory, "broker.pem", issued.key_pem() + issued.chain_pem())
        ports = free_ports(len(LISTENERS))
        self.addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(LISTENERS, ports, strict=True)
        }
        settings: dict[str, Any] = {
            "listeners": ",".join(f"{name}://{at}" for name, at in self.addresses.items()),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in LISTENERS.items()
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": keystore,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "apportion.oauthbearer.unsecured": True,
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1_000,
            "group.consumer.heartbeat.interval.ms": 500,
        }
        for name in ("bare", "sasl"):
            settings[f"listener.name.{name}.plain.sasl.jaas.config"] = plain_users(
                **dict.fromkeys(USERS, PASSWORD)
            )
        self._broker = EmbeddedBroker(directory / "data", **settings)
        login = PasswordLogin("PLAIN", ADMIN, PASSWORD)
        self.admin = Cluster(self.addresses["BARE"], security=ClientSecurity(login=login))
        self._add_scram_users()

    def close(self) -> None:
        """The broker has ended."""
        self.admin.close()
        self._broker.close()

    def allow(self, *acls: AclBinding) -> None:
        """Everybody but mallory may do what these let alice do."""
        wanted = [acl._replace(principal=each) for acl in acls for each in PRINCIPALS]
        results = self.admin.call(creating(*wanted)).results
        assert {each.error_code for each in results} == {0}, results

    def forbid(self, kind: ResourceType, name: str) -> None:
        """Nobody has an ACL of that resource any more."""
        assert deleted(self.admin.call(deleting(AclFilter(kind, name)))) != [[]]

    def _add_scram_users(self) -> None:
        for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
            done = self.admin.call(with_password(PASSWORD, mechanism, *USERS))
            assert {each.error_code for each in done.results} == {0}, done


def confluent_options(broker: SecuredBroker, way: Way, user: str = "alice") -> dict[str, Any]:
    """The configuration of librdkafka."""
    options: dict[str, Any] = {
        "bootstrap.servers": broker.addresses[way.listener],
        "security.protocol": LISTENERS[way.listener],
    }
    if LISTENERS[way.listener].endswith("SSL"):
        options["ssl.ca.location"] = broker.ca
    if way.listener == "MTLS":
        options |= {"ssl.certificate.location": broker.certificate, "ssl.key.location": broker.key}
    if way.mechanism:
        options["sasl.mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        options["oauth_cb"] = lambda _config: (
            token(LIFETIME_S, user),
            time.time() + LIFETIME_S,
        )
    elif way.mechanism:
        options |= {"sasl.username": user, "sasl.password": PASSWORD}
    return options


def python_options(broker: SecuredBroker, way: Way, provider: Any) -> dict[str, Any]:
    """The configuration of kafka-python and of aiokafka, but for TLS; the provider gives tokens."""
    options: dict[str, Any] = {
        "bootstrap_servers": broker.addresses[way.listener],
        "security_protocol": LISTENERS[way.listener],
    }
    if way.mechanism:
        options["sasl_mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = provider
    elif way.mechanism:
        options |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    return options


def java_options(broker: SecuredBroker, way: Way, user: str = "alice") -> dict[str, int | str]:
    """The configuration of Kafka's own clients."""
    options: dict[str, int | str] = {"security.protocol": LISTENERS[way.listener]}
    if LISTENERS[way.listener].endswith("SSL"):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": broker.ca}
    if way.listener == "MTLS":
        options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": broker.store}
    if way.mechanism:
        name = f'username="{user}" password="{PASSWORD}"'
        module = {
            "PLAIN": f"plain.PlainLoginModule required {name}",
            "OAUTHBEARER": (
                "oauthbearer.OAuthBearerLoginModule required "
                f'unsecuredLoginStringClaim_sub="{user}"'
            ),
        }.get(way.mechanism, f"scram.ScramLoginModule required {name}")
        options |= {
            "sasl.mechanism": way.mechanism,
            "sasl.jaas.config": f"{MODULES}.{module};",
        }
    return options


def grants(topic: str, group: str) -> tuple[AclBinding, ...]:
    """What a producer of the topic and the members of a group need, for alice."""
    reads = acl(group, resource_type=ResourceType.GROUP, pattern_type=PatternType.PREFIXED)
    return acl(topic), acl(topic, operation=AclOperation.WRITE), reads
