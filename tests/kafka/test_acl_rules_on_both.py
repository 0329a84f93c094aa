"""What a real Kafka and our broker let a client do by random ACLs is what the authorizer says."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, NoReturn

import pytest

from apportion.client.cluster import Cluster
from apportion.client.connection import BrokerConnection
from apportion.security.authorizer import Acls, Authorizer
from apportion.security.client_security import PasswordLogin
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import KafkaMissing, RealKafka, free_ports
from tests.kafka.acl_cluster import AUTHORIZER, AclCluster, connection_to
from tests.kafka.acl_decisions import GROUPS, NOT_LOADED, TOPICS, decided, random_acls, told
from tests.kafka.conftest import until
from tests.node.acl_requests import EVERY_ACL
from tests.server.secured import plain_users

ROUNDS = int(os.environ.get("APPORTION_ACL_ROUNDS", "60"))
FIRST = int(os.environ.get("APPORTION_ACL_FIRST", "0"))
PASSWORD = "a-secret"
SUPER_USER = "User:ANONYMOUS"
SETTINGS = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": SUPER_USER,
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": plain_users(alice=PASSWORD),
}
EVERYBODY = "allow.everyone.if.no.acl.found"


class Authorizing(NamedTuple):
    """A broker with ACLs, as its super user and as alice see it."""

    acls: AclCluster
    alice: BrokerConnection
    allows_without_acls: bool


@contextmanager
def our_broker(settings: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Where our broker listens without a login, and with one."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    listeners: dict[str, Any] = {
        "listeners": f"PLAINTEXT://{addresses[0]},SASL://{addresses[1]}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    }
    with EmbeddedBroker(**listeners | settings):
        yield addresses[0], addresses[1]


@contextmanager
def real_kafka(jars: Path, directory: Path, settings: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Where a real Kafka listens without a login, and with one."""
    with RealKafka(jars, directory, settings, listeners={"SASL": "SASL_PLAINTEXT"}) as broker:
        yield broker.bootstrap, broker.addresses["SASL"]


@contextmanager
def prepared(addresses: tuple[str, str], allows_without_acls: bool) -> Iterator[Authorizing]:
    """The broker has the topics, and its coordinators have read their logs."""
    bootstrap, secured = addresses
    cluster = Cluster(bootstrap)
    for name in TOPICS:
        cluster.create_topic(name, 1)
    cluster.close()
    acls, root = AclCluster(bootstrap), connection_to(bootstrap)
    acls.await_coordinators(GROUPS)
    until(lambda: not NOT_LOADED & set(told(root).values()))
    root.close()
    alice = connection_to(secured, PasswordLogin("PLAIN", "alice", PASSWORD))
    yield Authorizing(acls, alice, allows_without_acls)
    alice.close()
    acls.close()


@pytest.fixture(scope="module", params=["denies", "allows"])
def kafka_with_acls(
    request: pytest.FixtureRequest,
    jars: Path,
    tmp_path_factory: pytest.TempPathFactory,
    lane_missing: Callable[[str], NoReturn],
) -> Iterator[Authorizing]:
    """A Kafka that denies, or allows, what no ACL is about."""
    allows = request.param == "allows"
    settings = SETTINGS | {EVERYBODY: str(allows).lower()}
    try:
        with (
            real_kafka(jars, tmp_path_factory.mktemp("acls"), settings) as addresses,
            prepared(addresses, allows) as authorizing,
        ):
            yield authorizing
    except KafkaMissing as problem:
        lane_missing(str(problem))


def check_decisions(authorizing: Authorizing) -> None:
    """The broker decides by random ACLs as the authorizer does."""
    acls, alice, allows_without_acls = authorizing
    for seed in range(FIRST, FIRST + ROUNDS):
        given = random_acls(Random(seed))
        acls.create(given)
        authorizer = Authorizer(Acls(given), (SUPER_USER,), allows_without_acls)
        assert told(alice) == decided(authorizer, "User:alice"), (seed, given)
        acls.delete(EVERY_ACL)


def test_a_real_kafka_decides_as_the_authorizer_does(kafka_with_acls: Authorizing) -> None:
    check_decisions(kafka_with_acls)


@pytest.mark.parametrize("allows", [False, True], ids=["denies", "allows"])
def test_our_broker_decides_as_the_authorizer_does(allows: bool) -> None:
    with (
        our_broker(SETTINGS | {EVERYBODY: str(allows).lower()}) as addresses,
        prepared(addresses, allows) as authorizing,
    ):
        check_decisions(authorizing)
