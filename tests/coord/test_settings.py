"""Settings are checked by Kafka's rules, and groups go to the shard that Kafka would choose."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from apportion.coord.config import GroupSettings
from apportion.coord.placement import shard_of
from tests.refusals import arguments, sentence
from tests.scripted import check

REFUSALS = Path(__file__).parent / "refusals" / "groups.txt"


def test_the_defaults_are_kafkas_but_for_what_settles_faster() -> None:
    assert asdict(GroupSettings()) == {
        "group_consumer_session_timeout_ms": 45_000,
        "group_consumer_min_session_timeout_ms": 1_000,  # Kafka: 45 s
        "group_consumer_max_session_timeout_ms": 60_000,
        "group_consumer_heartbeat_interval_ms": None,  # 5 s, as in Kafka
        "group_consumer_min_heartbeat_interval_ms": 100,  # Kafka: 5 s
        "group_consumer_max_heartbeat_interval_ms": 15_000,
        "group_consumer_max_size": 2**31 - 1,
        "group_consumer_assignment_interval_ms": 1_000,
        "group_consumer_min_assignment_interval_ms": 0,
        "group_consumer_max_assignment_interval_ms": 15_000,
        "group_consumer_assignors": ("uniform", "range"),
        "group_consumer_migration_policy": "bidirectional",
        "group_consumer_regex_refresh_interval_ms": 600_000,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
        # Kafka: 3 s, but 0 in the server.properties that it ships
        "group_initial_rebalance_delay_ms": 0,
        "group_max_size": 2**31 - 1,
        "offsets_retention_minutes": 10_080,
        "offsets_retention_check_interval_ms": 600_000,
        "offset_metadata_max_bytes": 4_096,
        "apportion_heartbeat_budget_per_second": 200,  # ours
        "apportion_assignor_timeout_ms": 10_000,  # ours
        "apportion_assignor_offload_size": 10_000,  # ours
        "custom_assignors": {},
        "heartbeat_interval_ms": 5_000,  # what follows from those above
    }


def test_the_smallest_values_go_together() -> None:
    interval = "group_consumer_{}heartbeat_interval_ms"
    session = "group_consumer_{}session_timeout_ms"
    values: dict[str, Any] = {
        **{interval.format(which): 1 for which in ("", "min_", "max_")},
        session.format("min_"): 1,
        session.format(""): 2,
        session.format("max_"): 2,
        "group_consumer_max_size": 1,
        "group_min_session_timeout_ms": 1,
        "group_max_session_timeout_ms": 1,
        "offset_metadata_max_bytes": 0,
        "apportion_heartbeat_budget_per_second": 0,
    }
    settings = asdict(GroupSettings(**values))
    assert {name: settings[name] for name in values} == values


@pytest.mark.parametrize(
    ("values", "interval_ms"),
    [
        ({}, 5_000),
        ({"session_timeout_ms": 15_000}, 5_000),
        ({"session_timeout_ms": 3_000}, 1_000),
        ({"session_timeout_ms": 3_000, "heartbeat_interval_ms": 2_999}, 2_999),
        ({"session_timeout_ms": 3_000, "min_heartbeat_interval_ms": 2_000}, 2_000),
        ({"max_heartbeat_interval_ms": 4_000}, 4_000),
    ],
)
def test_the_heartbeat_interval_is_kafkas_or_fits_a_shorter_session(
    values: dict[str, Any], interval_ms: int
) -> None:
    settings = GroupSettings(**{f"group_consumer_{name}": each for name, each in values.items()})
    assert settings.heartbeat_interval_ms == interval_ms


def test_an_assignor_may_be_named_as_kafka_names_its_class() -> None:
    settings = GroupSettings(
        group_consumer_assignors=(
            "range",
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
        )
    )
    assert settings.group_consumer_assignors == ("range", "uniform")


def test_a_setting_that_breaks_a_rule_is_refused_in_one_sentence(
    request: pytest.FixtureRequest,
) -> None:
    def refused(step: str) -> list[str]:
        return sentence(lambda: GroupSettings(**arguments(step)))

    check(REFUSALS, refused, request)


@pytest.mark.parametrize(
    ("group_id", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("flights-etl", 1202343635),
        ("polygenelubricants", 0),
        ("Hello, world!", 1880044555),
        ("\U0001f600", 1772899),
        ("a" * 65, 395936671),  # too long to be kept
    ],
)
def test_a_group_has_the_shard_that_java_gives_it(group_id: str, hashed: int) -> None:
    assert shard_of(group_id, 1 << 40) == hashed
    assert shard_of(group_id, 50) == hashed % 50
