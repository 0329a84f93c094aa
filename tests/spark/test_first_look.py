"""What `load()` says of a stream's cluster before a query runs, on brokers and without Spark."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import apportion.member.batch.retry_limits
from apportion.broker import BrokerSecurity, EmbeddedBroker, ResourceType
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.member.batch.membership import MembershipFailed
from apportion.security.jaas import jaas_of
from apportion.spark.options.values import OptionError
from apportion.spark.reading.source_columns import source_columns
from apportion.spark.source import GroupSource
from tests.client.name_servers import NO_ANSWER, NO_SUCH_NAME, answer_with
from tests.node.acl_requests import acl
from tests.spark.error_page import assert_on_page
from tests.spark.in_process_broker import bootstrap, clients

__all__ = ["bootstrap", "clients"]

AWAY = "127.0.0.1:1"
NO_CONNECTION = (
    f"no connection to the broker at {AWAY}: Connection refused; see that a broker listens there "
    "and can be reached from this host, or give another kafka.bootstrap.servers"
)


@pytest.fixture
def secured() -> Iterator[EmbeddedBroker]:
    """A broker where alice may read the topic and the group of `load`; bob may nothing."""
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"admin": "a", "alice": "b", "bob": "c"},
        mechanisms=["PLAIN"],
        super_users=["User:admin"],
        acls=[acl("t"), acl("g", resource_type=ResourceType.GROUP)],
    )
    with EmbeddedBroker(security=security) as running:
        admin = Cluster(
            running.bootstrap, security=client_security(running.client_options("admin"))
        )
        for topic in ("t", "another"):
            admin.create_topic(topic, 2)
        admin.close()
        yield running


@pytest.fixture
def patience_s(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`patience_s(1)`: a query that begins waits so long for what may pass."""

    def wait(seconds: float) -> None:
        limits = apportion.member.batch.retry_limits
        monkeypatch.setattr(limits, "FIRST_ASSIGNMENT_TIMEOUT_S", seconds)

    return wait


def load(at: str, **options: str) -> list[str]:
    """The columns that `load()` returns."""
    given = {"kafka.bootstrap.servers": at, "kafka.group.id": "g", "subscribe": "t", **options}
    return GroupSource(given).schema().names


def refusal(at: str, **options: str) -> str:
    with pytest.raises(MembershipFailed) as refused:
        load(at, **options)
    return str(refused.value)


def as_user(broker: EmbeddedBroker, name: str, password: str | None = None) -> dict[str, Any]:
    properties = broker.client_properties(name)
    if password is not None:
        properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(
            'password="c"', f'password="{password}"'
        )
    return {f"kafka.{key}": value for key, value in properties.items()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "t,not-there-yet"},
        {"subscribe": "", "subscribePattern": "t|not-there-yet"},
        {"subscribe": "", "assign": '{"t":[1]}'},
        {"subscribe": "not-there-yet"},
        {"subscribe": "", "subscribePattern": "not-there-yet"},
    ],
)
def test_a_stream_that_can_begin_changes_nothing_when_it_is_loaded(
    clients: Cluster, bootstrap: str, options: dict[str, str]
) -> None:
    if not clients.topics(["t"], fresh=True):
        clients.create_topic("t", 2)
    assert load(bootstrap, **options)[:2] == ["key", "value"]
    assert clients.list_groups() == []
    assert len(clients.topics(["t", "not-there-yet"], fresh=True)) == 1


def test_a_host_that_does_not_exist_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, nosuch=NO_SUCH_NAME)
    with pytest.raises(OptionError) as refused:
        load("nosuch:9092")
    assert str(refused.value) == (
        "option kafka.bootstrap.servers: no address is known for the host 'nosuch' of the "
        "bootstrap servers (Name or service not known): see that the name is right."
    )
    assert_on_page("a host that does not exist", str(refused.value))
    given = {"kafka.bootstrap.servers": "nosuch:9092", "subscribe": "t"}
    with pytest.raises(OptionError, match="'nosuch'"):
        GroupSource(given).reader(source_columns(include_headers=False)).partitions()


def test_a_name_server_that_does_not_answer_is_waited_for(
    patience_s: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, silent=NO_ANSWER)
    patience_s(1)
    assert refusal("silent:9092").startswith("group g at silent:9092: no connection to the broker")


def test_a_broker_that_is_not_there_is_waited_for_and_then_named(
    patience_s: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    patience_s(1)
    said = refusal(AWAY)
    assert said == f"group g at {AWAY}: {NO_CONNECTION}"
    assert_on_page("no broker at the address", said)
    assert caplog.messages == [
        f"group g: no connection to the broker at {AWAY}: Connection refused; the query tries "
        "again, and ends after 1 s without an answer; see that a broker listens there and can be "
        "reached from this host, or give another kafka.bootstrap.servers"
    ]


def test_a_broker_that_comes_in_time_is_enough() -> None:
    with EmbeddedBroker() as gone:
        at = gone.bootstrap
    found: list[list[str]] = []
    loading = threading.Thread(target=lambda: found.append(load(at)))
    loading.start()
    with EmbeddedBroker(listeners=at):
        loading.join(60)
    assert found[0][:2] == ["key", "value"]


def test_a_batch_read_joins_no_group_and_asks_nobody() -> None:
    columns = GroupSource({"kafka.bootstrap.servers": AWAY, "subscribe": "t"}).schema().names
    assert columns[:2] == ["key", "value"]


def test_a_partition_that_does_not_exist_cannot_be_assigned(
    clients: Cluster, bootstrap: str
) -> None:
    clients.create_topic("of-one", 1)
    said = refusal(bootstrap, subscribe="", assign='{"of-one":[0,1]}')
    assert_on_page("an assigned partition that does not exist", said)


def test_a_wrong_password_is_said_at_once(secured: EmbeddedBroker) -> None:
    said = refusal(secured.bootstrap, **as_user(secured, "bob", "wrong"))
    assert said.startswith(f"group g at {secured.bootstrap}: SASL_AUTHENTICATION_FAILED: ")
    assert_on_page("a login that is refused", said)


def test_a_refusal_names_the_options_as_spark_has_them(secured: EmbeddedBroker) -> None:
    at = secured.bootstrap
    refused = f"group g at {at}: "
    assert refusal(at, **{"kafka.security.protocol": "SSL"}) == (
        f"{refused}SSL_HANDSHAKE_FAILED: no TLS with the broker at {at}: it speaks no TLS: set "
        "kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name a listener of SSL or "
        "SASL_SSL"
    )
    other = as_user(secured, "alice") | {
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": jaas_of("SCRAM-SHA-512", {"username": "a", "password": "b"}),
    }
    assert refusal(at, **other) == (
        f"{refused}UNSUPPORTED_SASL_MECHANISM: the broker at {at} does not offer the SASL "
        "mechanism SCRAM-SHA-512; it offers PLAIN: set kafka.sasl.mechanism to one of these"
    )


def test_a_login_without_rights_is_said_after_the_time_of_an_acl_that_comes_late(
    secured: EmbeddedBroker, patience_s: Callable[[float], None]
) -> None:
    alice, bob = as_user(secured, "alice"), as_user(secured, "bob")
    assert load(secured.bootstrap, **alice)
    patience_s(2)
    other_topic, other_group = {"subscribe": "another"}, {"kafka.group.id": "h"}
    assert_on_page("no right to read the topic", refusal(secured.bootstrap, **bob))
    assert_on_page("no right to read the topic", refusal(secured.bootstrap, **alice | other_topic))
    assert_on_page("no right to read the group", refusal(secured.bootstrap, **alice | other_group))
