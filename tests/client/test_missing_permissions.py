"""A principal without a permission, on a broker with ACLs: what its clients raise, and how soon."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from apportion import Consumer
from apportion.broker import (
    AclBinding,
    AclOperation,
    BrokerSecurity,
    EmbeddedBroker,
    PatternType,
    ResourceType,
)
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.errors import Code, Refused
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from tests.node.acl_requests import acl, creating

PROTOCOLS = ("consumer", "classic")
WITHIN_S = 10
ADD = "`apportion acls add --allow-principal User:NAME --operation Read"
GIVES = f"a user who may alter the cluster gives READ, which includes it, by {ADD}"


def of_bob(name: str, resource: ResourceType = ResourceType.TOPIC, **others: Any) -> AclBinding:
    return acl(name, principal="User:bob", resource_type=resource, **others)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with three topics of a record each, where bob may only be in groups called etl-*."""
    etl = of_bob("etl-", ResourceType.GROUP, pattern_type=PatternType.PREFIXED)
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"alice": "a-secret", "bob": "b-secret"},
        mechanisms=["PLAIN"],
        super_users=["User:alice"],
        acls=[etl],
    )
    with EmbeddedBroker(security=security) as broker:
        alice = admin(broker)
        for name in ("flights", "hotels", "shown"):
            topic = alice.create_topic(name, 1)
            batch = encode_batch([(None, name.encode(), ())], timestamp_ms=1)
            alice.produce(partitions_of(topic)[0], batch)
        alice.close()
        yield broker


def admin(broker: EmbeddedBroker) -> Cluster:
    return Cluster(broker.bootstrap, security=client_security(broker.client_options("alice")))


def allow(broker: EmbeddedBroker, *acls: AclBinding) -> None:
    alice = admin(broker)
    assert [each.error_code for each in alice.call(creating(*acls)).results] == [0] * len(acls)
    alice.close()


def consumer_of_bob(broker: EmbeddedBroker, group: str, **options: Any) -> Consumer:
    reset: Any = {"auto_offset_reset": "earliest"}
    return Consumer(broker.bootstrap, group, **broker.client_options("bob"), **reset, **options)


def refused_poll(consumer: Consumer) -> Refused:
    """What a poll raises within the time."""
    until_s = time.monotonic() + WITHIN_S
    with pytest.raises(Refused) as refused:
        while time.monotonic() < until_s:
            consumer.poll(200)
    return refused.value


def values(consumer: Consumer, count: int) -> list[bytes | None]:
    """The values of the next records; polls that are refused are repeated."""
    found: list[bytes | None] = []
    until_s = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < until_s:
        try:
            found += [record.value for record in consumer.poll(200)]
        except Refused as refused:
            assert refused.code is Code.TOPIC_AUTHORIZATION_FAILED
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_names_the_topics_that_it_may_not_read_and_reads_once_it_may(
    broker: EmbeddedBroker, protocol: str
) -> None:
    names = [f"{protocol}-a", f"{protocol}-b"]
    alice = admin(broker)
    for name in names:
        alice.produce(
            partitions_of(alice.create_topic(name, 1))[0],
            encode_batch([(None, name.encode(), ())], timestamp_ms=1),
        )
    alice.close()
    allow(broker, of_bob("shown"))
    options: dict[str, Any] = {"topics": [*names, "shown"], "group_protocol": protocol}
    with consumer_of_bob(broker, f"etl-{protocol}", **options) as consumer:
        refused = refused_poll(consumer)
        assert (refused.code, refused.why) == (
            Code.TOPIC_AUTHORIZATION_FAILED,
            f"this client's principal has no permission for DESCRIBE on the topics '{names[0]}', "
            f"'{names[1]}'; {GIVES} --topic {names[0]} --topic {names[1]}`",
        )
        allow(broker, *map(of_bob, names))
        expected = [*(name.encode() for name in names), b"shown"]
        assert sorted(values(consumer, 3), key=str) == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_names_the_group_that_refuses_it_until_there_is_a_new_one(
    broker: EmbeddedBroker, protocol: str
) -> None:
    group = f"later-{protocol}"
    allow(broker, of_bob("shown"))
    options: dict[str, Any] = {"topics": "shown", "group_protocol": protocol}
    with consumer_of_bob(broker, group, **options) as consumer:
        refused = refused_poll(consumer)
        allow(broker, of_bob(group, ResourceType.GROUP))
        with consumer_of_bob(broker, group, **options) as another:
            assert values(another, 1) == [b"shown"]
        again = refused_poll(consumer)
    for each in (refused, again):
        assert (each.code, each.why) == (
            Code.GROUP_AUTHORIZATION_FAILED,
            f"this client's principal has no permission for DESCRIBE on the group '{group}'; "
            f"{GIVES} --group {group}`",
        )


def test_a_topic_that_may_be_described_alone_is_refused_when_it_is_read(
    broker: EmbeddedBroker,
) -> None:
    allow(broker, of_bob("hotels", operation=AclOperation.DESCRIBE))
    with consumer_of_bob(broker, "etl-described", topics="hotels") as consumer:
        refused = refused_poll(consumer)
    assert (refused.code, refused.why) == (
        Code.TOPIC_AUTHORIZATION_FAILED,
        "Fetch of hotels-0: this client's principal has no permission for READ on the topic "
        f"'hotels'; a user who may alter the cluster gives it by {ADD} --topic hotels`",
    )


def test_an_expression_matches_what_may_be_described_and_refuses_nothing(
    broker: EmbeddedBroker,
) -> None:
    allow(broker, of_bob("shown"))
    with consumer_of_bob(broker, "etl-expression") as consumer:
        consumer.subscribe(pattern="flights|shown")
        assert values(consumer, 1) == [b"shown"]
        assert [each.topic for each in consumer.assignment] == ["shown"]
