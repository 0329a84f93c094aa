"""Requests of every API as users who have all they need, less or more, on both brokers."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from apportion.client.connection import Disconnected
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from tests.kafka.acl_matrix.changes import SCRIPTS, unacknowledged
from tests.kafka.acl_matrix.cluster_cases import CLUSTER_CASES
from tests.kafka.acl_matrix.compare import differences, meant
from tests.kafka.acl_matrix.group_cases import GROUP_CASES
from tests.kafka.acl_matrix.group_requests import SESSION_MS
from tests.kafka.acl_matrix.play import play, prepare, tries
from tests.kafka.acl_matrix.side import AclSide, Plain, Users
from tests.kafka.acl_matrix.topic_cases import TOPIC_CASES
from tests.kafka.acl_matrix.values import HERE, OTHER
from tests.kafka.secured import PASSWORD, PLAIN_USERS, Secured
from tests.messages import request

SECURED = "guarded"


@contextmanager
def our_side(directory: Path) -> Iterator[AclSide]:
    """Our broker, with a listener where the users log in by PLAIN."""
    settings: Any = {
        "listeners": "BARE://127.0.0.1:0",
        "listener.security.protocol.map": "BARE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.bare.plain.sasl.jaas.config": PLAIN_USERS,
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:alice",
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.max.session.timeout.ms": SESSION_MS,
        "group.initial.rebalance.delay.ms": 0,
    }
    with EmbeddedBroker(directory, **settings) as broker:
        side = AclSide("apportion", broker.bootstrap, PASSWORD)
        yield side
        side.close()


@pytest.fixture
def sides(secured: Secured, tmp_path: Path) -> Iterator[tuple[AclSide, AclSide]]:
    """Our broker and a real Kafka, where users log in by PLAIN, without an ACL."""
    theirs = AclSide("Kafka", secured.broker.addresses["BARE"], PASSWORD)
    with our_side(tmp_path) as ours:
        yield ours, theirs
        theirs.revoke_all()
        theirs.remove_groups()
        theirs.close()


def test_both_brokers_answer_alike_to_users_with_more_or_less_than_they_need(
    sides: tuple[AclSide, AclSide],
) -> None:
    users, rows = Users(), meant()
    # Those of topics come first: a user may see all topics, and later cases make some.
    wanted = tries([*TOPIC_CASES, *GROUP_CASES, *CLUSTER_CASES], users)
    for side in sides:
        prepare(side, users)
    unmeant = []
    for each in wanted:
        ours, theirs = (play(side, each) for side in sides)
        for seen in differences(each, ours, theirs):
            row = next((row for row in rows if row.matches(seen)), None)
            if row is None:
                unmeant.append(seen.line())
            else:
                row.seen += 1
    print(f"{len(wanted)} tries of {len(users.by_grants)} users")
    assert unmeant == [], f"{len(unmeant)} differences:\n" + "\n".join(unmeant[:40])
    assert [row.name for row in rows if not row.seen] == []


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_change_of_acls_is_felt_alike_on_both_brokers(
    sides: tuple[AclSide, AclSide], script: Callable[[AclSide, str], Plain]
) -> None:
    token = str(time.time_ns())
    shown = []
    for side in sides:
        side.revoke_all()
        side.wait_for_coordinator()
        side.make_topics((HERE, OTHER))
        shown.append(script(side, token))
    assert shown[0] == shown[1]


def test_a_refused_producer_without_acknowledgements_loses_its_connection(
    sides: tuple[AclSide, AclSide],
) -> None:
    shown = []
    for side in sides:
        side.revoke_all()
        side.wait_for_coordinator()
        side.make_topics((HERE, OTHER))
        shown.append(unacknowledged(side))
    assert shown == [["goes on", "closed"]] * 2


def test_a_real_kafka_does_not_answer_who_may_not_describe_all_users(
    sides: tuple[AclSide, AclSide],
) -> None:
    everybody = request("DescribeUserScramCredentials", users=None)
    ours, theirs = sides
    refused = ours.call(everybody, user="bob")
    assert (refused.error_code, refused.results) == (Code.CLUSTER_AUTHORIZATION_FAILED, ())
    with pytest.raises(Disconnected, match="did not answer"):
        theirs.call(everybody, user="bob", timeout_ms=2_000)
