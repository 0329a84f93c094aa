"""What a real Kafka lets a client do by random ACLs is what the authorizer says."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple, NoReturn

import pytest

from apportion.client.cluster import Cluster
from apportion.client.connection import BrokerConnection
from apportion.security.authorizer import Acls, Authorizer
from apportion.security.client_security import PasswordLogin
from apportion.testing.kafka import KafkaMissing, RealKafka
from tests.kafka.acl_cluster import AUTHORIZER, AclCluster, connection_to
from tests.kafka.acl_decisions import GROUPS, NOT_LOADED, TOPICS, decided, random_acls, told
from tests.kafka.conftest import until
from tests.kafka.secured import PASSWORD, PLAIN_USERS, Secured
from tests.node.acl_requests import EVERY_ACL

SECURED = "guarded"
ROUNDS = int(os.environ.get("APPORTION_ACL_ROUNDS", "60"))
FIRST = int(os.environ.get("APPORTION_ACL_FIRST", "0"))
SUPER_USER = "User:ANONYMOUS"
ALLOWING = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": SUPER_USER,
    "allow.everyone.if.no.acl.found": "true",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.bare.plain.sasl.jaas.config": PLAIN_USERS,
}


class Authorizing(NamedTuple):
    """A broker with ACLs, as its super user and as bob see it."""

    acls: AclCluster
    bob: BrokerConnection
    allows_without_acls: bool


@pytest.fixture(scope="module", params=[False, True], ids=["denies", "allows"])
def authorizing(
    request: pytest.FixtureRequest,
    secured: Secured,
    jars: Path,
    tmp_path_factory: pytest.TempPathFactory,
    lane_missing: Callable[[str], NoReturn],
) -> Iterator[Authorizing]:
    """A Kafka that denies, or allows, what no ACL is about; it has the topics, and its coordinators
    have read their logs.
    """
    allows, broker = request.param, secured.broker
    with ExitStack() as stack:
        if allows:
            listeners = {"BARE": "SASL_PLAINTEXT"}
            directory = tmp_path_factory.mktemp("acls")
            try:
                broker = stack.enter_context(
                    RealKafka(jars, directory, ALLOWING, listeners=listeners)
                )
            except KafkaMissing as problem:
                lane_missing(str(problem))
        cluster = Cluster(broker.bootstrap)
        for name in TOPICS:
            cluster.create_topic(name, 1)
        cluster.close()
        acls, root = AclCluster(broker.bootstrap), connection_to(broker.bootstrap)
        acls.await_coordinators(GROUPS)
        until(lambda: not NOT_LOADED & set(told(root).values()))
        root.close()
        bob = connection_to(broker.addresses["BARE"], PasswordLogin("PLAIN", "bob", PASSWORD))
        acls.delete(EVERY_ACL)
        yield Authorizing(acls, bob, allows)
        bob.close()
        acls.close()


def test_a_real_kafka_decides_as_the_authorizer_does(authorizing: Authorizing) -> None:
    acls, bob, allows_without_acls = authorizing
    for seed in range(FIRST, FIRST + ROUNDS):
        given = random_acls(Random(seed))
        acls.create(given)
        authorizer = Authorizer(Acls(given), (SUPER_USER,), allows_without_acls)
        assert told(bob) == decided(authorizer), (seed, given)
        acls.delete(EVERY_ACL)
