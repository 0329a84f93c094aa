"""Requests of classic members that a consumer group refuses."""

from time import process_time
from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.join_group import JoinGroupResponse
from tests.coord.classic_requests import (
    beat,
    driver_with_one_consumer,
    join,
    sync,
)
from tests.coord.mixed_shard_driver import ConsumerClient, MixedShardDriver
from tests.coord.shard_driver import settings_with, topics


@pytest.fixture
def driver() -> MixedShardDriver:
    result: MixedShardDriver = driver_with_one_consumer()
    return result


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"names": ()}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"names": ("sticky", "roundrobin")}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\0"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\0", "group_instance_id": "i9"}, Code.UNKNOWN_MEMBER_ID),
        ({"metadata": b"\0", "group_instance_id": "i1"}, Code.FENCED_INSTANCE_ID),
        ({"session_timeout_ms": 10}, Code.INVALID_SESSION_TIMEOUT),
        ({"group_instance_id": "i9"}, Code.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i1"}, Code.FENCED_INSTANCE_ID),
        ({"member_id": "x" * 40_000}, Code.INVALID_REQUEST),
    ],
)
def test_a_join_that_cannot_be_is_refused_and_changes_nothing(
    driver: MixedShardDriver, facts: dict[str, Any], code: Code
) -> None:
    join(driver, "", group_instance_id="i1")
    before = len(driver.log)
    answer = join(driver, **facts)
    # what no group was asked about is answered as anywhere
    echoed = "m" if code is Code.INVALID_SESSION_TIMEOUT else ""
    assert answer == JoinGroupResponse(error_code=int(code), protocol_name=None, member_id=echoed)
    assert len(driver.log) == before


def test_two_members_with_thousands_of_protocols_are_compared_name_by_name_once(
    driver: MixedShardDriver,
) -> None:
    assert (
        join(driver, "m", names=[f"a{number}" for number in range(20_000)]).error_code == Code.NONE
    )
    assert (
        join(driver, "n", names=[f"b{number}" for number in range(20_000)]).error_code
        == Code.INCONSISTENT_GROUP_PROTOCOL
    )


def test_a_join_beside_a_member_with_many_protocols_costs_what_its_own_protocols_do(
    driver: MixedShardDriver,
) -> None:
    began = process_time()
    assert (
        join(driver, "m", names=[f"a{number}" for number in range(100_000)]).error_code == Code.NONE
    )
    took, began = process_time() - began, process_time()
    assert {join(driver, "n", names=["b"]).error_code for _ in range(200)} == {
        Code.INCONSISTENT_GROUP_PROTOCOL
    }
    assert process_time() - began < took


def test_a_full_group_takes_nobody_but_its_members() -> None:
    driver = MixedShardDriver(settings_with(group_consumer_max_size=1), topics(foo=4))
    ConsumerClient(driver, "c", ("foo",)).act()
    assert join(driver).error_code == Code.GROUP_MAX_SIZE_REACHED
    assert join(driver, "", group_instance_id="i1").error_code == Code.GROUP_MAX_SIZE_REACHED
    assert join(driver, "c").error_code == Code.NONE


@pytest.mark.parametrize(
    ("generation", "member_id", "facts", "code"),
    [
        (3, "nobody", {}, Code.UNKNOWN_MEMBER_ID),
        (2, "c", {}, Code.UNKNOWN_MEMBER_ID),
        (3, "m", {"group_instance_id": "i9"}, Code.UNKNOWN_MEMBER_ID),
        (3, "m", {"group_instance_id": "i1"}, Code.FENCED_INSTANCE_ID),
        (2, "m", {"protocol_type": "connect"}, Code.ILLEGAL_GENERATION),
        (3, "m", {"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        (3, "m", {"protocol_name": "sticky"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        (3, "m", {}, Code.REBALANCE_IN_PROGRESS),
    ],
)
def test_syncs_are_refused_in_the_order_of_kafka(
    driver: MixedShardDriver, generation: int, member_id: str, facts: dict[str, Any], code: Code
) -> None:
    join(driver)
    join(driver, "", group_instance_id="i1")
    assert sync(driver, generation, member_id, **facts).error_code == code


def test_heartbeats_are_refused_in_the_order_of_kafka(driver: MixedShardDriver) -> None:
    join(driver)
    join(driver, "", group_instance_id="i1")
    asked = [
        (3, "nobody", None),
        (2, "c", None),
        (3, "m", "i9"),
        (3, "m", "i1"),
        (2, "m", None),
        (3, "m", None),
    ]
    assert [beat(driver, *each) for each in asked] == [
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
        Code.ILLEGAL_GENERATION,
        Code.REBALANCE_IN_PROGRESS,
    ]
