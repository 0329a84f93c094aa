"""`EmbeddedBroker(security=...)`: what it gives to clients lets them in, and nobody else."""

import logging
import socket
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from apportion.broker import (
    AclBinding,
    AclOperation,
    BrokerSecurity,
    EmbeddedBroker,
    PatternType,
    ResourceType,
    SettingRefused,
)
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.errors import Code, Refused
from apportion.security.scram_credentials import Decoys, ScramMechanism
from apportion.server.security_shapes import EXAMPLE
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from tests.node.acl_requests import acl

security_of: Any = BrokerSecurity  # with types that a checker would not take
NO_PASSWORD = "security has a user without a name or a password."
SECRET = 'a "secret", \\ and ; all'


def reached(broker: EmbeddedBroker, **options: Any) -> list[str]:
    """The topics that a client with these options is shown, once it has made one."""
    cluster = Cluster(broker.bootstrap, security=client_security(options))
    try:
        topic = cluster.create_topic("flights", 1)
        cluster.produce(partitions_of(topic)[0], encode_batch([(None, b"v", ())], timestamp_ms=1))
        return [topic.name]
    finally:
        cluster.close()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_protocol_alone_secures_a_broker(protocol: str) -> None:
    with EmbeddedBroker(security=protocol) as broker:
        assert reached(broker, **broker.client_options()) == ["flights"]
        assert list(broker.users) == ([] if protocol == "SSL" else ["alice"])
        assert bool(broker.ca_location) == protocol.endswith("SSL")


def test_a_salt_is_as_long_as_that_of_a_user_who_does_not_exist() -> None:
    with EmbeddedBroker(security="SASL_PLAINTEXT") as broker:
        assert broker._server is not None
        lengths = {
            mechanism: [len(each.salt) for each in users.values()]
            for mechanism, users in broker._server.scram_credentials.items()
        }
    decoys = Decoys(b"key")
    assert lengths == {each: [len(decoys.credential(each, "nobody").salt)] for each in lengths}
    assert set(lengths) == set(ScramMechanism)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in_by_every_mechanism(mechanism: str) -> None:
    security = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"bob": SECRET})
    with EmbeddedBroker(security=security) as broker:
        options = broker.client_options("bob", mechanism=mechanism)
        assert options == {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_username": "bob",
            "sasl_password": SECRET,
        }
        assert reached(broker, **options) == ["flights"]
        with pytest.raises(Refused) as refused:
            reached(broker, **options | {"sasl_password": "wrong"})
        assert refused.value.code == Code.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("user", ["a b", "a=b;", 'the "first" \\ one', "user's", "Ä"])
def test_a_user_of_plain_may_have_any_name(user: str) -> None:
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT", users={user: SECRET, "bob": "b"}, mechanisms=["PLAIN"]
    )
    with EmbeddedBroker(security=security) as broker:
        assert reached(broker, **broker.client_options(user)) == ["flights"]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_client_of_librdkafka_gets_all_that_it_needs(protocol: str) -> None:
    security = BrokerSecurity(protocol=protocol, needs_client_certificate=protocol == "SSL")
    with EmbeddedBroker(security=security) as broker:
        admin = AdminClient(broker.client_config("alice"))
        assert list(admin.list_topics(timeout=30).brokers) == [1]


def test_a_client_that_checks_certificates_strictly_connects() -> None:
    with EmbeddedBroker(security="SSL") as broker:
        strict = ssl.create_default_context(cafile=broker.ca_location)
        strict.verify_flags |= ssl.VERIFY_X509_STRICT  # newer Pythons set it
        host, _, port = broker.bootstrap.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=30) as plain,
            strict.wrap_socket(plain, server_hostname=host) as peer,
        ):
            assert peer.version() == "TLSv1.3"


def test_a_client_certificate_is_a_principal_of_acls() -> None:
    security = BrokerSecurity(
        protocol="SSL", needs_client_certificate=True, super_users=["User:CN=alice"]
    )
    with EmbeddedBroker(security=security) as broker:
        assert reached(broker, **broker.client_options("alice")) == ["flights"]
        with pytest.raises(Refused) as refused:
            reached(broker, **broker.client_options("bob"))
        assert refused.value.code == Code.TOPIC_AUTHORIZATION_FAILED
        assert broker.client_properties("alice") == {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": broker.ca_location,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": broker.client_options("alice")["ssl_key_location"],
        }


def allowed(user: str, operation: AclOperation) -> AclBinding:
    return acl(principal=f"User:{user}", operation=operation)


def test_acls_allow_what_they_say_and_no_more() -> None:
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"alice": "a-secret", "bob": "b-secret"},
        acls=[
            allowed("alice", AclOperation.CREATE),
            allowed("alice", AclOperation.WRITE),
            allowed("bob", AclOperation.READ),
        ],
    )
    with EmbeddedBroker(security=security) as broker:
        assert reached(broker, **broker.client_options("alice")) == ["flights"]
        with pytest.raises(Refused) as refused:
            reached(broker, **broker.client_options("bob"))
        assert refused.value.code == Code.TOPIC_AUTHORIZATION_FAILED


def test_a_later_broker_on_the_directory_has_the_new_password(tmp_path: Path) -> None:
    for password in ("the first", "the second"):
        security = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"alice": password})
        with EmbeddedBroker(tmp_path, security=security) as broker:
            options = broker.client_options()
            assert options["sasl_password"] == password
            cluster = Cluster(broker.bootstrap, security=client_security(options))
            assert cluster.call(DescribeClusterRequest()).error_code == 0
            cluster.close()


def test_users_and_acls_of_an_earlier_broker_on_the_directory_stay(tmp_path: Path) -> None:
    sasl: dict[str, Any] = {"protocol": "SASL_PLAINTEXT", "mechanisms": ["SCRAM-SHA-256"]}
    acls = [allowed("bob", AclOperation.CREATE), allowed("bob", AclOperation.WRITE)]
    first = BrokerSecurity(users={"bob": "a secret"}, acls=acls, **sasl)
    with EmbeddedBroker(tmp_path, security=first) as broker:
        options = broker.client_options("bob")
    second = BrokerSecurity(users={"alice": "another"}, super_users=["User:alice"], **sasl)
    with EmbeddedBroker(tmp_path, security=second) as broker:
        assert broker.users == {"alice": "another"}
        assert reached(broker, **options) == ["flights"]


def test_keys_are_for_their_owner_alone_and_go_with_the_broker() -> None:
    security = BrokerSecurity(protocol="SSL", needs_client_certificate=True)
    broker = EmbeddedBroker(security=security)
    broker.client_options("alice")
    directory = Path(broker.ca_location).parent
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == dict.fromkeys(("ca.pem", "broker.pem", "client-alice.pem"), 0o600)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    broker.close()
    assert not directory.exists()


def test_a_password_is_in_no_log_line_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    security = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"alice": "one-long-secret"})
    with EmbeddedBroker(security=security) as broker:
        reached(broker, **broker.client_options())
        shown = caplog.text + repr(security) + repr(broker)
    assert "one-long-secret" not in shown


@pytest.mark.parametrize(
    ("security", "sentence"),
    [
        ("TLS", "security must be SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'."),
        (
            security_of(mechanisms=["GSSAPI"]),
            "security has the mechanism 'GSSAPI'; there are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
            "OAUTHBEARER.",
        ),
        (security_of(mechanisms=[]), "security has no mechanism."),
        (
            security_of(protocol="SSL", users={"alice": "s"}),
            "security has users, and SSL no SASL.",
        ),
        (security_of(users={"alice": ""}), NO_PASSWORD),
        (
            security_of(users={"alice": "s\udcff"}),
            "security has a user with NUL or a lone surrogate in the name or the password.",
        ),
        (
            security_of(needs_client_certificate=True),
            "security needs client certificates with the protocol SSL alone.",
        ),
        (security_of(super_users=["bob"]), "super_users has 'bob': write User:bob."),
        (
            True,
            "security must be a protocol, such as 'SASL_SSL', or a BrokerSecurity of "
            "apportion.broker, and is of type bool.",
        ),
        (
            {"users": {"alice": SECRET}},
            "security must be a protocol, such as 'SASL_SSL', or a BrokerSecurity of "
            "apportion.broker, and is of type dict.",
        ),
        *(
            (
                security_of(users=users),
                "security has users that are no dict: write passwords by name, as "
                "users={'alice': 'PASSWORD'}.",
            )
            for users in (["alice"], "alice", [("alice", SECRET)], None)
        ),
        (security_of(users={"alice": None}), NO_PASSWORD),
        *(
            (
                security_of(mechanisms=mechanisms),
                "security has mechanisms that are no list of texts: write "
                f"mechanisms=['SCRAM-SHA-512'], not {mechanisms!r}.",
            )
            for mechanisms in ("PLAIN", None, [5])
        ),
        (
            security_of(super_users="User:alice"),
            "security has super_users that are no list of texts: write "
            "super_users=['User:alice'], not 'User:alice'.",
        ),
        (
            security_of(needs_client_certificate="yes"),
            "needs_client_certificate must be True or False, not 'yes'.",
        ),
        (security_of(acls=["x"]), f"acls has 'x', which is no AclBinding: write {EXAMPLE}."),
        (
            security_of(acls=[tuple(acl())]),
            f"acls has {tuple(acl())!r}, which is no AclBinding: write {EXAMPLE}.",
        ),
        *(
            (
                security_of(acls=acls),
                f"security has acls that are no list: write acls=[{EXAMPLE}]; not {acls!r}.",
            )
            for acls in (acl(), "x", None)
        ),
        (
            security_of(acls=[acl(operation="READ")]),
            "acls has an AclBinding whose operation is 'READ': write AclOperation. and one of "
            "ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, "
            "ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT.",
        ),
        (
            security_of(acls=[acl(pattern_type=PatternType.MATCH)]),
            "acls has an AclBinding whose pattern_type is <PatternType.MATCH: 2>: write "
            "PatternType. and one of LITERAL, PREFIXED.",
        ),
        (
            security_of(acls=[acl(name="")]),
            "acls has an AclBinding whose name is '': write a text, or * for all.",
        ),
        (
            security_of(acls=[acl(principal="alice")]),
            "acls has an AclBinding of 'alice', which nobody is: write User:alice.",
        ),
        (
            security_of(acls=[acl(resource_type=ResourceType.CLUSTER)]),
            "acls has an AclBinding of the cluster 'flights': its name is kafka-cluster.",
        ),
    ],
)
def test_a_wrong_security_is_refused(security: Any, sentence: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        EmbeddedBroker(security=security)
    assert str(refused.value) == sentence


def test_a_client_that_there_is_not_gets_no_options() -> None:
    with EmbeddedBroker(security="SASL_PLAINTEXT") as broker:
        with pytest.raises(ValueError, match=r"^there is no user 'eve': there are alice$"):
            broker.client_options("eve")
        with pytest.raises(ValueError, match=r"^the broker has no mechanism 'OAUTHBEARER': it has"):
            broker.client_options(mechanism="OAUTHBEARER")
