"""Settings as clients are told them: sources, synonyms, kinds of resources, and after a restart."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.store.metadata_log import MetadataLog
from apportion.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.node import kit
from tests.node.config_requests import (
    INTERVAL,
    LIST_ALL,
    SESSION,
    alter,
    codes,
    describe,
    listed,
    own,
    shown,
    told,
    whole,
)
from tests.node.kit import NodeDriver

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
BROKER_SESSION = ("group.consumer.session.timeout.ms", "45000", 5)
BROKER_INTERVAL = ("group.consumer.heartbeat.interval.ms", "5000", 5)
MOST, MOST_OF_TOPIC = "message.max.bytes", "max.message.bytes"
REPLICAS = "min.insync.replicas"


def test_a_setting_of_one_broker_goes_before_that_of_all(driver: NodeDriver) -> None:
    driver.create("t")
    alter(driver, "broker", "", message_max_bytes="6000")
    alter(driver, "broker", "1", message_max_bytes="5000")
    synonyms = [(MOST, "5000", 2), (MOST, "6000", 3)]
    default = (MOST, "1048588", 5)
    assert shown(driver, "broker", "1", MOST) == {MOST: ("5000", 2, *synonyms, default)}
    assert shown(driver, "topic", "t", MOST_OF_TOPIC) == {
        MOST_OF_TOPIC: ("5000", 2, *synonyms, default)
    }
    assert shown(driver, "broker", "", MOST) == {MOST: ("6000", 3, synonyms[1])}
    alter(driver, "broker", "1", message_max_bytes=None)
    assert shown(driver, "broker", "1", MOST) == {MOST: ("6000", 3, synonyms[1], default)}
    alter(driver, "topic", "t", max_message_bytes="7000")
    assert shown(driver, "topic", "t", MOST_OF_TOPIC) == {
        MOST_OF_TOPIC: ("7000", 1, (MOST_OF_TOPIC, "7000", 1), synonyms[1], default)
    }


def test_a_setting_that_a_broker_was_started_with_is_a_synonym() -> None:
    driver = kit.NodeDriver(message_max_bytes=9000)
    alter(driver, "broker", "1", message_max_bytes="5000")
    assert shown(driver, "broker", "1", MOST) == {
        MOST: (
            "5000",
            2,
            (MOST, "5000", 2),
            (MOST, "9000", 4),
            (MOST, "1048588", 5),
        )
    }


ALL, ONE, DEFAULT = (REPLICAS, "1", 3), (REPLICAS, "2", 4), (REPLICAS, "1", 5)


def test_a_cluster_has_min_insync_replicas_for_all_brokers_from_its_start(
    driver: NodeDriver,
) -> None:
    """KIP-966, as on a Kafka that was formatted by 4.1 or later."""
    driver.create("t")
    resources = (("broker", ""), ("broker", "1"), ("topic", "t"))

    def everywhere(driver: NodeDriver) -> list[Any]:
        return [shown(driver, kind, name, REPLICAS)[REPLICAS] for kind, name in resources]

    assert everywhere(driver) == [("1", 3, ALL), ("1", 3, ALL, DEFAULT), ("1", 3, ALL, DEFAULT)]
    assert shown(driver, "broker", "") == {REPLICAS: ("1", 3, ALL)}
    alter(driver, "topic", "t", min_insync_replicas="3")
    three = (REPLICAS, "3", 1)
    assert shown(driver, "topic", "t", REPLICAS) == {REPLICAS: ("3", 1, three, ALL, DEFAULT)}
    alter(driver, "topic", "t", min_insync_replicas=None)
    alter(driver, "broker", "", min_insync_replicas="4")
    four = (REPLICAS, "4", 3)
    altered = [("4", 3, four), ("4", 3, four, DEFAULT), ("4", 3, four, DEFAULT)]
    assert (everywhere(driver), everywhere(driver.crash())) == (altered, altered)
    started = kit.NodeDriver(min_insync_replicas=2)
    two = (REPLICAS, "2", 3)
    assert shown(started, "broker", "1", REPLICAS)[REPLICAS] == ("2", 3, two, ONE, DEFAULT)


def test_min_insync_replicas_is_altered_for_all_brokers_and_never_removed(
    driver: NodeDriver,
) -> None:
    stays = (Code.INVALID_CONFIG, f"{REPLICAS} stays: set it, or leave it")
    assert alter(driver, "broker", "", min_insync_replicas=None) == stays
    most = ((MOST, "6000"),)
    for changes, code in ((most, Code.INVALID_CONFIG), ((), Code.INVALID_CONFIG)):
        assert codes(driver.call(whole(("broker", "", changes)))) == [code]
    assert alter(driver, "broker", "1", min_insync_replicas="1") == (
        Code.INVALID_CONFIG,
        f"{REPLICAS} is altered for all brokers, not for one",
    )
    assert alter(driver, "broker", "", min_insync_replicas="0")[0] == Code.INVALID_REQUEST
    assert shown(driver, "broker", "") == {REPLICAS: ("1", 3, ALL)}
    assert codes(driver.call(whole(("broker", "", (*most, (REPLICAS, "2")))))) == [Code.NONE]
    assert own(driver, "broker", "") == {MOST: "6000", REPLICAS: "2"}
    assert codes(driver.call(whole(("broker", "", ((REPLICAS, "1"),))))) == [Code.NONE]
    assert shown(driver, "broker", "") == {REPLICAS: ("1", 3, ALL)}


ROLL, HOURS = "log.roll.ms", "log.roll.hours"


def test_a_setting_in_coarser_units_counts_where_one_in_finer_units_has_no_value() -> None:
    """As in Kafka, a setting of the broker that has no value itself has no synonyms."""
    driver = kit.NodeDriver(log_roll_hours=5)
    driver.create("t")
    hours, default = (HOURS, "5", 4), (HOURS, "168", 5)
    assert shown(driver, "broker", "1", ROLL, HOURS) == {
        ROLL: (None, 5),
        HOURS: ("5", 4, hours, default),
    }
    assert shown(driver, "topic", "t", "segment.ms") == {
        "segment.ms": ("18000000", 4, hours, default)
    }
    alter(driver, "broker", "", log_roll_ms="2000")
    alter(driver, "broker", "1", log_roll_ms="1000")
    synonyms = ((ROLL, "1000", 2), (ROLL, "2000", 3), hours, default)
    assert shown(driver, "broker", "1", ROLL, HOURS) == {
        ROLL: ("1000", 2, *synonyms),
        HOURS: ("5", 4, hours, default),
    }
    assert shown(driver, "topic", "t", "segment.ms") == {"segment.ms": ("1000", 2, *synonyms)}


def test_a_setting_whose_default_is_no_value_in_kafka_is_not_null() -> None:
    name = "authorizer.class.name"
    assert shown(kit.NodeDriver(), "broker", "1", name) == {name: ("", 5, (name, "", 5))}
    driver = kit.NodeDriver(authorizer_class_name="StandardAuthorizer", super_users="User:a")
    synonyms = ((name, "StandardAuthorizer", 4), (name, "", 5))
    driver.caller = driver.caller._replace(principal="User:a")
    assert shown(driver, "broker", "1", name) == {name: ("StandardAuthorizer", 4, *synonyms)}


def test_only_alterable_settings_are_not_read_only(driver: NodeDriver) -> None:
    driver.create("t")
    [of_broker, of_topic, of_group] = (
        driver.call(describe(kind, name)).results[0].configs
        for kind, name in (("broker", "1"), ("topic", "t"), ("group", "g"))
    )
    assert [each.name for each in of_broker if not each.read_only] == [
        "group.consumer.assignment.interval.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "max.connections",
        "message.max.bytes",
        "min.insync.replicas",
        "producer.id.expiration.ms",
    ]
    assert not any(each.read_only for each in (*of_topic, *of_group))


def test_synonyms_and_sentences_are_told_on_request(driver: NodeDriver) -> None:
    def described(**options: bool) -> Any:
        answer = driver.call(describe("group", "g", SESSION, "no.such", **options))
        [entry] = answer.results[0].configs
        return len(entry.synonyms), entry.documentation, entry.config_type

    sentence = "How long a member of a consumer group may be silent."
    assert described(synonyms=False) == (0, None, 3)
    assert described(synonyms=True, documentation=True) == (1, sentence, 3)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        ("group", "", Code.INVALID_REQUEST),
        ("topic", "gone", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("topic", "a b", Code.INVALID_TOPIC_EXCEPTION),
        ("broker", "7", Code.INVALID_REQUEST),
        ("broker", "x", Code.INVALID_REQUEST),
        (BROKER_LOGGER, "1", Code.INVALID_REQUEST),
        (CLIENT_METRICS, "m", Code.INVALID_REQUEST),
        (99, "x", Code.INVALID_REQUEST),
    ],
)
def test_a_resource_that_cannot_be_described_is_refused(
    driver: NodeDriver, kind: Any, name: str, code: Code
) -> None:
    assert shown(driver, kind, name) == code


def test_resources_are_listed_by_kind(driver: NodeDriver) -> None:
    driver.create("t")
    driver.create("s")
    alter(driver, "group", "h", consumer_session_timeout_ms="7000")
    alter(driver, "group", "g", consumer_session_timeout_ms="7000")

    def listing(*kinds: int, version: int = 1) -> Any:
        return listed(driver.call(ListConfigResourcesRequest(resource_types=kinds), version))

    groups, topics = [(GROUP, "g"), (GROUP, "h")], [(TOPIC, "s"), (TOPIC, "t")]
    assert listing() == [*groups, (BROKER, "1"), *topics]
    assert listing(TOPIC, GROUP, TOPIC) == [*groups, *topics]
    assert listing(CLIENT_METRICS, BROKER_LOGGER) == listing(version=0) == []
    assert listing(99) == listing(TOPIC, 0) == Code.UNSUPPORTED_VERSION


def test_a_group_keeps_its_settings_within_new_bounds_of_the_broker() -> None:
    driver = kit.NodeDriver()
    alter(driver, "group", "g", consumer_session_timeout_ms="7000")
    alter(driver, "group", "h", consumer_heartbeat_interval_ms="12000")
    again = kit.NodeDriver(driver.disk.crash(), group_consumer_min_session_timeout_ms=10_000)
    assert shown(again, "group", "g", SESSION)[SESSION][:2] == ("10000", 8)
    again = kit.NodeDriver(
        driver.disk.crash(),
        group_consumer_session_timeout_ms=12_000,
        group_consumer_max_session_timeout_ms=12_000,
    )
    # 12 s is no interval for a session of 12 s, so the broker's own holds.
    assert shown(again, "group", "h", INTERVAL)[INTERVAL][:2] == ("4000", 8)


def test_an_altered_setting_that_no_longer_fits_is_left_out_at_a_start() -> None:
    driver = kit.NodeDriver()
    alter(driver, "broker", "1", log_roll_ms="5000")
    log = MetadataLog.open(driver.disk)
    log.configure("broker", "1", {"log.roll.ms": "5000", "message.max.bytes": "0"})
    driver.disk.sync(log.take_unsynced_paths())
    again = driver.crash()
    assert (again.node.settings.log_roll_ms, again.node.settings.message_max_bytes) == (
        5000,
        1_048_588,
    )


def test_a_setting_of_one_broker_that_is_left_out_does_not_hide_that_of_all() -> None:
    driver = kit.NodeDriver()
    name = "group.consumer.assignment.interval.ms"
    alter(driver, "broker", "", group_consumer_assignment_interval_ms="2000")
    alter(driver, "broker", "1", group_consumer_assignment_interval_ms="9000")
    again = kit.NodeDriver(driver.disk.crash(), group_consumer_max_assignment_interval_ms=5_000)
    assert shown(again, "broker", "1", name) == {
        name: ("2000", 3, (name, "2000", 3), (name, "1000", 5))
    }
    again = kit.NodeDriver(driver.disk.crash(), group_consumer_max_assignment_interval_ms=1_500)
    assert shown(again, "broker", "1", name) == {name: ("1000", 5, (name, "1000", 5))}
    assert shown(again, "broker", "", name) == {}
    # They are still stored: with the bounds of before they hold again.
    again = kit.NodeDriver(again.disk.crash())
    assert shown(again, "broker", "1", name)[name][:2] == ("9000", 2)


VALUES: Any = {
    "group": st.fixed_dictionaries(
        {},
        optional={
            "consumer_session_timeout_ms": st.sampled_from(("7000", "20000", None, "1")),
            "consumer_heartbeat_interval_ms": st.sampled_from(("500", "3000", None, "no")),
        },
    ),
    "topic": st.fixed_dictionaries(
        {}, optional={"retention_ms": st.sampled_from(("1", "-1", None, "no"))}
    ),
    "broker": st.fixed_dictionaries(
        {},
        optional={
            "message_max_bytes": st.sampled_from(("5000", "6000", None, "0")),
            "log_retention_ms": st.sampled_from(("5000", "-1", None, "0")),
        },
    ),
}
NAMES = {"group": ("g", "h"), "topic": ("t", "u"), "broker": ("1", "")}
RESOURCES = [(kind, name) for kind, names in NAMES.items() for name in names]


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.sampled_from(sorted(NAMES)).flatmap(
            lambda kind: st.tuples(st.just(kind), st.sampled_from(NAMES[kind]), VALUES[kind])
        ),
        max_size=8,
    )
)
def test_replaying_the_catalog_gives_the_live_settings(changes: Any) -> None:
    driver = kit.NodeDriver()
    for name in NAMES["topic"]:
        driver.create(name)
    for kind, name, values in changes:
        alter(driver, kind, name, **values)
    again = driver.crash()
    for kind, name in RESOURCES:
        request = describe(kind, name)
        assert told(again.call(request)) == told(driver.call(request))
    assert listed(again.call(LIST_ALL)) == listed(driver.call(LIST_ALL))
    assert again.node.settings == driver.node.settings


def test_a_secret_is_described_without_its_value() -> None:
    listener = "listener.name.inside.plain.sasl.jaas.config"
    values: dict[str, Any] = {
        "listeners": "INSIDE://127.0.0.1:1,SSL://127.0.0.1:2",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,SSL:SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.location": "broker.p12",
        "ssl.keystore.password": "sesame",
        listener: (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="sesame";'
        ),
        "listener.name.inside.connections.max.reauth.ms": "7",
    }
    driver = kit.NodeDriver(**values)
    names = (
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        listener,
        "listener.name.inside.connections.max.reauth.ms",
    )
    [result] = driver.call(describe("broker", "1", *names)).results
    found = {each.name: each for each in result.configs}
    assert [
        (found[name].value, found[name].config_source, found[name].is_sensitive) for name in names
    ] == [
        ("broker.p12", 4, False),
        (None, 4, True),
        (None, 5, True),
        (None, 4, True),
        ("7", 4, False),
    ]
    assert [found[name].config_type for name in names] == [2, 9, 9, 9, 5]
    assert all(each.read_only for each in result.configs)
    [everything] = driver.call(describe("broker", "1", documentation=True)).results
    assert "sesame" not in repr(everything)
