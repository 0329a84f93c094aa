"""What a real Kafka lets a client do by random ACLs is what our authorizer says of them."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple, NoReturn

import pytest

from apportion.client.cluster import Cluster
from apportion.client.connection import BrokerConnection
from apportion.security.authorizer import Acls, Authorizer
from apportion.security.client_security import PasswordLogin
from apportion.testing.kafka import KafkaMissing, RealKafka
from tests.kafka.acl_cluster import AUTHORIZER, EVERYTHING, AclCluster, connection_to
from tests.kafka.acl_decisions import GROUPS, NOT_LOADED, TOPICS, decided, random_acls, told

ROUNDS = int(os.environ.get("APPORTION_ACL_ROUNDS", "60"))
FIRST = int(os.environ.get("APPORTION_ACL_FIRST", "0"))
PASSWORD = "a-secret"
SUPER_USER = "User:ANONYMOUS"


class Authorizing(NamedTuple):
    """A Kafka with ACLs, as its super user and as alice see it."""

    acls: AclCluster
    alice: BrokerConnection
    allows_without_acls: bool


@pytest.fixture(scope="module", params=[False, True], ids=["denies", "allows"])
def kafka_with_acls(
    request: pytest.FixtureRequest,
    jars: Path,
    tmp_path_factory: pytest.TempPathFactory,
    lane_missing: Callable[[str], NoReturn],
) -> Iterator[Authorizing]:
    """A Kafka that denies, or allows, what no ACL is about; it has the topics and no ACLs."""
    settings = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": SUPER_USER,
        "allow.everyone.if.no.acl.found": str(request.param).lower(),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'user_alice="{PASSWORD}";'
        ),
    }
    directory = tmp_path_factory.mktemp("acls")
    try:
        with RealKafka(jars, directory, settings, listeners={"SASL": "SASL_PLAINTEXT"}) as broker:
            cluster = Cluster(broker.bootstrap)
            for name in TOPICS:
                cluster.create_topic(name, 1)
            cluster.close()
            acls = AclCluster(broker.bootstrap)
            acls.await_coordinators(GROUPS)
            root = connection_to(broker.bootstrap)
            while NOT_LOADED & set(told(root).values()):
                time.sleep(0.1)
            root.close()
            alice = connection_to(
                broker.addresses["SASL"], PasswordLogin("PLAIN", "alice", PASSWORD)
            )
            yield Authorizing(acls, alice, request.param)
            alice.close()
            acls.close()
    except KafkaMissing as problem:
        lane_missing(str(problem))


def test_kafka_decides_by_random_acls_as_the_authorizer_does(kafka_with_acls: Authorizing) -> None:
    acls, alice, allows_without_acls = kafka_with_acls
    for seed in range(FIRST, FIRST + ROUNDS):
        given = random_acls(Random(seed))
        acls.create(given)
        authorizer = Authorizer(Acls(given), (SUPER_USER,), allows_without_acls)
        assert told(alice) == decided(authorizer, "User:alice"), (seed, given)
        acls.delete(EVERYTHING)
