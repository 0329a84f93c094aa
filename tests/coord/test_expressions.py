"""Subscriptions by regular expression: what is refused, what is written, when they are resolved."""

from typing import Any

import pytest

from apportion.coord.consumer.expressions import MOST_AT_ONCE, ResolveExpressions, matching
from apportion.errors import Code
from apportion.machine import Computed, ComputeFailed
from apportion.topics import Topic, Topics
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.records import groups
from tests.coord.mixed_clients import classic, consumer, hands, make_driver, settle
from tests.coord.mixed_shard_driver import ClassicClient
from tests.coord.shard_driver import ShardDriver, member_metadata, state_of, topics

KEY = groups.ConsumerGroupRegularExpressionKey
VALUE = groups.ConsumerGroupRegularExpressionValue


def match(driver: ShardDriver, member_id: str, expression: str, **facts: Any) -> Any:
    """The answer to a member that joins with an expression and no names."""
    return driver.join(member_id, topics=(), subscribed_topic_regex=expression, **facts)


def resolutions(driver: ShardDriver, group_id: str = "g") -> Any:
    """{expression: topics} as the group has it."""
    group: Any = driver.shard.ledger.groups[group_id]
    return group.saved.resolutions


def subscribed(driver: ShardDriver, member_id: str) -> tuple[str, ...]:
    """The topics to which a member subscribes."""
    group = driver.shard.ledger.consumer_group_or_none("g")
    assert group is not None
    return group.saved.subscription(group.saved.members[member_id].metadata)


def begun(driver: ShardDriver) -> list[tuple[str, ...]]:
    """The expressions of each computation that was begun and has not ended."""
    return [
        computation.expressions
        for computation in driver.computations
        if isinstance(computation, ResolveExpressions)
    ]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(", "is no regular expression of RE2: missing ): (."),
        ("(?=foo)", "is no regular expression of RE2: invalid perl operator: (?=."),
        ("(foo)\\1", "is no regular expression of RE2: invalid escape sequence: \\1."),
        ("f{1001}", "is no regular expression of RE2: invalid repetition size: {1001}."),
        (
            "((f{100}){100}){100}",
            "is no regular expression of RE2: invalid repetition size: {100}.",
        ),
        (
            "\\pL{500}",
            "is no regular expression of RE2: pattern too large - compile failed.",
        ),
        ("f" * 32_767, "is no regular expression of RE2: pattern too large - compile failed."),
        ("é" * 16_384, "is too long."),
    ],
    ids=["unclosed", "look-ahead", "reference", "repeated", "nested", "classes", "long", "huge"],
)
def test_a_bad_expression_is_refused_before_anything_is_written(expression: str, why: str) -> None:
    driver = ShardDriver()
    answer = match(driver, "a", expression)
    assert (answer.error_code, answer.error_message) == (
        Code.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex {why}",
    )
    assert (driver.log, driver.shard.ledger.groups, driver.computations) == ([], {}, [])


def test_an_expression_that_ruins_backtracking_engines_is_matched_in_linear_time() -> None:
    names = ["a" * 249, "a" * 248 + "b"]
    assert matching("(a*)*b", names) == (names[1],)
    assert matching("(a?){200}a{200}", names) == (names[0],)


def test_an_expression_must_match_the_whole_name() -> None:
    names = ["foo", "food", "afoo", "__consumer_offsets"]
    assert matching("foo", names) == ("foo",)
    assert matching("^foo.*", names) == ("foo", "food")
    assert matching("foo|food", names) == ("foo", "food")
    assert matching(".*", names) == tuple(names)
    assert matching("(", names) == ()  # another coordinator's record may have it


def test_a_resolution_is_record_16_behind_the_members_and_before_the_epoch() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    match(driver, "a", "fo+")
    before = len(driver.log)
    driver.end_computations()
    resolved, epoch = driver.log[before:]
    assert resolved.key == KEY(group_id="g", regular_expression="fo+")
    assert resolved.value == VALUE(topics=("foo",), version=0, timestamp=1_000_000)
    assert (epoch.key, epoch.value.epoch) == (groups.ConsumerGroupMetadataKey(group_id="g"), 2)


def test_a_members_expression_is_described_and_its_names_are_what_it_named() -> None:
    driver = ShardDriver()
    driver.join("a", topics=("foo",), subscribed_topic_regex="fo.")
    driver.end_computations()
    (group,) = driver.send(ConsumerGroupDescribeRequest(group_ids=("g",))).groups
    (member,) = group.members
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("foo",), "fo.")


def test_a_changed_expression_stands_for_no_topics_until_it_is_resolved() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    match(driver, "a", "fo.")
    driver.end_computations()
    driver.beat("a", 1)
    driver.beat("a", 2, subscribed_topic_regex="fo.|ba.")
    assert (begun(driver), subscribed(driver, "a")) == ([("fo.|ba.",)], ())
    driver.end_computations()
    assert (begun(driver), subscribed(driver, "a")) == ([], ("bar", "foo"))


def test_a_member_that_leaves_takes_its_expression_along_and_the_topics_with_it() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    driver.join("a", topics=("bar",))
    match(driver, "b", "fo.")
    driver.end_computations()
    driver.beat("b", -1)
    group: Any = driver.shard.ledger.groups["g"]
    assert (group.saved.resolutions, group.saved.expression_counts) == ({}, {})
    assert group.saved.subscriber_counts == {"bar": 1}


def test_a_deleted_group_leaves_no_resolution_behind() -> None:
    driver = ShardDriver()
    match(driver, "a", "fo.")
    driver.end_computations()
    # what a log of Kafka may hold: a resolution that no member has
    stray = KEY(group_id="g", regular_expression="stray")
    driver.shard.replay(driver.log[0]._replace(key=stray, value=VALUE(topics=("foo",))))
    driver.beat("a", -1)
    driver.send(DeleteGroupsRequest(groups_names=("g",)))
    assert state_of(driver.shard) == {"groups": {}, "offsets": {}}
    tombstones = [each.key for each in driver.log if each.value is None]
    assert KEY(group_id="g", regular_expression="fo.") in tombstones
    assert stray in tombstones


def test_a_task_that_fails_changes_nothing_and_is_tried_again_later() -> None:
    driver = ShardDriver()
    match(driver, "a", "fo.")
    (computation,) = driver.computations
    driver.step(ComputeFailed(computation, "MemoryError()"))
    assert driver.notes == ["group g: its expressions could not be resolved: MemoryError()"]
    driver.computations.clear()
    driver.advance(10_000)
    driver.beat("a", 1)
    assert driver.computations == []
    driver.advance(1)
    driver.beat("a", 1)
    driver.end_computations()
    assert resolutions(driver) == {"fo.": ("foo",)}


def test_groups_that_come_and_go_cannot_pile_computations_up() -> None:
    driver = ShardDriver()
    for number in range(MOST_AT_ONCE + 5):
        match(driver, "a", "fo.", group_id=f"g{number}")
    assert len(driver.computations) == MOST_AT_ONCE
    driver.end_computations()
    driver.beat("a", 1, group_id=f"g{MOST_AT_ONCE}")
    driver.end_computations()
    assert resolutions(driver, f"g{MOST_AT_ONCE}") == {"fo.": ("foo",)}


def test_a_stray_resolution_in_the_log_goes_with_the_next_refresh() -> None:
    driver = ShardDriver()
    match(driver, "a", "fo.")
    stray = KEY(group_id="g", regular_expression="stray")
    driver.log.append(driver.log[0]._replace(key=stray, value=VALUE(topics=("foo",))))
    driver.crash()
    driver.beat("a", 1)
    driver.end_computations()
    assert resolutions(driver) == {"fo.": ("foo",)}


def test_a_static_members_successor_has_its_own_expression() -> None:
    driver = ShardDriver(known=topics(foo=2, bar=1))
    match(driver, "a", "fo.", instance_id="i")
    driver.end_computations()
    driver.beat("a", 1, instance_id="i")
    driver.beat("a", -2, instance_id="i")
    answer = match(driver, "b", "fo.", instance_id="i")
    assert (answer.member_epoch, len(answer.assignment.topic_partitions[0].partitions)) == (2, 2)
    group: Any = driver.shard.ledger.groups["g"]
    assert group.saved.members["b"].metadata == member_metadata(
        subscribed_topic_names=(), subscribed_topic_regex="fo.", instance_id="i"
    )
    assert group.saved.expression_counts == {"fo.": 1}


def test_a_classic_successor_of_the_same_topics_goes_on_without_a_rebalance() -> None:
    driver = make_driver()
    a, s = classic(driver, "a"), consumer(driver, "s", instance_id="i1")
    s.topic_names, s.expression = (), "fo."
    settle(a, s)
    driver.end_computations()
    settle(a, s)
    owned = hands(a, s)
    s.leave(-2)
    j = ClassicClient(driver, "j", ("foo",), "i1")
    settle(a, j)
    assert driver.group().type_name == "classic"
    assert hands(a, j) == {"a": owned["a"], "j": owned["s"]}
    assert [each.key for each in driver.log if each.value is None].count(
        KEY(group_id="g", regular_expression="fo.")
    ) == 1


def test_a_bad_expression_does_not_upgrade_a_classic_group() -> None:
    driver = make_driver()
    a = classic(driver, "a")
    settle(a)
    before = len(driver.log)
    answer = driver.join("m", topics=(), subscribed_topic_regex="(")
    assert answer.error_code == Code.INVALID_REGULAR_EXPRESSION
    assert (driver.group().type_name, len(driver.log)) == ("classic", before)


def test_a_task_that_the_shard_has_not_begun_is_nobodys() -> None:
    computation = ResolveExpressions("g", ("b.", "a."), Topics([Topic("a1", bytes(16), 1)]))
    assert computation.run() == {"b.": (), "a.": ("a1",)}
    driver = ShardDriver()
    assert (
        driver.perform(driver.shard.step(Computed(computation, computation.run()), driver.now))
        == []
    )
