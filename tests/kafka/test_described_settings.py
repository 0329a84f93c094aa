"""Everything that DescribeConfigs says of a setting, on a real Kafka and here. What is meant to
differ is in the tables of this module, with its reason in docs/differences.md; settings that one
side alone has are in `test_missing_features.py`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from apportion.errors import Code
from apportion.node.settings import BrokerSettings
from apportion.testing.kafka import SETTINGS, RealKafka
from tests.kafka.conftest import until
from tests.kafka.differential.compare import side_by_side
from tests.kafka.differential.side import Side
from tests.kafka.standing import PLAIN
from tests.messages import request
from tests.node.config_requests import SESSION, changes_of, codes, describe, incremental

STATIC_BROKER, DEFAULT = 4, 5
OURS = BrokerSettings().named()
OFFSETS = "__consumer_offsets"
SEGMENT = "segment.bytes"
TOPIC, GROUP = "described", "described-group"
OWN: dict[str, dict[str, str | None]] = {
    "topic": {
        "cleanup_policy": "compact,delete",
        "max_message_bytes": "5000",
        "message_timestamp_type": "CreateTime",
        "min_insync_replicas": "2",
        "retention_ms": "70000",
        "segment_ms": "80000",
    },
    "group": {SESSION.replace(".", "_"): "7000"},
}
"""The own settings of TOPIC and GROUP."""
DEFAULTS = {
    "group.consumer.min.heartbeat.interval.ms": ("100", "5000"),
    "group.consumer.min.session.timeout.ms": ("1000", "45000"),
    "group.initial.rebalance.delay.ms": ("0", "3000"),
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    ),
    "listeners": ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092"),
    "log.retention.hours": ("-1", "168"),
    "node.id": ("1", None),
    "offsets.topic.segment.bytes": ("16777216", "104857600"),
    "sasl.enabled.mechanisms": (None, "GSSAPI"),
}
"""Settings of the broker -> default here, and Kafka's; None: there is none."""
READ_AT_THE_START = {
    "listener.security.protocol.map",
    "listeners",
    "sasl.enabled.mechanisms",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
COARSER = {"segment.ms": "log.roll.hours"}
"""A topic's setting -> the broker's that says it in hours, where none says it in milliseconds."""
MEANT = {
    "`segment.ms` and `retention.ms` that a broker gives in minutes or hours": COARSER,
    "a default of the broker": DEFAULTS,
    "a setting that is given its default": STATIC_BROKER,
    "the settings of listeners, TLS and SASL": READ_AT_THE_START,
    "a synonym that is a setting of Kafka's broker alone": OURS,
}
"""The rows of the page of differences, and what `as_here` knows of each."""


class Described(NamedTuple):
    """Everything that a response says of a setting, but for its sentence.

    synonyms: name, value and source of each.
    """

    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    config_type: int
    synonyms: tuple[tuple[str, str | None, int], ...]


@pytest.fixture(scope="module")
def sides(kafka: RealKafka) -> Iterator[tuple[Side, Side]]:
    """Our broker and the real one, started alike, with own settings of a topic and of a group."""
    alike = {name: value for name, value in (SETTINGS | PLAIN).items() if name in OURS}
    alike["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    own = [
        ("topic", TOPIC, changes_of(**OWN["topic"])),
        ("group", GROUP, changes_of(**OWN["group"])),
    ]
    with side_by_side(kafka, **alike) as both:
        for side in both:
            side.call(request("CreateTopics", topics=[topic], timeout_ms=30_000), 7)
            until(lambda side=side: codes(side.call(incremental(*own), 1)) == [Code.NONE] * 2)
            until(lambda side=side: has_own_settings(side))
        yield both


def has_own_settings(side: Side) -> bool:
    """Whether the broker tells of all of OWN: a real Kafka does a moment later."""
    told = [settings(side, kind, name) for kind, name in (("topic", TOPIC), ("group", GROUP))]
    return [sum(each.source in (1, 8) for each in every.values()) for every in told] == [6, 1]


def settings(side: Side, kind: str, name: str) -> dict[str, Described]:
    """The settings of a resource; the addresses of listeners are not compared."""
    [result] = side.call(describe(kind, name), 4).results
    described = {}
    for each in result.configs:
        synonyms = tuple((other.name, other.value, other.source) for other in each.synonyms)
        value = each.value
        if each.name == "listeners":
            value = "some"
            synonyms = (("listeners", value, STATIC_BROKER), *synonyms[1:])
        described[each.name] = Described(
            value, each.config_source, each.read_only, each.is_sensitive, each.config_type, synonyms
        )
    return described


def as_here(kind: str, name: str, theirs: Described) -> Described:
    """What Kafka says of a setting, as this broker would say it by the tables."""
    if kind == "broker" and name in READ_AT_THE_START:
        assert not theirs.is_read_only
        theirs = theirs._replace(is_read_only=True)
    synonyms = []
    for other, value, source in theirs.synonyms:
        if source in (STATIC_BROKER, DEFAULT):
            if other not in OURS:
                continue
            if source == DEFAULT and other in DEFAULTS:
                value = DEFAULTS[other][0]
            elif value == OURS[other]:
                source = DEFAULT
        if value is not None and (other, value, source) not in synonyms:
            synonyms.append((other, value, source))
    if (
        kind == "topic"
        and (unit := COARSER.get(name))
        and unit not in [each[0] for each in synonyms]
    ):
        synonyms.append((unit, OURS[unit], DEFAULT))
    source = synonyms[0][2] if synonyms else DEFAULT
    is_default = kind == "broker" and source == DEFAULT and name in DEFAULTS
    return theirs._replace(
        value=DEFAULTS[name][0] if is_default else theirs.value,
        source=source,
        synonyms=tuple(synonyms),
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("broker", "1"),
        ("broker", ""),
        ("topic", "one"),
        ("topic", TOPIC),
        ("topic", OFFSETS),
        ("group", "any"),
        ("group", GROUP),
    ],
)
def test_every_setting_is_described_as_by_a_real_kafka(
    sides: tuple[Side, Side], kind: str, name: str
) -> None:
    ours, theirs = (settings(side, kind, name) for side in sides)
    if name == OFFSETS:
        here, there = DEFAULTS["offsets.topic.segment.bytes"]
        assert (theirs[SEGMENT].value, theirs[SEGMENT].synonyms[0]) == (there, (SEGMENT, there, 1))
        own = (SEGMENT, here, 1)
        synonyms = (own, *theirs[SEGMENT].synonyms[1:])
        theirs[SEGMENT] = theirs[SEGMENT]._replace(value=here, synonyms=synonyms)
    both = sorted(ours.keys() & theirs.keys())
    assert {each: ours[each] for each in both} == {
        each: as_here(kind, each, theirs[each]) for each in both
    }


def test_the_defaults_of_the_table_are_those_of_both(sides: tuple[Side, Side]) -> None:
    ours, theirs = (settings(side, "broker", "1") for side in sides)
    assert {
        name: tuple(
            next((value for _, value, source in every[name].synonyms if source == DEFAULT), None)
            for every in (ours, theirs)
        )
        for name in DEFAULTS
    } == DEFAULTS
