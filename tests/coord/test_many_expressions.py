"""Groups of many different expressions, on clusters of many topics: bounds, and short steps."""

from typing import Any

import pytest

from apportion.coord.consumer.expressions import MOST_EXPRESSIONS, MOST_NAMES_AT_ONCE
from apportion.errors import Code
from apportion.topics import Topic, Topics
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from tests.coord.shard_driver import ShardDriver, recovered, state_of, topic_id

TOPICS = MOST_NAMES_AT_ONCE // 2
NAMES = tuple(f"t{number:04}" for number in range(TOPICS))
ALL = ("t.*", "t[0-9]*", "t+[0-9]+", "t....", "(t)[0-9]{4}")
"""Each matches every topic. The first two are one step, for what they match."""


def match(driver: ShardDriver, member_id: str, expression: str, **facts: Any) -> Any:
    """The answer to a member that joins with an expression and no names."""
    return driver.join(member_id, topics=(), subscribed_topic_regex=expression, **facts)


def saved(driver: ShardDriver) -> list[str]:
    """The expressions whose topics are saved."""
    group: Any = driver.shard.ledger.groups["g"]
    assert all(topics == NAMES for topics in group.saved.resolutions.values())
    return list(group.saved.resolutions)


def kinds(driver: ShardDriver, begin: int) -> list[str]:
    """The kinds of the records that were written since then."""
    return [
        type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        for record in driver.log[begin:]
    ]


@pytest.fixture
def driver() -> ShardDriver:
    """A shard that has just begun to save what its group's expressions match."""
    driver = ShardDriver(known=Topics(Topic(name, topic_id(name), 1) for name in NAMES))
    for number, expression in enumerate(ALL):
        match(driver, f"m{number}", expression)
    driver.computations.clear()
    driver.crash()  # so all of them are resolved at once
    driver.beat("m0", 1)
    driver.end_computations()
    return driver


def test_a_large_result_is_saved_in_steps_that_each_have_their_epoch(driver: ShardDriver) -> None:
    assert saved(driver) == list(ALL[:2])
    before = len(driver.log)
    driver.advance(1)
    assert saved(driver) == list(ALL[:4])
    driver.advance(1)
    assert saved(driver) == list(ALL)
    written = ["RegularExpression", "RegularExpression", "Metadata", "RegularExpression"]
    assert kinds(driver, before) == [*written, "Metadata"]
    driver.advance(5_000)
    assert len(driver.log) == before + 5
    assert state_of(recovered(driver.log, driver.shard)) == state_of(driver.shard)


def test_heartbeats_between_the_steps_are_answered_and_begin_no_other_computation(
    driver: ShardDriver,
) -> None:
    assert driver.beat("m0", 1).member_epoch == 2
    assert driver.computations == []
    driver.advance(10_002)
    driver.beat("m0", 2)
    assert (saved(driver), driver.computations) == (list(ALL), [])


def test_an_expression_that_a_crash_left_unsaved_is_resolved_again(
    driver: ShardDriver,
) -> None:
    assert driver.beat("m4", 1).member_epoch == 2
    driver.crash()
    driver.beat("m0", 1)
    driver.end_computations()
    driver.advance(2)
    assert saved(driver) == list(ALL)
    assert driver.beat("m4", 2).member_epoch == 4
    assert driver.beat("m4", 4).assignment is None  # no partition is free yet


def test_an_expression_that_goes_between_the_steps_is_not_saved(driver: ShardDriver) -> None:
    driver.beat("m3", -1)
    driver.advance(2)
    assert saved(driver) == [*ALL[:3], ALL[4]]


def test_a_group_that_goes_between_the_steps_leaves_nothing_behind(driver: ShardDriver) -> None:
    for number in range(len(ALL)):
        driver.beat(f"m{number}", -1)
    driver.send(DeleteGroupsRequest(groups_names=("g",)))
    match(driver, "m", "t.*")
    driver.advance(2)
    assert saved(driver) == []
    driver.end_computations()
    assert saved(driver) == ["t.*"]


def test_a_group_has_a_thousand_different_expressions_at_most() -> None:
    driver = ShardDriver()
    for number in range(MOST_EXPRESSIONS):
        assert match(driver, f"m{number}", f"foo|{number}").error_code == Code.NONE
    before = len(driver.log)
    answer = match(driver, "x", "foo|x")
    assert (answer.error_code, answer.error_message) == (
        Code.INVALID_REGULAR_EXPRESSION,
        "Group g has 1000 different expressions, and more are not allowed: use one that another "
        "member has, or topic names.",
    )
    assert len(driver.log) == before
    # one that the group has already, no expression, one in another group
    assert match(driver, "x", "foo|7").error_code == Code.NONE
    assert driver.join("y").error_code == Code.NONE
    assert match(driver, "x", "foo|x", group_id="other").error_code == Code.NONE
    # one in place of the member's own, unless others have that, too
    told = [
        driver.beat(member, 1, subscribed_topic_regex=expression).error_code
        for member, expression in (("m7", "foo|y"), ("m8", "foo|z"), ("m9", "foo|8"))
    ]
    assert told == [Code.INVALID_REGULAR_EXPRESSION, Code.NONE, Code.NONE]
