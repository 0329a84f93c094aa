"""Custom server-side assignors: beside the shard, checked, and never at the cost of a group."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from apportion.assign.by_name import (
    ClusterTopics,
    Given,
    Subscription,
    TopicParts,
    TopicShape,
    by_topic,
)
from apportion.coord.config import GroupSettings
from apportion.coord.consumer.target_results import LONGEST_PAUSE_MS
from apportion.errors import Code
from apportion.machine import Abandon
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from tests.coord.mixed_clients import classic, consumer, hands, make_driver, settle
from tests.coord.shard_driver import state_of, topics
from tests.coord.toy_assignor import (
    FOO,
    Members,
    Toy,
    beat_to_target,
    first_to_all,
    raises,
    with_toy,
)


def test_the_assignor_is_told_what_members_own_and_where_they_are() -> None:
    toy = Toy()
    driver = with_toy(toy)
    driver.join("a", rack_id="r1", instance_id="i")
    driver.end_computations()
    driver.beat("a", 1)
    driver.join("b", topics=("bar", "foo"))
    driver.end_computations()
    everything = (TopicParts("foo", (0, 1, 2)),)
    assert toy.asked == [
        (
            {"foo": TopicShape(3)},
            {"a": Subscription(("foo",), rack_id="r1", instance_id="i")},
        ),
        (
            {"foo": TopicShape(3)},
            {
                "a": Subscription(
                    ("foo",), owned=everything, generation=2, rack_id="r1", instance_id="i"
                ),
                "b": Subscription(("bar", "foo")),
            },
        ),
    ]


def asks(cluster: ClusterTopics, members: Members) -> Any:
    yield "a query"


def mutates(cluster: Any, members: Any) -> Any:
    members.clear()


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (raises, "the assignor raised ValueError('no')"),
        (
            mutates,
            "the assignor raised AttributeError(\"'mappingproxy' object has no attribute",
        ),
        (first_to_all, "the assignor gives partition 0 of 'foo' to 'b' and to 'a'"),
        (
            lambda *_: {"a": Given(by_topic([("foo", 3)]))},
            "the assignor gives partition 3 of 'foo' to 'a', but the topic has 3 partitions",
        ),
        (
            lambda *_: {"a": Given(by_topic([("bar", 0)]))},
            "the assignor gives partition 0 of 'bar' to 'a', which is not subscribed to that topic",
        ),
        (
            lambda *_: {"z": Given(by_topic([("foo", 0)]))},
            "the assignor gives partition 0 of 'foo' to 'z', which is no member of the group",
        ),
        (
            lambda *_: None,
            "the assignor answers None, which is no mapping of member ids",
        ),
        (lambda *_: {"a": "x" * 9_999}, "the assignor gives 'xxxxxxxxxx"),
        (asks, "the assignor answers <generator object asks at "),
    ],
    ids=[
        "raises",
        "changes its input",
        "twice",
        "unknown partition",
        "not subscribed",
        "unknown member",
        "nothing",
        "rubbish",
        "a generator",
    ],
)
def test_a_wrong_answer_costs_a_line_in_the_log_and_the_older_target_stays(
    answer: Callable[..., Any], what: str
) -> None:
    toy = Toy()
    driver = with_toy(toy)
    driver.join("a")
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0, 1, 2)})
    toy.answer = answer
    assert driver.join("b").error_code == 0
    before = state_of(driver.shard)
    driver.end_computations()
    assert state_of(driver.shard) == before
    (note,) = driver.notes
    assert note.startswith(f"group g: toy: {what}")
    assert note.endswith("; the target assignment of epoch 2 is kept")
    assert len(note) < 700
    assert beat_to_target(driver, "a", 2) == (2, None)


def test_an_assignor_that_failed_is_asked_again_after_longer_and_longer_pauses() -> None:
    toy = Toy(raises)
    driver = with_toy(toy)
    driver.join("a")
    times = []
    for _ in range(1_500):
        if driver.computations:
            times.append(driver.mono_ms)
            driver.end_computations()
        driver.advance(100)
        driver.beat("a", 1)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, LONGEST_PAUSE_MS]


def test_a_late_answer_is_dropped() -> None:
    driver = with_toy(Toy(), apportion_assignor_timeout_ms=3_000)
    driver.join("a")
    (late,) = driver.computations
    driver.advance(2_999)
    assert driver.notes == []
    driver.advance(1)
    assert driver.actions[0] == Abandon(late)
    assert driver.notes == ["group g: toy: the assignor has not answered within 3000 ms"]
    before = state_of(driver.shard)
    driver.end_computations()
    assert state_of(driver.shard) == before
    driver.advance(1_000)
    driver.beat("a", 1)
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0, 1, 2)})


def test_votes_choose_between_built_in_and_custom_assignors() -> None:
    toy = Toy()
    driver = with_toy(toy)
    driver.join("a")
    (computation,) = driver.computations
    # Now uniform has a vote, which computes within the step and waits for nobody's answer.
    driver.join("b", server_assignor="uniform")
    assert Abandon(computation) in driver.actions
    assert driver.notes == []
    described = driver.send(ConsumerGroupDescribeRequest(group_ids=("g",))).groups[0]
    assert described.assignor_name == "uniform"
    before = state_of(driver.shard)
    driver.end_computations()
    assert state_of(driver.shard) == before
    refused = driver.join("d", server_assignor="other")
    assert (refused.error_code, refused.error_message) == (
        Code.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor other is not offered here; there is toy, uniform: ask for one of these "
        "(group.remote.assignor), or add other to the broker's group.consumer.assignors.",
    )


def test_settings_name_an_assignor_only_if_it_is_there() -> None:
    with pytest.raises(ValueError, match="there is no assignor 'toy'"):
        GroupSettings(group_consumer_assignors=("toy",))


def test_a_classic_member_rejoins_for_the_answer_and_not_before() -> None:
    driver = make_driver(group_consumer_assignors=("toy",), custom_assignors={"toy": Toy()})
    theirs, ours = consumer(driver, "z"), classic(driver, "a")
    for _ in range(3):
        settle(theirs, ours)
        driver.end_computations()
    settle(theirs, ours)
    # The first by its member id has everything.
    assert sorted(hands(theirs, ours).values()) == [[], [0, 1, 2, 3]]

    def heartbeat() -> int:
        request = HeartbeatRequest(
            group_id="g", generation_id=ours.generation, member_id=ours.member_id
        )
        code: int = driver.send(request, 4).error_code
        return code

    driver.change_topics(topics(foo=5))
    assert (heartbeat(), len(driver.computations)) == (Code.NONE, 1)
    assert heartbeat() == Code.NONE
    driver.end_computations()
    assert heartbeat() == Code.REBALANCE_IN_PROGRESS
    settle(theirs, ours)
    assert sorted(hands(theirs, ours).values()) == [[], [0, 1, 2, 3, 4]]
