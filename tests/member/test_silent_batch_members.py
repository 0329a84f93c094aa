"""A batch member whose heartbeats the coordinator has not accepted for a while, and the session
timeout that says for how long it may go on.
"""

import pytest

from apportion.coord.config import GroupSettings
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.queries import BrokerSetting, GroupSetting, NotReady
from apportion.member.batch.topic_choice import TopicChoice
from apportion.rules import run_rule
from tests.member.planner_host import P0, SESSION_MS, PlannerHost, working

SESSION_SETTINGS = ("consumer.session.timeout.ms", "group.consumer.session.timeout.ms")


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def test_a_session_that_was_silent_for_exactly_its_length_still_holds(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.now_ms = 1_000 + SESSION_MS
    assert host.attempt(planner.plan_next(first)) is first


def test_a_session_timeout_that_was_lowered_holds_for_a_member_that_was_silent(
    host: PlannerHost,
) -> None:
    host.session_ms = 45_000
    planner, first = working(host, P0)
    host.now_ms = 1_000 + host.view.heartbeat_interval_ms
    assert host.attempt(planner.plan_next(first)) is first
    assert GroupSetting(SESSION_SETTINGS[0]) not in host.asked
    host.session_ms = 2_000
    host.now_ms = 1_000 + 2_001
    with pytest.raises(NotReady, match="no heartbeat for 2000 ms"):
        host.attempt(planner.plan_next(first))


@pytest.mark.parametrize(
    ("classic_session_ms", "told", "asks", "session_ms"),
    [
        (6_000, {}, [], 6_000),
        (None, {"consumer.session.timeout.ms": "7000"}, ["consumer.session.timeout.ms"], 7_000),
        (None, {"group.consumer.session.timeout.ms": "8000"}, [*SESSION_SETTINGS], 8_000),
        (None, {}, [*SESSION_SETTINGS], GroupSettings().group_consumer_session_timeout_ms),
    ],
)
def test_a_classic_member_decides_its_session_timeout_and_a_setting_that_of_others(
    classic_session_ms: int | None, told: dict[str, str], asks: list[str], session_ms: int
) -> None:
    group = BatchGroup("g", TopicChoice(("t",)), classic_session_ms=classic_session_ms)
    asked: list[str] = []

    def answer(query: GroupSetting | BrokerSetting) -> str | None:
        asked.append(query.name)
        return told.get(query.name)

    assert (run_rule(group.fetch_session_timeout(), answer), asked) == (session_ms, asks)
