"""Wrong requests to both brokers get like answers, but for the fields that name the broker."""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from apportion.client.connection import Disconnected
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.table import SERVED_APIS
from tests.kafka.differential.compare import Difference, Intended, differences
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import DeleteGroups, MakeTopic
from tests.kafka.differential.twice_requests import REQUESTS, TWICE
from tests.kafka.differential.wrong import GOOD, NOW_MS, Case, batch, produce
from tests.kafka.differential.wrong_classic import CLASSIC_CASES
from tests.kafka.differential.wrong_cluster import CLUSTER_CASES, VERSION_CASES
from tests.kafka.differential.wrong_records import RECORD_CASES
from tests.kafka.differential.wrong_settings import IN_VAIN, SETTING_CASES, SETTING_TOPICS
from tests.kafka.differential.wrong_topics import TOPIC_CASES
from tests.kafka.differential.wrong_trims import TRIM_CASES
from tests.kafka.differential.wrong_twice import TWICE_CASES, doubled
from tests.kafka.own_apis import OWN_KEYS, OWN_LISTS
from tests.node.scram_requests import USERS_NAMED_TWICE
from tests.node.settings_table import TOPIC

OWN = (
    *("throttle_time_ms", "cluster_id", "controller_id", "brokers", "node_id", "host", "port"),
    *("configs", "producer_id", "supported_features"),
)
"""Fields that say who answers, or what this broker happens to have."""

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What a coordinator makes of an id by chance."""

APPENDED_WITHIN_MS = 600_000
"""A time so near to this moment, which no producer wrote, is that of the broker."""


def once(outcome: dict[str, Any]) -> list[str]:
    """The elements of a list that was shown, each once."""
    return sorted(set(map(str, outcome.values())))


def of(*names: str) -> Callable[[Difference], bool]:
    """Matches everything in the cases of these names."""
    return lambda seen: seen.step.name in names


def at(field: str, ours: Plain, theirs: Plain) -> Callable[[Difference], bool]:
    """Matches a field of that name where the brokers say just this."""
    return lambda seen: seen.path[-1:] == (field,) and (seen.ours, seen.theirs) == (ours, theirs)


INTENDED = [
    Intended(
        "an error message in the response to a refused request", at("error_message", True, False)
    ),
    Intended(
        "an error message in the response to a successful request",
        lambda seen: (
            seen.step.name.startswith("coordinator") and at("error_message", False, True)(seen)
        ),
    ),
    Intended("the log start offset for a refused batch", at("log_start_offset", -1, 0)),
    Intended("the aborted transactions in a failed Fetch", at("aborted_transactions", None, {})),
    Intended(
        "the append time of a duplicate batch",
        lambda seen: (
            "idempotent" in seen.step.name
            and seen.path[-1] == "log_append_time_ms"
            and seen.ours == -1
        ),
    ),
    Intended("bytes behind a batch", of("produce a batch and a byte")),
    Intended("an unknown compression type", of("produce an unknown compression")),
    Intended("a producer id without an epoch", of("idempotent: no epoch")),
    Intended("records that are null", of("produce null")),
    Intended("Produce 0-2", of("produce in version 2")),
    Intended("an unknown isolation level", of("fetch at an unknown isolation level")),
    Intended(
        "transactions",
        of(
            "coordinator of a transaction",
            "producer id for a transaction",
            "create '__transaction_state'",
        ),
    ),
    Intended("a topic that a Metadata request creates", of("metadata of a topic to be made")),
    Intended(
        "a protocol that a member offers twice",
        lambda seen: (
            seen.step.name == "join with a protocol twice"
            or seen.step.name.startswith(("join 5, twice", "join 9, twice"))
        ),
    ),
    Intended(
        "a group that one request describes twice",
        lambda seen: (
            seen.step.name.startswith("describe ")
            and seen.path == ("groups",)
            and once(seen.theirs) == once(seen.ours)
        ),
    ),
    Intended(
        "a group of which one request lists all offsets twice",
        lambda seen: (
            "twice in groups" in seen.step.name
            and seen.path == ("groups",)
            and set(once(seen.ours)) <= set(once(seen.theirs))
        ),
    ),
    Intended(
        "the end of the records in a Fetch response",
        lambda seen: seen.step.name.startswith("fetch in parts") and seen.path[-1] == "records",
    ),
    Intended(
        "a partition that one Produce request names twice",
        lambda seen: seen.step.name.startswith("produce ") and "twice in" in seen.step.name,
    ),
    Intended(
        "ListOffsets for the largest timestamp, after records were deleted",
        lambda seen: seen.step.name.startswith("offsets at -3 of what"),
    ),
    Intended("a setting without effect here", lambda seen: seen.step.name.startswith(IN_VAIN)),
    Intended(
        "the topic id in the response to CreateTopics with `validate_only`",
        at("topic_id", "-", "?"),
    ),
    Intended(
        "a resource that one AlterConfigs request names twice",
        lambda seen: seen.step.name.startswith("replaced configs") and seen.theirs == "no answer",
    ),
]


def plain(side: Side, value: Any, name: str = "") -> Plain:
    """An answer as plain values: ids as names, records as their size, messages as whether there is
    one.
    """
    if hasattr(value, "__fields__"):
        return {
            each.name: plain(side, getattr(value, each.name), each.name)
            for each in value.__fields__
            if each.name not in OWN
        }
    if name == "topic_id":
        return side.topic_name(value)
    if name in ("api_keys", "finalized_features"):
        return len(value) > 0
    if isinstance(value, tuple):
        return {str(index): plain(side, each, name) for index, each in enumerate(value)}
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    if name.endswith("error_message"):
        return value is not None
    if (
        name in ("log_append_time_ms", "timestamp")
        and value != NOW_MS
        and abs(value - time.time() * 1000) < APPENDED_WITHIN_MS
    ):
        return "now"
    if name == "finalized_features_epoch":
        return value >= 0
    return UUID.sub("?", value) if isinstance(value, str) else value


ANYTHING = ("error_message", "members", "partitions", "topics")
"""What does not tell apart the elements of a list, because it may differ."""


def unordered(value: Plain) -> Plain:
    """The same without the order of its lists: Kafka keeps what came twice in hash tables."""
    if not isinstance(value, dict):
        return value
    if not value.keys() <= set(map(str, range(len(value)))):
        return {name: unordered(each) for name, each in value.items()}
    elements = sorted(
        map(unordered, value.values()), key=lambda each: [str(part) for part in parts_of(each)]
    )
    return {str(index): each for index, each in enumerate(elements)}


def parts_of(element: Plain) -> list[Plain]:
    """By what an element of a list is told from the others."""
    if not isinstance(element, dict):
        return [element]
    return [
        part for name, part in element.items() if name not in ANYTHING and part not in ("-", "?")
    ]


def shown(side: Side, case: Case) -> Plain:
    """What the broker answers."""
    try:
        return plain(side, side.call(case.request(side.topic_ids[case.topic]), case.version))
    except Disconnected:
        side.close()
        return "no answer"


def prepare(side: Side) -> None:
    """The topic that the cases speak of, with two records in its first partition."""
    side.prepare()
    side.play(DeleteGroups(("",)))  # scripts may have left offsets in it
    side.play(MakeTopic(GOOD, 3))
    side.play(MakeTopic("with_dots_and.bars", 1))
    side.play(MakeTopic(TWICE, 3))
    for _ in range(2):
        while shown(side, Case("", 12, produce(batch(2), topic=TWICE)))["responses"]["0"][
            "partition_responses"
        ]["0"]["error_code"]:
            pass  # its leader does not know yet that it leads
    assert (
        shown(side, Case("", 12, produce(batch(2))))["responses"]["0"]["partition_responses"]["0"][
            "base_offset"
        ]
        == 0
    )


@pytest.fixture(scope="module")
def sides(kafka: RealKafka) -> Iterator[tuple[Side, Side]]:
    """Our broker, which tells members the interval of the real one, and that."""
    with EmbeddedBroker(
        group_consumer_heartbeat_interval_ms=1_000, apportion_heartbeat_budget_per_second=0
    ) as broker:
        both = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        for side in both:
            prepare(side)
            side.timeout_ms = 4_000
        yield both
        for side in both:
            side.close()


def test_wrong_requests_have_a_real_kafkas_answers(sides: tuple[Side, Side]) -> None:
    disagreements = []
    for case in (
        SETTING_TOPICS
        + VERSION_CASES
        + RECORD_CASES
        + CLUSTER_CASES
        + TOPIC_CASES
        + CLASSIC_CASES
        + SETTING_CASES
        + TRIM_CASES
        + TWICE_CASES
    ):
        answers: Iterable[Plain] = [shown(side, case) for side in sides]
        # Kafka answers the refused names of Metadata in the order of a hash table.
        if case in TWICE_CASES or case.name == "metadata of bad names":
            answers = map(unordered, answers)
        for path, ours, theirs in differences(*answers):
            seen = Difference(case, path, ours, theirs)
            row = next((row for row in INTENDED if row.matches(seen)), None)
            if row is None:
                disagreements.append(f"{case.name}, version {case.version}: {seen.line()}")
            else:
                row.seen.append(seen)
    assert disagreements == [], "\n".join(disagreements)
    assert [row.name for row in INTENDED if not row.seen] == []


OTHER_DEFAULTS = {"retention.ms": "-1"}
"""Settings of a topic whose default is not Kafka's: nothing expires unless somebody says so."""


def test_the_settings_of_a_topic_are_a_real_kafkas(sides: tuple[Side, Side]) -> None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=GOOD, configuration_keys=None)
    ours, theirs = (
        {
            each.name: (each.value, each.config_type)
            for each in side.call(DescribeConfigsRequest(resources=(resource,)), 4)
            .results[0]
            .configs
        }
        for side in sides
    )
    assert ours == theirs | {
        name: (value, theirs[name][1]) for name, value in OTHER_DEFAULTS.items()
    }
    assert sorted(theirs) == sorted(TOPIC)


def lists_of(message: type[Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a message has lists, in any version."""
    for each in message.__fields__:
        if each.kind == "array":
            yield (*path, each.name)
            if hasattr(each.element, "__fields__"):
                yield from lists_of(each.element, (*path, each.name))


def test_in_every_list_of_every_request_something_is_named_twice() -> None:
    asked = [
        (version, whole.request(bytes(16), "")) for whole in REQUESTS for version in whole.versions
    ]
    named = {(type(request), path) for _, request in asked for path, _, _ in doubled(request)}
    kafkas = [api.request for key, api in SERVED_APIS.items() if key not in OWN_KEYS]
    lists = {(request, path) for request in kafkas for path in lists_of(request)}
    # test_scram_users_on_both.py plays those of SCRAM's users.
    assert named | USERS_NAMED_TWICE == lists - OWN_LISTS


HEADER = struct.Struct(">hhih")  # API key, version, correlation id, no client id


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(HEADER.pack(999, 0, 1, -1), id="unknown API"),
        pytest.param(HEADER.pack(3, 99, 1, -1), id="unknown version"),
        pytest.param(HEADER.pack(3, 4, 1, -1) + b"\0\0\0\5", id="body that ends too soon"),
        pytest.param(HEADER.pack(3, 4, 1, 50), id="client id that is not there"),
        pytest.param(HEADER.pack(3, 4, 1, -1) + b"\x7f\xff\xff\xff", id="impossible count"),
        pytest.param(b"\0", id="no header"),
    ],
)
def test_bytes_that_are_no_request_close_the_connection(
    sides: tuple[Side, Side], frame: bytes
) -> None:
    for side in sides:
        host, _, port = side.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            assert connection.recv(1) == b"", side.name
