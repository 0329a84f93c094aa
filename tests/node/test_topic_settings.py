"""Every accepted setting of a topic or broker is obeyed, as `settings_table.py` states."""

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apportion.errors import Code
from apportion.node.config_entries import TOPIC_SETTINGS
from apportion.node.settings import BrokerSettings
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.node.settings_table import BROKER, TOPIC, Harmless, InPart, Obeyed, Refused
from tests.node.topic_requests import create, produced

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver


TESTS = Path(__file__).parents[1]


def described(driver: "NodeDriver", name: str = "t") -> dict[str, tuple[str, int]]:
    """Every setting of a topic as a client is told it: value and source."""
    resource = DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
    [result] = driver.call(DescribeConfigsRequest(resources=(resource,))).results
    return {each.name: (each.value, each.config_source) for each in result.configs}


def of_kind(kind: type[Any]) -> list[str]:
    return sorted(name for name, fate in TOPIC.items() if type(fate) is kind)


def test_every_setting_has_a_fate() -> None:
    assert sorted(TOPIC_SETTINGS) == sorted(TOPIC)


def source_or_none(file: str, function: str) -> Any:
    """The text of a function of a test file, its decorators, and whatever of the file it names, or
    the case of that title in a script; None if there is none.
    """
    text = (TESTS / file).read_text()
    if file.endswith(".txt"):
        cases = (case.split("\n", 1) for case in f"\n{text}".split("\n= "))
        return next((case[1] for case in cases if case[0] == function), None)
    nodes = ast.parse(text).body
    made = next(
        (node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == function),
        None,
    )
    if made is None:
        return None
    definitions: list[Any] = [*made.decorator_list, made]
    added: list[Any] = [made]
    while added:
        names = {each.id for node in added for each in ast.walk(node) if isinstance(each, ast.Name)}
        # fixtures
        names |= {
            each.arg for node in added for each in ast.walk(node) if isinstance(each, ast.arg)
        }
        added = [node for node in nodes if node not in definitions and names & bound_by(node)]
        definitions += added
    lines = text.split("\n")
    return "\n".join(
        line for node in definitions for line in lines[node.lineno - 1 : node.end_lineno]
    )


def bound_by(node: ast.stmt) -> set[str]:
    """The names that a statement of a module gives a meaning to."""
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def test_every_setting_that_the_broker_takes_is_obeyed() -> None:
    assert sorted(BrokerSettings().named()) == sorted(BROKER)


OBEYED = [(name, TOPIC[name].test) for name in of_kind(Obeyed)] + sorted(BROKER.items())
OBEYED += [(name, test) for name in of_kind(InPart) for test in TOPIC[name].tests]


@pytest.mark.parametrize(("name", "test"), OBEYED)
def test_a_setting_that_is_obeyed_has_a_test_that_says_its_name(name: str, test: str) -> None:
    file, _, function = test.partition("::")
    text = source_or_none(file, function)
    assert text is not None
    assert any(
        word in text
        for word in (name, name.replace(".", "_"), name.removeprefix("log.").replace(".", "_"))
    )


def test_settings_obeyed_in_part_say_what_is_missing() -> None:
    assert of_kind(InPart) == ["cleanup.policy"]
    assert all(TOPIC[name].missing for name in of_kind(InPart))


def test_the_pages_name_every_setting_and_no_other() -> None:
    docs, row = TESTS.parent / "docs", re.compile(r"^\| `([a-z0-9.]+)`", re.MULTILINE)
    text = (docs / "broker.md").read_text()
    of_topics = text.partition("printed: settings of a topic")[2].partition("end of table")[0]
    assert set(row.findall(of_topics)) == set(TOPIC)
    assert set(row.findall((docs / "settings.md").read_text())) >= set(BROKER)


@pytest.mark.parametrize("name", of_kind(Refused))
def test_a_setting_that_is_not_there_is_refused_with_a_sentence_but_for_its_default(
    driver: "NodeDriver", name: str
) -> None:
    defaults: dict[str, Any] = {name: TOPIC[name].other}
    code, why = create(driver, **defaults)
    assert (code, why.startswith(f"{name} has to be "), why.endswith(" is not there yet")) == (
        Code.INVALID_CONFIG,
        True,
        True,
    )
    fields: dict[str, Any] = {name: TOPIC_SETTINGS[name]}
    assert create(driver, **fields) == (Code.NONE, None)
    assert described(driver)[name] == (TOPIC_SETTINGS[name], 1)


@pytest.mark.parametrize("name", of_kind(Harmless))
def test_a_setting_of_no_consequence_is_taken_and_told(driver: "NodeDriver", name: str) -> None:
    fate: Any = TOPIC[name]
    defaults: dict[str, Any] = {name: fate.other}
    assert create(driver, **defaults) == (Code.NONE, None)
    assert described(driver)[name] == (fate.other, 1)
    assert fate.why


def test_a_setting_that_kafka_does_not_have_is_refused(driver: "NodeDriver") -> None:
    assert create(driver, no_such_setting="1") == (
        Code.INVALID_CONFIG,
        "a topic has no setting no.such.setting",
    )


def test_a_misspelt_setting_is_refused_with_the_nearest_name(driver: "NodeDriver") -> None:
    assert create(driver, retention_mss="1") == (
        Code.INVALID_CONFIG,
        "a topic has no setting retention.mss; did you mean retention.ms?",
    )


def test_a_topic_says_how_dense_the_index_of_its_logs_is(
    driver: "NodeDriver", kit: "type[Kit]"
) -> None:
    for name, bytes_between in (("sparse", "1000000"), ("dense", "1")):
        assert create(driver, name, index_interval_bytes=bytes_between) == (Code.NONE, None)
        for _ in range(5):
            produced(driver, kit.produce(name, kit.batch(b"v")))
    entries = {
        each.topic.name: len(each.log.segments()[-1].index.offsets)
        for each in driver.node.partitions()
    }
    assert entries == {"sparse": 1, "dense": 5}


# what Kafka Streams and Connect and Schema Registry ask for when they make their own topics
STREAMS = [
    {
        "cleanup_policy": "delete",
        "segment_bytes": "52428800",
        "retention_ms": "-1",
        "message_timestamp_type": "CreateTime",
    },
    {"cleanup_policy": "compact", "message_timestamp_type": "CreateTime"},
    {
        "cleanup_policy": "compact,delete",
        "retention_ms": "86460000",
        "message_timestamp_type": "CreateTime",
    },
    {"cleanup_policy": "compact", "min_insync_replicas": "1"},
    {
        "cleanup_policy": "compact",
        "segment_ms": "3600000",
        "min_cleanable_dirty_ratio": "0.01",
        "delete_retention_ms": "100",
    },
    {
        "retention_ms": "604800000",
        "retention_bytes": "-1",
        "max_message_bytes": "1048588",
        "compression_type": "producer",
    },
]


@pytest.mark.parametrize("config", STREAMS)
def test_topic_settings_of_well_known_clients_are_accepted(
    driver: "NodeDriver", config: dict[str, Any]
) -> None:
    assert create(driver, **config) == (Code.NONE, None)


def test_a_topic_whose_settings_come_from_the_broker_says_so(kit: "type[Kit]") -> None:
    defaults: dict[str, Any] = {
        "log.retention.minutes": 5,
        "log.roll.hours": 2,
        "log.message.timestamp.type": "LogAppendTime",
    }
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    configs = described(driver)
    assert [
        configs[name]
        for name in ("retention.ms", "segment.ms", "message.timestamp.type", "retention.bytes")
    ] == [
        ("300000", 4),
        ("7200000", 4),
        ("LogAppendTime", 4),
        ("-1", 5),
    ]
