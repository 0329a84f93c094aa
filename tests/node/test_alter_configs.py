"""Settings that are altered while the broker runs: codes, sentences, and what is told of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.node.config_requests import (
    INTERVAL,
    LIST_ALL,
    SESSION,
    alter,
    changes_of,
    codes,
    incremental,
    listed,
    own,
    shown,
    whole,
)
from tests.node.topic_requests import create
from tests.refusals import in_lines, texts
from tests.scripted import check

if TYPE_CHECKING:
    from tests.node.kit import NodeDriver

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
BROKER_SESSION = ("group.consumer.session.timeout.ms", "45000", 5)
BROKER_INTERVAL = ("group.consumer.heartbeat.interval.ms", "5000", 5)
ASSIGNMENT = "consumer.assignment.interval.ms"
BROKER_ASSIGNMENT = (f"group.{ASSIGNMENT}", "1000", 5)


def test_a_group_without_members_may_have_settings(driver: "NodeDriver") -> None:
    assert shown(driver, "group", "g") == {
        SESSION: ("45000", 5, BROKER_SESSION),
        INTERVAL: ("5000", 5, BROKER_INTERVAL),
        ASSIGNMENT: ("1000", 5, BROKER_ASSIGNMENT),
    }
    assert alter(driver, "group", "g", consumer_session_timeout_ms="20000") == (Code.NONE, None)
    assert shown(driver, "group", "g") == {
        SESSION: ("20000", 8, (SESSION, "20000", 8), BROKER_SESSION),
        INTERVAL: ("5000", 5, BROKER_INTERVAL),
        ASSIGNMENT: ("1000", 5, BROKER_ASSIGNMENT),
    }
    assert listed(driver.call(LIST_ALL)) == [(GROUP, "g"), (BROKER, "1")]
    assert alter(driver, "group", "g", consumer_session_timeout_ms=None) == (Code.NONE, None)
    assert listed(driver.call(LIST_ALL)) == [(BROKER, "1")]


OF_ALL = {"min.insync.replicas": "1"}
"""The setting that a cluster has for all brokers from its start."""


def test_settings_survive_a_restart(driver: "NodeDriver") -> None:
    driver.create("t")
    alter(driver, "group", "g", consumer_heartbeat_interval_ms="2000")
    alter(driver, "topic", "t", retention_ms="60000")
    alter(driver, "broker", "1", message_max_bytes="5000")
    alter(driver, "broker", "", message_max_bytes="6000", log_roll_ms="7000")
    again = driver.crash()
    assert own(again, "group", "g") == {INTERVAL: "2000"}
    assert own(again, "topic", "t") == {
        "retention.ms": "60000",
        "max.message.bytes": "5000",
        "segment.ms": "7000",
        **OF_ALL,
    }
    altered = {"log.roll.ms": "7000", **OF_ALL}
    assert own(again, "broker", "1") == {"message.max.bytes": "5000", **altered}
    assert own(again, "broker", "") == {"message.max.bytes": "6000", **altered}


def test_an_alteration_that_the_disk_refuses_is_taken_back(driver: "NodeDriver") -> None:
    driver.create("t")
    request = incremental(
        ("group", "g", changes_of(consumer_session_timeout_ms="20000")),
        ("topic", "t", changes_of(retention_ms="60000")),
        ("broker", "1", changes_of(message_max_bytes="5000")),
    )
    ticket = driver.send(request)
    driver.fail_flush()
    assert codes(driver.answers[ticket]) == [Code.KAFKA_STORAGE_ERROR] * 3
    driver.flush()
    assert [own(driver, *each) for each in (("group", "g"), ("topic", "t"), ("broker", "1"))] == [
        {},
        OF_ALL,
        OF_ALL,
    ]


def test_a_wrong_setting_is_refused_and_changes_nothing(
    driver: "NodeDriver", request: pytest.FixtureRequest
) -> None:
    assert create(driver) == (Code.NONE, None)
    alter(driver, "group", "g", consumer_session_timeout_ms="7000")
    names = {"group": "g", "topic": "t", "broker": "1"}

    def refused(step: str) -> list[str]:
        kind, _, rest = step.partition(" ")
        values: dict[str, Any] = texts(rest)
        right = {"log.roll.ms": "5000"} if kind == "broker" else {}
        code, why = alter(driver, kind, names[kind], **right, **values)
        if kind == "broker":
            assert alter(driver, kind, "", **right, **values) == (code, why)
        if kind == "topic":
            assert create(driver, "u", **values) == (code, why), "as at its creation"
        return in_lines(f"{code.name}: {why}")

    check(Path(__file__).parent / "refusals" / "altered.txt", refused, request)
    assert own(driver, "group", "g") == {SESSION: "7000"}
    resources = (("topic", "t"), ("broker", "1"), ("broker", ""))
    assert [own(driver, *each) for each in resources] == [OF_ALL] * 3


def test_a_value_of_a_group_is_told_as_a_plain_number(driver: "NodeDriver") -> None:
    assert alter(driver, "group", "g", consumer_session_timeout_ms=" +7500 ")[0] == Code.NONE
    assert own(driver, "group", "g") == {SESSION: "7500"}


@pytest.mark.parametrize("kind", ["group", "topic", "broker"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("a", "=", "1"), ("a", "x", None)], "a is there twice"),
        ([("a", "=", None)], "a has no value"),
        ([("a", "+", None)], "a has no value"),
        ([("a", 9, "1")], "a has operation 9; there are 0 (SET), 1 (DELETE), 2 (APPEND), 3"),
    ],
)
def test_a_change_that_makes_no_sense_is_an_invalid_request(
    driver: "NodeDriver", kind: str, changes: list[Any], words: str
) -> None:
    [result] = driver.call(incremental((kind, "1", tuple(changes)))).responses
    assert (result.error_code, result.resource_name) == (Code.INVALID_REQUEST, "1")
    assert words in result.error_message


def test_each_resource_of_a_request_has_a_result_of_its_own(driver: "NodeDriver") -> None:
    driver.create("t")
    good, bad = changes_of(consumer_session_timeout_ms="7000"), changes_of(no_such="1")
    answer = driver.call(
        incremental(
            ("group", "twice", good),
            ("group", "a", good),
            ("group", "b", bad),
            ("topic", "b", ()),
            ("group", "twice", ()),
            ("topic", "t", changes_of(retention_ms="1")),
            (99, "a", ()),
            (BROKER_LOGGER, "1", ()),
            (CLIENT_METRICS, "m", ()),
            ("group", "", good),
            ("topic", "", ()),
            ("topic", "a b", ()),
            ("broker", "7", ()),
            ("broker", "x", ()),
        )
    )
    assert codes(answer) == [
        Code.INVALID_REQUEST,
        Code.NONE,
        Code.INVALID_CONFIG,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.INVALID_REQUEST,
        Code.NONE,
        *[Code.INVALID_REQUEST] * 5,
        Code.INVALID_TOPIC_EXCEPTION,
        *[Code.INVALID_REQUEST] * 2,
    ]
    assert listed(driver.call(LIST_ALL)) == [(GROUP, "a"), (BROKER, "1"), (TOPIC, "t")]


def test_validate_only_changes_nothing(driver: "NodeDriver") -> None:
    good = ("group", "g", changes_of(consumer_session_timeout_ms="7000"))
    bad = ("group", "h", changes_of(consumer_session_timeout_ms="1"))
    answer = driver.call(incremental(good, bad, validate_only=True))
    assert codes(answer) == [Code.NONE, Code.INVALID_CONFIG]
    answer = driver.call(whole(("group", "g", ((SESSION, "7000"),)), validate_only=True))
    assert codes(answer) == [Code.NONE]
    assert listed(driver.call(LIST_ALL)) == [(BROKER, "1")]


def test_alter_configs_replaces_all_settings(driver: "NodeDriver") -> None:
    alter(driver, "group", "g", consumer_heartbeat_interval_ms="2000")
    assert codes(driver.call(whole(("group", "g", ((SESSION, "7000"),))))) == [Code.NONE]
    assert own(driver, "group", "g") == {SESSION: "7000"}
    answer = driver.call(
        whole(
            ("group", "g", ((SESSION, None),)),
            ("group", "h", ((SESSION, "7000"), (SESSION, "8000"))),
            ("group", "i", (("no.such", "1"),)),
        )
    )
    assert codes(answer) == [Code.INVALID_REQUEST, Code.INVALID_REQUEST, Code.INVALID_CONFIG]
    assert codes(driver.call(whole(("group", "g", ())))) == [Code.NONE]
    assert own(driver, "group", "g") == {}


def test_a_list_grows_and_shrinks_by_words(driver: "NodeDriver") -> None:
    driver.create("t")
    policies = []
    for operation, value in (
        ("+", "compact"),
        ("+", "compact,delete"),
        ("-", "delete"),
        ("-", "delete"),
        ("-", "compact"),
        ("+", "delete"),
        ("=", " compact , compact"),
        ("x", None),
    ):
        request = incremental(("topic", "t", (("cleanup.policy", operation, value),)))
        assert codes(driver.call(request)) == [Code.NONE]
        [policy] = shown(driver, "topic", "t", "cleanup.policy").values()
        policies.append(policy[:2])
    assert policies == [
        ("delete,compact", 1),
        ("delete,compact", 1),
        ("compact", 1),
        ("compact", 1),
        ("", 1),
        ("delete", 1),
        ("compact", 1),
        ("delete", 5),
    ]
    for name, value in (("retention.ms", "1"), ("no.such", "1"), ("cleanup.policy", "shrink")):
        for operation in "+-" if value == "1" else "+":
            request = incremental(("topic", "t", ((name, operation, value),)))
            assert codes(driver.call(request)) == [Code.INVALID_CONFIG]


def test_a_setting_that_is_wrong_is_told_before_a_topic_that_is_missing(
    driver: "NodeDriver",
) -> None:
    assert alter(driver, "topic", "gone", no_such="1")[0] == Code.INVALID_CONFIG
    assert alter(driver, "topic", "gone", retention_ms="1") == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "there is no topic gone",
    )


def test_the_topic_of_the_groups_stays_compacted(driver: "NodeDriver") -> None:
    driver.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)))
    offsets = "__consumer_offsets"
    assert alter(driver, "topic", offsets, cleanup_policy="delete")[0] == Code.INVALID_CONFIG
    assert codes(driver.call(whole(("topic", offsets, ())))) == [Code.INVALID_CONFIG]
    assert alter(driver, "topic", offsets, segment_bytes="2000000") == (Code.NONE, None)
