"""Settings of the broker that no other test is about: each changes what clients see."""

from typing import TYPE_CHECKING, Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.node.topic_requests import produced

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver


def test_topics_are_deleted_only_where_that_is_allowed(kit: "type[Kit]") -> None:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),))
    for is_allowed, code in ((False, Code.TOPIC_DELETION_DISABLED), (True, Code.NONE)):
        defaults: dict[str, Any] = {"delete.topic.enable": is_allowed}
        driver = kit.NodeDriver(**defaults)
        driver.create("t")
        assert driver.call(request).responses[0].error_code == code


def test_a_fetch_brings_no_more_than_the_broker_gives_at_once(kit: "type[Kit]") -> None:
    for most_bytes, count in ((2500, 2), (57_671_680, 5)):
        defaults: dict[str, Any] = {"fetch.max.bytes": most_bytes}
        driver = kit.NodeDriver(**defaults)
        driver.create("t")
        sizes = []
        for _ in range(5):
            sent = kit.batch(b"x" * 1000)
            sizes.append(len(sent))
            produced(driver, kit.produce("t", sent))
        answer = driver.call(kit.fetch("t", max_bytes=1 << 30), 12)
        assert len(answer.responses[0].partitions[0].records) == sum(sizes[:count])


@pytest.mark.parametrize(
    ("expires_ms", "code"), [(60_000, Code.NONE), (86_400_000, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)]
)
def test_a_silent_producer_is_forgotten(kit: "type[Kit]", expires_ms: int, code: Code) -> None:
    defaults: dict[str, Any] = {"producer.id.expiration.ms": expires_ms}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    for sequence, wanted in ((0, Code.NONE), (5, code)):
        sent = kit.batch(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert produced(driver, kit.produce("t", sent)).error_code == wanted
        driver.sleep(660_000)


def test_the_broker_bears_the_number_that_it_was_given(kit: "type[Kit]") -> None:
    defaults: dict[str, Any] = {"node.id": 7}
    driver = kit.NodeDriver(**defaults)
    answer = driver.call(DescribeClusterRequest())
    assert (answer.controller_id, [each.broker_id for each in answer.brokers]) == (7, [7])


def test_groups_are_spread_over_so_many_partitions(kit: "type[Kit]") -> None:
    defaults: dict[str, Any] = {"offsets.topic.num.partitions": 3}
    driver = kit.NodeDriver(**defaults)
    [topic] = driver.call(
        MetadataRequest(topics=(MetadataRequestTopic(name="__consumer_offsets"),))
    ).topics
    assert len(topic.partitions) == 3


def join(driver: "NodeDriver", session_ms: int = 6000, member_id: str = "") -> int:
    """The ticket of a classic member that joins, in a version that takes it in at once."""
    protocols = (JoinGroupRequestProtocol(name="range", metadata=b""),)
    facts: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": session_ms,
        "rebalance_timeout_ms": 1000,
        "member_id": member_id,
    }
    ticket = driver.ask(JoinGroupRequest(protocol_type="consumer", protocols=protocols, **facts), 3)
    driver.sleep(0)
    driver.flush()
    return ticket


@pytest.mark.parametrize(("delay_ms", "after_ms"), [(0, 0), (700, 700)])
def test_a_classic_group_waits_for_more_members(
    kit: "type[Kit]", delay_ms: int, after_ms: int
) -> None:
    defaults: dict[str, Any] = {"group.initial.rebalance.delay.ms": delay_ms}
    driver = kit.NodeDriver(**defaults)
    ticket = join(driver)
    if after_ms:
        driver.sleep(after_ms - 1)
        assert ticket not in driver.answers
        driver.sleep(1)
        driver.flush()
    assert driver.answers[ticket].error_code == Code.NONE


def test_a_classic_group_has_no_more_members_than_it_may(kit: "type[Kit]") -> None:
    defaults: dict[str, Any] = {"group.max.size": 2, "group.initial.rebalance.delay.ms": 700}
    driver = kit.NodeDriver(**defaults)
    first, second, third = (join(driver) for _ in range(3))
    assert driver.answers[third].error_code == Code.GROUP_MAX_SIZE_REACHED
    driver.sleep(1400)
    driver.flush()
    assert [driver.answers[each].error_code for each in (first, second)] == [Code.NONE] * 2


@pytest.mark.parametrize(("session_ms", "code"), [(1999, 26), (2000, 0), (3000, 0), (3001, 26)])
def test_the_session_of_a_classic_member_is_within_its_bounds(
    kit: "type[Kit]", session_ms: int, code: int
) -> None:
    defaults: dict[str, Any] = {
        "group.min.session.timeout.ms": 2000,
        "group.max.session.timeout.ms": 3000,
    }
    driver = kit.NodeDriver(**defaults)
    assert driver.answers[join(driver, session_ms)].error_code == code


def beat(
    driver: "NodeDriver", member_id: str, epoch: int = 0, group_id: str = "g"
) -> ConsumerGroupHeartbeatResponse:
    """The answer to a member of a consumer group."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    result: ConsumerGroupHeartbeatResponse = driver.call(request, 1)
    return result


@pytest.mark.parametrize(("budget", "is_told"), [(0, [300] * 3), (20, [100, 200, 250])])
def test_members_of_a_consumer_group_are_told_the_interval_of_their_heartbeats(
    kit: "type[Kit]", budget: int, is_told: list[int]
) -> None:
    defaults: dict[str, Any] = {
        "group.consumer.heartbeat.interval.ms": 300,
        "apportion.heartbeat.budget.per.second": budget,
    }
    driver = kit.NodeDriver(**defaults)
    driver.create("t", 4)
    told = [beat(driver, "a", group_id=group_id).heartbeat_interval_ms for group_id in "fgh"]
    assert told == is_told, "the groups of three shards share one budget"


@pytest.mark.parametrize(
    ("session_ms", "code"), [(2000, Code.UNKNOWN_MEMBER_ID), (60_000, Code.NONE)]
)
def test_a_consumer_group_member_expires_after_its_session(
    kit: "type[Kit]", session_ms: int, code: Code
) -> None:
    defaults: dict[str, Any] = {"group.consumer.session.timeout.ms": session_ms}
    driver = kit.NodeDriver(**defaults)
    driver.create("t")
    epoch = beat(driver, "a").member_epoch
    driver.sleep(2001)
    driver.flush()
    assert beat(driver, "a", epoch).error_code == code


def test_a_setting_that_leaves_the_word_to_another_is_described_without_a_value(
    kit: "type[Kit]",
) -> None:
    resource = DescribeConfigsResource(
        resource_type=4,
        resource_name="1",
        configuration_keys=("log.retention.ms", "log.roll.hours"),
    )
    [result] = kit.NodeDriver().call(DescribeConfigsRequest(resources=(resource,))).results
    assert [(each.name, each.value) for each in result.configs] == [
        ("log.retention.ms", None),
        ("log.roll.hours", "168"),
    ]
