"""The same script of altered, described and listed settings on a real Kafka and here."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.table import api_of
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import MakeTopic
from tests.kafka.secured import Secured
from tests.messages import request
from tests.node.config_requests import (
    INTERVAL,
    SESSION,
    changes_of,
    codes,
    describe,
    incremental,
    listed,
    told,
    whole,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
STATIC_BROKER, DEFAULT = 4, 5
TOPIC_NAME = "altered"
WITHIN_S = 30
MESSAGES, REPLICAS = "message.max.bytes", "min.insync.replicas"
OFFSETS = "__consumer_offsets"


def set_group(name: str, **values: str | None) -> Any:
    """Alter a group."""
    return incremental(("group", name, changes_of(**values)))


def set_topic(**values: str | None) -> Any:
    """Alter the topic."""
    return incremental(("topic", TOPIC_NAME, changes_of(**values)))


def set_broker(name: str, **values: str | None) -> Any:
    """Alter one broker, or all."""
    return incremental(("broker", name, changes_of(**values)))


def policy(operation: Any, value: str | None, name: str = "cleanup.policy") -> Any:
    """One operation on a setting of the topic."""
    return incremental(("topic", TOPIC_NAME, ((name, operation, value),)))


def of_group(name: str) -> Any:
    """Describe the settings of a group that both brokers have."""
    return describe("group", name, SESSION, INTERVAL)


GROUPS = [
    of_group("new"),
    describe("group", ""),
    set_group("g", consumer_session_timeout_ms="7000"),
    of_group("g"),
    set_group("g", consumer_session_timeout_ms=" 8000 ", consumer_heartbeat_interval_ms="+2000"),
    of_group("g"),
    *(
        set_group("g", consumer_session_timeout_ms=value)
        for value in ("x", "7000.5", "", None, "-1", "0", "99999999999", "999", "60001", "2000")
    ),
    *(
        set_group("g", consumer_heartbeat_interval_ms=value)
        for value in ("99", "15001", "8000", None, "6000", "500")
    ),
    set_group("g", no_such="1"),
    set_group("g", no_such=None),
    set_group("g", no_such="1", consumer_session_timeout_ms="9000"),
    set_group("g", group_consumer_session_timeout_ms="9000"),
    set_group("h", consumer_heartbeat_interval_ms="6000"),
    set_group("h", consumer_session_timeout_ms="1000"),
    set_group("h", consumer_session_timeout_ms=None),
    set_group("n"),
    set_group(" ", consumer_session_timeout_ms="7000"),
    set_group(" ", consumer_session_timeout_ms=None),
    set_group("", consumer_session_timeout_ms="7000"),
    incremental(("group", "g", ((SESSION, "+", "7000"),))),
    incremental(("group", "g", ((SESSION, "-", "7000"),))),
    incremental(("group", "g", ((SESSION, "=", None),))),
    incremental(("group", "g", ((SESSION, "x", "7000"), (INTERVAL, "=", "700")))),
    incremental(("group", "g", ((SESSION, "x", None), (SESSION, "=", "7000")))),
    incremental(("group", "g", (("no.such", "=", None), (SESSION, "=", "x")))),
    of_group("g"),
    incremental(
        ("group", "g", changes_of(consumer_session_timeout_ms="7000")),
        ("group", "g", changes_of(consumer_heartbeat_interval_ms="700")),
        ("group", "o", changes_of(consumer_session_timeout_ms="7000")),
        ("group", "p", changes_of(consumer_session_timeout_ms="1")),
        (99, "x", changes_of(a="b")),
        (0, "x", changes_of(a="b")),
    ),
    incremental(
        ("group", "v", changes_of(consumer_session_timeout_ms="7000")),
        ("group", "w", changes_of(consumer_session_timeout_ms="1")),
        validate_only=True,
    ),
    incremental(),
    request("ListConfigResources", resource_types=(GROUP,)),
    whole(("group", "g", ((SESSION, "9000"),))),
    of_group("g"),
    whole(("group", "g", ((SESSION, None),))),
    whole(("group", "g", ((SESSION, "7000"), (SESSION, "7100")))),
    whole(("group", "g", (("no.such", "1"),))),
    whole(("group", "g", ((SESSION, "1"),))),
    whole(("group", "", ())),
    whole(("group", "g", ((SESSION, "7000"),)), validate_only=True),
    whole(("group", "g", ())),
    whole(),
    of_group("g"),
    request("ListConfigResources", resource_types=(GROUP, TOPIC, BROKER)),
    *(request("ListConfigResources", resource_types=(kind,)) for kind in (0, 2, 4, 16, 32, 99)),
    request("ListConfigResources", resource_types=(GROUP, 99)),
]
TOPICS = [
    set_topic(retention_ms="60000", segment_ms="5000", max_message_bytes="5000"),
    describe("topic", TOPIC_NAME, "retention.ms", "max.message.bytes", synonyms=False),
    describe("topic", TOPIC_NAME, "no.such"),
    *(set_topic(retention_ms=value) for value in ("x", "-2", "", "-1", None)),
    set_topic(no_such="1"),
    set_topic(no_such=None),
    set_topic(segment_bytes="1"),
    set_topic(unclean_leader_election_enable="yes"),
    set_topic(min_insync_replicas="2"),
    set_topic(remote_storage_enable="true"),
    *(
        step
        for operation, value in (
            ("+", "compact"),
            ("+", "compact,delete"),
            ("-", "delete"),
            ("-", "delete"),
            ("-", "compact"),
            ("+", "delete"),
            ("=", " compact , compact"),
            ("=", ""),
            ("+", "shrink"),
            ("+", None),
            ("x", None),
        )
        for step in (
            policy(operation, value),
            describe("topic", TOPIC_NAME, "cleanup.policy", synonyms=False),
        )
    ),
    policy("+", "5", "retention.ms"),
    policy("-", "5", "no.such"),
    *(
        incremental(("topic", name, changes))
        for name in ("gone", "", "a b")
        for changes in (
            changes_of(retention_ms="1"),
            changes_of(no_such="1"),
            (("a", "=", "1"), ("a", "=", "1")),
            (),
        )
    ),
    describe("topic", "gone"),
    describe("topic", "a b"),
    whole(("topic", TOPIC_NAME, (("retention.ms", "x"),))),
    whole(("topic", "gone", ())),
    whole(("topic", TOPIC_NAME, (("retention.ms", "1000000"),))),
    describe("topic", TOPIC_NAME, "retention.ms", "max.message.bytes", synonyms=False),
    whole(("topic", TOPIC_NAME, ())),
]
BROKERS = [
    *(
        step
        for name in ("", "1")
        for step in (
            set_broker(name, message_max_bytes="2000000"),
            describe("broker", "1", MESSAGES),
            describe("broker", "", MESSAGES),
            describe("topic", TOPIC_NAME, "max.message.bytes"),
            set_broker(name, log_roll_ms="100000", log_retention_bytes="500000"),
            describe("broker", "1", "log.roll.ms", "log.retention.bytes"),
            *(set_broker(name, message_max_bytes=value) for value in ("x", "-1", "")),
            set_broker(name, log_message_timestamp_type="x"),
            *(
                set_broker(name, **{setting: value})
                for setting, value in (
                    ("num_partitions", "3"),
                    ("group_max_size", "5"),
                    ("group_consumer_session_timeout_ms", "7000"),
                    ("log_retention_hours", "5"),
                    ("fetch_max_bytes", "5000"),
                    ("node_id", "2"),
                )
            ),
            set_broker(name, message_max_bytes="3000000", num_partitions="3"),
            set_broker(name, num_partitions=None),
            set_broker(name, no_such=None),
            incremental(("broker", name, ((MESSAGES, "=", None),))),
            incremental(("broker", name, ((MESSAGES, "=", "1"), (MESSAGES, "=", "1")))),
        )
    ),
    *(
        step
        for name, values in (("1", ("x", "0", "1", "2")), ("", ("x", "0", " 2 ", None, "1")))
        for step in (
            *(set_broker(name, min_insync_replicas=value) for value in values),
            describe("broker", "1", REPLICAS),
            describe("broker", "", REPLICAS),
            describe("topic", TOPIC_NAME, REPLICAS),
        )
    ),
    whole(("broker", "", ())),
    whole(("broker", "", ((MESSAGES, "1000000"),))),
    whole(("broker", "", ((REPLICAS, "1"),))),
    set_broker("1", log_retention_ms="0"),
    set_broker("1", log_roll_ms="0"),
    set_broker("7", message_max_bytes="1000"),
    set_broker("x", message_max_bytes="1000"),
    describe("broker", "7"),
    describe("broker", "x"),
    whole(("broker", "1", ((MESSAGES, "1000000"), ("num.partitions", "4")))),
    whole(("broker", "1", ((MESSAGES, "1000000"),))),
    describe("broker", "1", MESSAGES, "log.roll.ms"),
    set_broker("", message_max_bytes=None, log_roll_ms=None, log_retention_bytes=None),
    whole(("broker", "1", ())),
    describe("broker", "1", MESSAGES, "log.roll.ms"),
]
DIFFERENT: dict[str, tuple[Any, list[int], list[int]]] = {
    "`min.insync.replicas` of one broker, deleted": (
        set_broker("1", min_insync_replicas=None),
        [Code.NONE],
        [Code.INVALID_CONFIG],
    ),
    "an operation that IncrementalAlterConfigs does not have": (
        incremental(("group", "q", ((SESSION, 9, "1"),)), ("group", "r", ())),
        [Code.INVALID_REQUEST, Code.NONE],
        [Code.UNKNOWN_SERVER_ERROR] * 2,
    ),
    "a broker setting that nobody knows": (
        set_broker("1", no_such="1"),
        [Code.INVALID_REQUEST],
        [Code.NONE],
    ),
    "the loggers of a broker": (
        incremental((BROKER_LOGGER, "1", (("kafka.server.KafkaApis", "=", "INFO"),))),
        [Code.INVALID_REQUEST],
        [Code.NONE],
    ),
    "subscriptions to client metrics": (
        incremental((CLIENT_METRICS, "m", (("interval.ms", "=", "1000"),))),
        [Code.INVALID_REQUEST],
        [Code.NONE],
    ),
    "the settings of share groups and Streams groups": (
        set_group("s", share_session_timeout_ms="46000"),
        [Code.INVALID_CONFIG],
        [Code.NONE],
    ),
    "`cleanup.policy` of `__consumer_offsets`": (
        incremental(("topic", OFFSETS, changes_of(cleanup_policy="delete"))),
        [Code.INVALID_CONFIG],
        [Code.NONE],
    ),
}
"""A row of the page of differences -> a request, our codes, and the real Kafka's."""
READ_ONLY_HERE = ("listeners", "advertised.listeners", "listener.security.protocol.map")
"""What only Kafka alters at run time, among the settings that both have; see `is_read_only`."""


def is_read_only(name: str) -> bool:
    """A setting is read at the start here, and perhaps altered by Kafka: listeners and their TLS
    and SASL (docs/broker.md).
    """
    return name in READ_ONLY_HERE or name.startswith(("ssl.", "sasl."))


def call(side: Side, asked: Any) -> Any:
    """The answer in the newest version."""
    return side.call(asked, api_of(type(asked)).versions[-1])


def shown(side: Side, asked: Any) -> Any:
    """The answer as a plain value, without what one side alone can have."""
    answer = call(side, asked)
    if hasattr(answer, "responses"):
        return codes(answer)
    if hasattr(answer, "config_resources"):
        names = listed(answer)
        return names if isinstance(names, int) else sorted(names)
    return told(answer)


@pytest.fixture(scope="module")
def sides(secured: Secured) -> Iterator[tuple[Side, Side]]:
    """Our broker, with the settings of the real one, and one whose settings may be altered."""
    with EmbeddedBroker(
        group_consumer_session_timeout_ms=6_000,
        group_consumer_heartbeat_interval_ms=1_000,
        log_retention_ms=-1,
    ) as broker:
        both = Side("apportion", broker.bootstrap), Side("Kafka", secured.broker.bootstrap)
        for side in both:
            side.play(MakeTopic(TOPIC_NAME, 1))
            call(side, request("FindCoordinator", coordinator_keys=("g",)))
        yield both
        for side in both:
            side.close()


def until_equal(sides: tuple[Side, Side], asked: Any) -> tuple[Any, Any]:
    """Both answers; a real Kafka's may come to know of an alteration a little later."""
    ours = shown(sides[0], asked)
    end = time.monotonic() + WITHIN_S
    while (theirs := comparable(shown(sides[1], asked))) != comparable(ours):
        if hasattr(asked, "validate_only") or time.monotonic() > end:
            break
        time.sleep(0.05)
    return comparable(ours), theirs


def comparable(answer: Any) -> Any:
    """An answer without what differs: which values are defaults, and the topics of other tests."""
    if isinstance(answer, list) and answer and isinstance(answer[0], tuple):
        return [each for each in answer if each[0] != TOPIC or each[1] == TOPIC_NAME]
    if not isinstance(answer, dict):
        return answer
    return {
        name: (
            value,
            STATIC_BROKER if source == DEFAULT else source,
            *(each for each in synonyms if each[2] not in (STATIC_BROKER, DEFAULT)),
        )
        for name, (value, source, *synonyms) in answer.items()
    }


@pytest.mark.parametrize("script", [GROUPS, TOPICS, BROKERS], ids=["groups", "topics", "brokers"])
def test_settings_are_altered_described_and_listed_alike(
    sides: tuple[Side, Side], script: list[Any]
) -> None:
    disagreements = []
    for number, asked in enumerate(script):
        ours, theirs = until_equal(sides, asked)
        if ours != theirs:
            disagreements.append((number, asked, ours, theirs))
    assert disagreements == []


@pytest.mark.parametrize("row", sorted(DIFFERENT))
def test_a_row_of_the_page_of_differences_is_true(sides: tuple[Side, Side], row: str) -> None:
    asked, ours, theirs = DIFFERENT[row]
    assert [shown(side, asked) for side in sides] == [ours, theirs]
    # Other tests see the same Kafka.
    changed = asked.resources[0]
    if Code.UNKNOWN_SERVER_ERROR not in theirs and changed.resource_type != BROKER_LOGGER:
        call(sides[1], whole((changed.resource_type, changed.resource_name, ())))


@pytest.mark.parametrize(
    ("kind", "name"), [("topic", TOPIC_NAME), ("group", "any"), ("broker", "1")]
)
def test_types_of_settings_and_whether_they_can_be_altered_are_alike(
    sides: tuple[Side, Side], kind: str, name: str
) -> None:
    ours, theirs = (
        {
            each.name: (each.config_type, each.read_only or is_read_only(each.name))
            for each in call(side, describe(kind, name)).results[0].configs
        }
        for side in sides
    )
    # This Kafka has an authorizer, and does not know the type of what that reads.
    both = (ours.keys() & theirs.keys()) - {"super.users"}
    assert {each: ours[each] for each in sorted(both)} == {
        each: theirs[each] for each in sorted(both)
    }
