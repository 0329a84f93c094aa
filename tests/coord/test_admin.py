"""Describe, list, delete: what an administrator sees (a.8, b.9)."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from apportion.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from tests.coord.shard_driver import ShardDriver, parts, topic_id, topics


def describe(driver: ShardDriver, *group_ids: str, **facts: Any) -> tuple[DescribedGroup, ...]:
    result: tuple[DescribedGroup, ...] = driver.send(
        ConsumerGroupDescribeRequest(group_ids=group_ids, **facts), 1
    ).groups
    return result


def assignment(**partitions: Any) -> Assignment:
    held = (
        TopicPartitions(topic_id=topic_id(name), topic_name=name, partitions=tuple(some))
        for name, some in partitions.items()
    )
    return Assignment(topic_partitions=tuple(held))


def test_a_group_is_described_with_its_members_and_their_way() -> None:
    driver = ShardDriver(known=topics(foo=2))
    driver.join("a", rack_id="r")
    driver.join("b", instance_id="i")
    driver.beat("a", 2)
    common: dict[str, Any] = {
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "subscribed_topic_regex": "",
        "subscribed_topic_names": ("foo",),
        "member_type": 1,
    }
    assert describe(driver, "g") == (
        DescribedGroup(
            group_id="g",
            group_state="Reconciling",
            group_epoch=3,
            assignment_epoch=3,
            assignor_name="uniform",
            members=(
                Member(
                    member_id="a",
                    rack_id="r",
                    member_epoch=2,
                    assignment=assignment(foo=[0, 1]),
                    target_assignment=assignment(foo=[0]),
                    **common,
                ),
                Member(
                    member_id="b",
                    instance_id="i",
                    member_epoch=3,
                    assignment=assignment(),
                    target_assignment=assignment(foo=[1]),
                    **common,
                ),
            ),
        ),
    )


def test_a_deleted_topic_is_left_out_of_the_description() -> None:
    driver = ShardDriver(known=topics(foo=1))
    driver.join("a")
    driver.change_topics([])
    (group,) = describe(driver, "g")
    assert (group.members[0].assignment, group.members[0].target_assignment) == (
        Assignment(),
        Assignment(),
    )


def test_a_group_that_cannot_be_described_has_an_error_and_a_reason() -> None:
    driver = ShardDriver()
    assert driver.commit(-1, {("foo", 0): 5}, group_id="simple") == [Code.NONE]
    assert describe(driver, "g", "simple", "") == (
        DescribedGroup(
            group_id="g",
            error_code=Code.GROUP_ID_NOT_FOUND,
            error_message="Group g not found.",
        ),
        DescribedGroup(
            group_id="simple",
            error_code=Code.GROUP_ID_NOT_FOUND,
            error_message="Group simple is not a consumer group.",
        ),
        DescribedGroup(group_id="", error_code=Code.INVALID_GROUP_ID, error_message=None),
    )


def test_operations_are_told_to_those_who_ask() -> None:
    driver = ShardDriver()
    driver.join("a")
    operations = [
        describe(driver, "g", include_authorized_operations=asked)[0].authorized_operations
        for asked in (False, True)
    ]
    assert operations == [-(2**31), 0b1101_0100_1000]


SIMPLE = ListedGroup(
    group_id="a-simple", protocol_type="", group_state="Empty", group_type="classic"
)
EMPTY = ListedGroup(
    group_id="empty", protocol_type="consumer", group_state="Empty", group_type="consumer"
)
STABLE = ListedGroup(
    group_id="stable", protocol_type="consumer", group_state="Stable", group_type="consumer"
)


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ((), (), (SIMPLE, EMPTY, STABLE)),
        ((" stable ",), (), (STABLE,)),
        (("STABLE", "Empty"), ("Consumer",), (EMPTY, STABLE)),
        ((), ("classic",), (SIMPLE,)),
        (("Dead",), (), ()),
        ((), ("nonsense",), ()),
    ],
)
def test_groups_are_listed_through_both_filters(
    states: tuple[str, ...], types: tuple[str, ...], listed: tuple[ListedGroup, ...]
) -> None:
    driver = ShardDriver()
    driver.join("a", group_id="stable")
    driver.join("a", group_id="empty")
    driver.beat("a", -1, group_id="empty")
    driver.commit(-1, {("foo", 0): 1}, group_id="a-simple")
    assert (
        driver.send(ListGroupsRequest(states_filter=states, types_filter=types), 5).groups == listed
    )


def test_only_groups_without_members_are_deleted_with_their_offsets() -> None:
    driver: Any = ShardDriver()
    driver.join("a")
    driver.commit(2, {("foo", 0): 1}, "a")
    driver.commit(-1, {("foo", 0): 1}, group_id="simple")
    ask = DeleteGroupsRequest(groups_names=("g", "none", "simple"))
    assert [result.error_code for result in driver.send(ask, 2).results] == [
        Code.NON_EMPTY_GROUP,
        Code.GROUP_ID_NOT_FOUND,
        0,
    ]
    driver.beat("a", -1)
    written = len(driver.log)
    assert driver.send(ask, 2).results[0] == DeletableGroupResult(group_id="g")
    assert [(record.key.__key__, record.value) for record in driver.log[written:]] == [
        (1, None),
        (6, None),
        (3, None),
    ]
    assert (driver.shard.ledger.groups, driver.shard.ledger.offsets) == ({}, {})
    driver.crash()
    assert driver.send(ListGroupsRequest(), 5).groups == ()
    assert driver.join("a").assignment.topic_partitions == parts({"foo": [0, 1, 2]})
