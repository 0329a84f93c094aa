"""The settings that a group may have of its own are checked, and none breaks a rule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.coord.config import GroupSettings
from apportion.coord.group_settings import (
    OWN_SETTINGS,
    check_group_settings,
    settings_of_group,
)
from apportion.coord.shard_events import SettingsChanged
from apportion.errors import Code, Refused
from tests.coord.shard_driver import ShardDriver, settings_with

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
BROKER = GroupSettings()
TEXTS = st.sampled_from(
    ("1", "100", "999", "1000", "7000", "15000", "45000", "60000", "60001", "x")
)
OWN = st.fixed_dictionaries({}, optional={SESSION: TEXTS, INTERVAL: TEXTS})
BOUNDS = st.tuples(st.integers(1, 3), st.integers(4, 8), st.integers(9, 12)).map(
    lambda steps: GroupSettings(
        group_consumer_min_session_timeout_ms=steps[0] * 5_000,
        group_consumer_session_timeout_ms=steps[1] * 5_000,
        group_consumer_max_session_timeout_ms=steps[2] * 5_000,
        group_consumer_heartbeat_interval_ms=steps[0] * 1_000,
        group_consumer_max_heartbeat_interval_ms=steps[1] * 1_000,
    )
)


def test_a_group_has_the_settings_that_are_declared_for_groups() -> None:
    assert list(OWN_SETTINGS) == [SESSION, INTERVAL, "consumer.assignment.interval.ms"]


@given(OWN)
def test_accepted_settings_hold_as_they_are(own: dict[str, str]) -> None:
    try:
        checked = check_group_settings(own, BROKER)
    except Refused as refused:
        assert refused.code == Code.INVALID_CONFIG
        return
    assert checked == own
    holding = settings_of_group(own, BROKER)
    session_ms = holding.group_consumer_session_timeout_ms
    interval_ms = holding.heartbeat_interval_ms
    assert session_ms == int(own.get(SESSION, BROKER.group_consumer_session_timeout_ms))
    assert interval_ms == int(own.get(INTERVAL, BROKER.heartbeat_interval_for(session_ms)))
    assert interval_ms < session_ms


@given(OWN, BOUNDS)
def test_settings_hold_within_the_bounds_of_any_broker(
    own: dict[str, str], broker: GroupSettings
) -> None:
    try:
        check_group_settings(own, BROKER)
    except Refused:
        return
    holding = settings_of_group(own, broker)  # a value of this class keeps every rule
    assert (holding == broker) or own != {}


@pytest.mark.parametrize(
    ("own", "holding"),
    [
        ({SESSION: "2000"}, (5_000, 1_666)),
        ({SESSION: "60000"}, (45_000, 4_000)),
        ({INTERVAL: "15000"}, (20_000, 4_000)),
        ({SESSION: "2000", INTERVAL: "1500"}, (5_000, 1_500)),
    ],
)
def test_a_value_out_of_new_bounds_moves_to_the_nearest_one(
    own: dict[str, str], holding: tuple[int, int]
) -> None:
    broker = GroupSettings(
        group_consumer_min_session_timeout_ms=5_000,
        group_consumer_session_timeout_ms=20_000,
        group_consumer_max_session_timeout_ms=45_000,
        group_consumer_max_heartbeat_interval_ms=4_000,
    )
    settings = settings_of_group(own, broker)
    assert (
        settings.group_consumer_session_timeout_ms,
        settings.heartbeat_interval_ms,
    ) == holding


def test_a_shard_obeys_the_settings_of_each_group() -> None:
    broker = settings_with(apportion_heartbeat_budget_per_second=0)
    driver: Any = ShardDriver(broker)
    own = settings_of_group({INTERVAL: "3000", SESSION: "9000"}, broker)
    driver.step(SettingsChanged(broker, {"g": own}))
    assert driver.join("A").heartbeat_interval_ms == 3_000
    driver.advance(8_999)
    assert list(driver.shard.ledger.groups["g"].saved.members) == ["A"]
    driver.advance(1)
    assert list(driver.shard.ledger.groups["g"].saved.members) == []
