"""Tokens of an `EmbeddedBroker`: its own let clients in, and others do not."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from apportion import Consumer as OurConsumer
from apportion.broker import BrokerSecurity, EmbeddedBroker, SettingRefused
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.errors import Code, Refused
from apportion.security.acls import AclBinding, AclOperation, ResourceType
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from tests.node.acl_requests import acl

TOKENS: dict[str, Any] = {"protocol": "SASL_PLAINTEXT", "mechanisms": ["OAUTHBEARER"]}
SIGNED, UNSECURED = BrokerSecurity(**TOKENS), BrokerSecurity(unsecured_tokens=True, **TOKENS)
DEADLINE_S = 30


def is_let_in(broker: EmbeddedBroker, token: str) -> bool:
    """Whether the broker answers a client that shows this token."""
    options = broker.client_options() | {"oauth_cb": lambda _config: token}
    cluster = Cluster(broker.bootstrap, security=client_security(options))
    try:
        assert cluster.call(DescribeClusterRequest()).error_code == 0
        return True
    except Refused as refused:
        assert refused.code == Code.SASL_AUTHENTICATION_FAILED
        return False
    finally:
        cluster.close()


def grants(user: str) -> list[AclBinding]:
    """What a member of the group etl needs that writes to flights and reads from it."""
    topic = [AclOperation.CREATE, AclOperation.WRITE, AclOperation.READ]
    return [
        *(acl("flights", principal=f"User:{user}", operation=each) for each in topic),
        acl("etl", principal=f"User:{user}", resource_type=ResourceType.GROUP),
    ]


def write(config: dict[str, Any]) -> None:
    """librdkafka writes a record."""
    producer = Producer(config)
    producer.produce("flights", b"a flight")
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize(("protocol", "unsecured"), [("SASL_PLAINTEXT", False), ("SASL_SSL", True)])
def test_librdkafka_writes_and_we_read_with_tokens(protocol: str, unsecured: bool) -> None:
    security = BrokerSecurity(
        protocol=protocol,
        mechanisms=["OAUTHBEARER"],
        unsecured_tokens=unsecured,
        acls=grants("bob"),
    )
    with EmbeddedBroker(security=security) as broker:
        write(broker.client_config("bob"))
        options = broker.client_options("bob") | {"auto_offset_reset": "earliest"}
        with OurConsumer(broker.bootstrap, "etl", topics="flights", **options) as consumer:
            assert [record.value for record in consumer.poll(1_000 * DEADLINE_S)] == [b"a flight"]


def test_librdkafka_reads_in_a_group_with_its_own_tokens_for_tests() -> None:
    security = BrokerSecurity(acls=grants("carol"), unsecured_tokens=True, **TOKENS)
    with EmbeddedBroker(security=security) as broker:
        config: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=carol",
        }
        write(config)
        consumer = Consumer(config | {"group.id": "etl", "auto.offset.reset": "earliest"})
        consumer.subscribe(["flights"])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"a flight")
        consumer.close()


@pytest.mark.parametrize("security", [SIGNED, UNSECURED], ids=["signed", "unsecured"])
def test_a_token_is_its_users_until_it_is_over(security: BrokerSecurity) -> None:
    with EmbeddedBroker(security=security) as broker:
        assert is_let_in(broker, broker.token("anybody"))
        assert not is_let_in(broker, broker.token("anybody", lifetime_s=-60))
        assert not is_let_in(broker, broker.token("anybody", nbf=time.time() + 600))


def test_only_the_brokers_own_key_signs_tokens() -> None:
    with EmbeddedBroker(security=SIGNED) as broker, EmbeddedBroker(security=SIGNED) as other:
        assert not is_let_in(broker, other.token("alice"))
    with EmbeddedBroker(security=SIGNED) as broker, EmbeddedBroker(security=UNSECURED) as other:
        assert not is_let_in(broker, other.token("alice"))


def test_tokens_fit_an_expected_audience() -> None:
    with EmbeddedBroker(
        security=SIGNED, sasl_oauthbearer_expected_audience="flights-team"
    ) as broker:
        assert not is_let_in(broker, broker.token("alice"))
        assert is_let_in(broker, broker.token("alice", aud="flights-team"))


def test_users_have_passwords_beside_tokens_and_none_with_tokens_alone() -> None:
    with EmbeddedBroker(security=SIGNED) as broker:
        assert broker.users == {}
    both = BrokerSecurity(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN", "OAUTHBEARER"])
    with EmbeddedBroker(security=both) as broker:
        assert list(broker.users) == ["alice"]
        assert broker.client_options()["sasl_mechanism"] == "PLAIN"
        assert is_let_in(broker, broker.client_options(mechanism="OAUTHBEARER")["oauth_cb"]("")[0])


def test_only_the_public_key_is_in_a_file_and_goes_with_the_broker() -> None:
    broker = EmbeddedBroker(security=SIGNED)
    assert broker._security is not None
    path = Path(broker._security._key_set)
    (key,) = json.loads(path.read_text())["keys"]
    assert sorted(key) == ["alg", "crv", "kid", "kty", "use", "x", "y"]
    broker.close()
    assert not path.parent.exists()


def test_java_has_its_own_unsecured_tokens_and_none_that_are_signed() -> None:
    with EmbeddedBroker(security=UNSECURED) as broker:
        assert broker.client_properties("alice") == {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer."
            'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
        }
    with (
        EmbeddedBroker(security=SIGNED) as broker,
        pytest.raises(ValueError, match=r"^properties of Java have no token that is signed: make"),
    ):
        broker.client_properties("alice")


def test_a_broker_without_the_mechanism_has_no_tokens() -> None:
    with (
        EmbeddedBroker() as broker,
        pytest.raises(ValueError, match=r"^a broker without security has no tokens$"),
    ):
        broker.token("alice")
    with (
        EmbeddedBroker(security="SASL_PLAINTEXT") as broker,
        pytest.raises(ValueError, match=r"^the broker has no mechanism 'OAUTHBEARER': it has"),
    ):
        broker.token("alice")


@pytest.mark.parametrize(
    ("security", "sentence"),
    [
        (
            BrokerSecurity(users={"alice": "a password"}, **TOKENS),
            "security has users with passwords, and OAUTHBEARER takes tokens.",
        ),
        (
            BrokerSecurity(unsecured_tokens=True),
            "security has unsecured_tokens, and no mechanism OAUTHBEARER.",
        ),
    ],
)
def test_a_security_whose_parts_do_not_fit_is_refused(
    security: BrokerSecurity, sentence: str
) -> None:
    with pytest.raises(SettingRefused) as refused:
        EmbeddedBroker(security=security)
    assert str(refused.value) == sentence
