"""Altered settings are obeyed at once: by groups, by topics and their logs, by the broker."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from tests.node import kit
from tests.node.config_requests import (
    LIST_ALL,
    changes_of,
    codes,
    incremental,
    listed,
)
from tests.node.kit import NodeDriver
from tests.node.topic_requests import EARLIEST, create, produced
from tests.node.topic_requests import listed as listed_offset

GROUP, BROKER, TOPIC = 32, 4, 2


@pytest.fixture
def driver() -> NodeDriver:
    """A node that tells every member the configured interval."""
    return kit.NodeDriver(apportion_heartbeat_budget_per_second=0)


def alter(driver: NodeDriver, kind: str, name: str, **values: str | None) -> None:
    """Alter one resource, which succeeds."""
    assert codes(driver.call(incremental((kind, name, changes_of(**values))))) == [Code.NONE]


def beat(driver: NodeDriver, epoch: int, group: str = "g", member: str = "m") -> tuple[int, int]:
    """A heartbeat; the epoch that it is answered, and the interval. Or the error, and 0."""
    fields: dict[str, Any] = (
        {"rebalance_timeout_ms": 9000, "subscribed_topic_names": ("t",), "topic_partitions": ()}
        if epoch == 0
        else {}
    )
    answer = driver.call(
        ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, **fields
        )
    )
    return answer.error_code or answer.member_epoch, answer.heartbeat_interval_ms


def state(driver: NodeDriver, group: str = "g") -> tuple[int, int]:
    """The error code and the number of members."""
    [described] = driver.call(ConsumerGroupDescribeRequest(group_ids=(group,))).groups
    return described.error_code, len(described.members)


def test_a_heartbeat_tells_the_interval_of_its_group(driver: NodeDriver) -> None:
    driver.create("t")
    alter(driver, "group", "g", consumer_heartbeat_interval_ms="3000")
    epoch, interval_ms = beat(driver, 0)
    assert interval_ms == 3000
    assert beat(driver, 0, "other")[1] == 5000
    alter(driver, "group", "g", consumer_heartbeat_interval_ms="700")
    assert beat(driver, epoch) == (epoch, 700)
    alter(driver, "group", "g", consumer_heartbeat_interval_ms=None)
    assert beat(driver, epoch) == (epoch, 5000)


def test_a_session_lasts_as_long_as_its_group_says(driver: NodeDriver) -> None:
    driver.create("t")
    alter(driver, "group", "g", consumer_session_timeout_ms="7000")
    for group in ("g", "other"):
        beat(driver, 0, group)
    driver.sleep(6_999)
    assert [state(driver, group) for group in ("g", "other")] == [(0, 1), (0, 1)]
    driver.sleep(1)
    assert [state(driver, group) for group in ("g", "other")] == [(0, 0), (0, 1)]
    driver.sleep(38_000)
    assert state(driver, "other") == (0, 0)


def test_a_session_under_way_ends_as_its_member_was_told(driver: NodeDriver) -> None:
    driver.create("t")
    alter(
        driver,
        "group",
        "g",
        consumer_heartbeat_interval_ms="9000",
        consumer_session_timeout_ms="30000",
    )
    epoch, interval_ms = beat(driver, 0)
    assert interval_ms == 9000
    alter(
        driver,
        "group",
        "g",
        consumer_heartbeat_interval_ms="1000",
        consumer_session_timeout_ms="2000",
    )
    driver.sleep(9_000)  # the interval that the member knows, far longer than the new session
    assert beat(driver, epoch) == (epoch, 1000)
    driver.sleep(1_999)
    assert state(driver) == (0, 1)
    driver.sleep(1)
    assert state(driver) == (0, 0)


def test_a_session_is_as_long_after_a_restart(driver: NodeDriver) -> None:
    driver.create("t")
    alter(driver, "group", "g", consumer_session_timeout_ms="7000")
    beat(driver, 0)
    again = driver.crash()
    again.sleep(6_999)
    assert state(again) == (0, 1)
    again.sleep(1)
    assert state(again) == (0, 0)


def test_a_group_with_settings_alone_is_no_group(driver: NodeDriver) -> None:
    alter(driver, "group", "g", consumer_session_timeout_ms="7000")
    assert driver.call(ListGroupsRequest()).groups == ()
    assert state(driver) == (Code.GROUP_ID_NOT_FOUND, 0)


def test_settings_outlive_their_group(driver: NodeDriver) -> None:
    driver.create("t")
    alter(driver, "group", "g", consumer_heartbeat_interval_ms="3000")
    beat(driver, 0)
    assert beat(driver, -1)[0] == -1
    [result] = driver.call(DeleteGroupsRequest(groups_names=("g",))).results
    assert result.error_code == Code.NONE
    assert listed(driver.call(LIST_ALL)) == [
        (GROUP, "g"),
        (BROKER, "1"),
        (TOPIC, "__consumer_offsets"),
        (TOPIC, "t"),
    ]
    assert beat(driver, 0)[1] == 3000


def test_no_answer_shows_a_setting_before_it_is_durable(driver: NodeDriver) -> None:
    driver.create("t")
    epoch, _ = beat(driver, 0)
    ticket = driver.send(
        incremental(("group", "g", changes_of(consumer_heartbeat_interval_ms="3000")))
    )
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    steady = driver.send(request)
    assert ticket not in driver.answers
    assert steady not in driver.answers
    driver.fail_flush()
    driver.flush()
    assert codes(driver.answers[ticket]) == [Code.KAFKA_STORAGE_ERROR]
    assert beat(driver, epoch) == (epoch, 5000)


def test_a_topic_obeys_its_altered_settings(driver: NodeDriver) -> None:
    driver.create("t")
    large = kit.produce("t", kit.batch(b"v" * 2_000))
    assert produced(driver, large).error_code == Code.NONE
    alter(driver, "topic", "t", max_message_bytes="1000", message_timestamp_type="LogAppendTime")
    assert produced(driver, large).error_code == Code.MESSAGE_TOO_LARGE
    small = produced(driver, kit.produce("t", kit.batch(b"v")))
    assert small.log_append_time_ms > 0
    alter(driver, "topic", "t", cleanup_policy="compact")
    assert produced(driver, kit.produce("t", kit.batch(b"v"))).error_code == Code.INVALID_RECORD
    alter(driver, "topic", "t", cleanup_policy=None, max_message_bytes=None)
    assert produced(driver, large).error_code == Code.NONE


def test_records_expire_once_their_topic_has_a_retention() -> None:
    driver = kit.NodeDriver(log_retention_check_interval_ms=1_000)
    driver.create("t")
    produced(driver, kit.produce("t", kit.batch(b"v")))
    driver.sleep(60_000)
    assert listed_offset(driver, EARLIEST)[0] == 0
    alter(driver, "topic", "t", retention_ms="5000")
    driver.sleep(10_000)
    driver.flush()
    assert listed_offset(driver, EARLIEST)[0] == 1


def test_records_expire_once_the_broker_has_a_retention() -> None:
    driver = kit.NodeDriver(log_retention_check_interval_ms=1_000)
    driver.create("t")
    produced(driver, kit.produce("t", kit.batch(b"v")))
    alter(driver, "broker", "", log_retention_ms="5000")
    driver.sleep(60_000)
    driver.flush()
    assert listed_offset(driver, EARLIEST)[0] == 1


def test_an_open_log_rolls_by_the_altered_size(driver: NodeDriver) -> None:
    driver.create("t")
    large = kit.produce("t", kit.batch(b"v" * 700_000))

    def segments() -> int:
        produced(driver, large)
        [partition] = driver.node.partitions()
        return len(list(partition.log.segments()))

    assert [segments(), segments()] == [1, 1]
    alter(driver, "topic", "t", segment_bytes="1048576")
    assert [segments(), segments()] == [2, 3]
    alter(driver, "topic", "t", segment_bytes=None)
    assert [segments(), segments()] == [3, 3]
    ticket = driver.send(incremental(("topic", "t", changes_of(segment_bytes="1048576"))))
    driver.fail_flush()
    driver.flush()
    assert codes(driver.answers[ticket]) == [Code.KAFKA_STORAGE_ERROR]
    assert segments() == 3


def test_topics_follow_the_altered_settings_of_their_broker(driver: NodeDriver) -> None:
    driver.create("t")
    assert create(driver, "own", max_message_bytes="5000")[0] == Code.NONE
    alter(driver, "broker", "1", message_max_bytes="1000")
    large = kit.batch(b"v" * 2_000)
    assert [produced(driver, kit.produce(topic, large)).error_code for topic in ("t", "own")] == [
        Code.MESSAGE_TOO_LARGE,
        Code.NONE,
    ]
