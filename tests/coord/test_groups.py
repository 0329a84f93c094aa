"""What makes a group's epoch grow, who votes, which interval members are told, how long they may be
silent.
"""

from typing import Any

import pytest

from apportion.coord.consumer.asked_members import in_assignor_order
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.errors import Code
from apportion.machine import Caller
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    RecordTopicPartitions,
)
from tests.coord.shard_driver import (
    HERE,
    ShardDriver,
    member_metadata,
    parts,
    settings_with,
    topic_id,
    topics,
)


def epochs(driver: ShardDriver) -> tuple[int, int]:
    saved: Any = driver.shard.ledger.groups["g"].saved
    assert saved is not None
    return saved.epoch, saved.assignment_epoch


def test_a_steady_heartbeat_writes_nothing() -> None:
    driver = ShardDriver()
    driver.join("a")
    written = len(driver.log)
    steady = ConsumerGroupHeartbeatResponse(
        member_id="a", member_epoch=2, heartbeat_interval_ms=100
    )
    assert (driver.beat("a", 2), driver.beat("a", 2, owned={"foo": [0, 1, 2]})) == (steady, steady)
    assert len(driver.log) == written


@pytest.mark.parametrize("lacking", ["subscribed_topic_names", "rebalance_timeout_ms", "owned"])
def test_a_heartbeat_that_lacks_a_field_is_not_told_its_assignment_again(lacking: str) -> None:
    driver = ShardDriver()
    driver.join("a")
    complete: dict[str, Any] = {
        "subscribed_topic_names": ("foo",),
        "rebalance_timeout_ms": 30_000,
        "owned": {"foo": [0, 1, 2]},
    }
    del complete[lacking]
    answer = driver.beat("a", 2, **complete)
    assert (answer.error_code, answer.assignment) == (0, None)


def test_a_complete_heartbeat_is_told_its_assignment_again() -> None:
    driver = ShardDriver()
    driver.join("a")
    answer = driver.beat("a", 2, rebalance_timeout_ms=5, subscribed_topic_names=("foo",), owned={})
    assert answer.assignment == Assignment(topic_partitions=parts({"foo": [0, 1, 2]}))


def test_only_what_assignors_look_at_bumps_the_epoch() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    driver.join("a")
    driver.beat(
        "a",
        2,
        rebalance_timeout_ms=7,
        server_assignor="uniform",
        caller=Caller("new", "/10.0.0.1"),
    )
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="a")
    value = member_metadata(
        rebalance_timeout_ms=7,
        server_assignor="uniform",
        client_id="new",
        client_host="/10.0.0.1",
    )
    assert (driver.log[-1], epochs(driver)) == ((key, value), (2, 2))
    assert (
        driver.beat("a", 2, subscribed_topic_names=("foo", "bar", "foo"), caller=HERE).member_epoch
        == 3
    )
    assert driver.beat("a", 3, subscribed_topic_names=("bar", "foo")).member_epoch == 3
    assert epochs(driver) == (3, 3)


@pytest.mark.parametrize(
    ("anew", "kept"),
    [
        ({"rack_id": "r"}, {"rack_id": "r"}),
        ({"rebalance_timeout_ms": 7}, {"rebalance_timeout_ms": 7}),
        ({"server_assignor": "range"}, {"server_assignor": "range"}),
        ({"caller": Caller("new", HERE.host)}, {"client_id": "new"}),
        ({"caller": Caller(HERE.client_id, "/10.0.0.1")}, {"client_host": "/10.0.0.1"}),
        ({"caller": Caller(HERE.client_id, "/192.0.2.1")}, {"client_host": "/192.0.2.1"}),
        ({"caller": Caller("a", HERE.host)}, {"client_id": "a"}),
        ({"rebalance_timeout_ms": 1}, {"rebalance_timeout_ms": 1}),
    ],
)
def test_each_thing_that_a_member_says_anew_is_remembered(
    anew: dict[str, Any], kept: dict[str, int | str]
) -> None:
    driver = ShardDriver()
    driver.join("a")
    written = len(driver.log)
    epoch = driver.beat("a", 2, **anew).member_epoch
    assert driver.log[written] == (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="a"),
        member_metadata(**kept),
    )
    written = len(driver.log)
    driver.beat("a", epoch, **anew)
    assert len(driver.log) == written


def test_a_member_without_topics_joins_without_a_new_epoch() -> None:
    driver = ShardDriver()
    driver.join("a")
    assert driver.join("b", topics=()).member_epoch == 2
    assert epochs(driver) == (2, 2)


def test_a_group_that_wants_nothing_stays_at_its_first_epoch() -> None:
    driver = ShardDriver()
    assert driver.join("a", topics=()).member_epoch == 1
    assert [record.key.__key__ for record in driver.log] == [5, 8]
    driver.crash()
    assert driver.beat("a", 1).error_code == Code.NONE
    assert driver.beat("a", 1, subscribed_topic_names=("foo",)).member_epoch == 2


def test_a_change_of_the_topics_bumps_the_epoch_at_the_next_heartbeat() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=1))
    driver.join("a")
    driver.change_topics(topics(foo=3, bar=9))
    assert driver.beat("a", 2).member_epoch == 2
    driver.change_topics(topics(foo=4, bar=9))
    assert epochs(driver) == (2, 2)
    assert driver.beat("a", 2) == ConsumerGroupHeartbeatResponse(
        member_id="a",
        member_epoch=3,
        heartbeat_interval_ms=100,
        assignment=Assignment(topic_partitions=parts({"foo": [0, 1, 2, 3]})),
    )


def test_partitions_that_were_added_are_given_however_many() -> None:
    driver = ShardDriver(known=topics(foo=1))
    driver.join("a")
    driver.change_topics([Topic("foo", topic_id("foo"), 6)])
    assert driver.beat("a", 2).assignment == Assignment(topic_partitions=parts({"foo": range(6)}))


def test_a_topic_that_was_made_again_is_another_topic() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.change_topics([Topic("foo", topic_id("foo", life=1), 1)])
    assert driver.beat("a", 2).assignment == Assignment()  # the old partitions go first
    answer = driver.beat("a", 2, owned={})
    assert (answer.member_epoch, answer.assignment) == (
        3,
        Assignment(topic_partitions=parts({"foo": [0]}, life=1)),
    )


def test_a_group_whose_last_member_has_left_has_its_target() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.join("b")
    driver.beat("a", -1)
    assert epochs(driver) == (4, 3)
    driver.beat("b", -1)
    assert epochs(driver) == (5, 5)
    driver.crash()
    assert driver.join("c", topics=()).member_epoch == 5
    assert driver.join("d").member_epoch == 6


def test_a_crash_alone_bumps_no_epoch() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.crash()
    assert driver.beat("a", 2).member_epoch == 2


def test_most_votes_choose_the_assignor() -> None:
    driver = ShardDriver(settings_with(group_consumer_assignors=("range", "uniform")))
    group = driver.shard.ledger.groups["g"] = ConsumerGroup("g")
    configured = ("range", "uniform")
    chosen = []
    for member_id, assignor in (("a", None), ("b", "uniform"), ("c", "range"), ("d", "uniform")):
        driver.join(member_id, server_assignor=assignor)
        chosen.append(group.assignor(configured))
    driver.beat("d", -1)
    assert [*chosen, group.assignor(configured)] == [
        "range",
        "uniform",
        "range",
        "uniform",
        "range",
    ]


def test_the_assignor_that_members_ask_for_decides() -> None:
    targets = {}
    for assignor in ("range", "uniform"):
        driver = ShardDriver(known=topics(bar=3, foo=3))
        for member_id in ("a", "b"):
            driver.join(member_id, topics=("foo", "bar"), server_assignor=assignor)
        saved: Any = driver.shard.ledger.groups["g"].saved
        assert saved is not None
        targets[assignor] = {name: len(member.target) for name, member in saved.members.items()}
    assert targets == {"range": {"a": 4, "b": 2}, "uniform": {"a": 3, "b": 3}}


def test_assignors_are_told_of_static_members_first_by_instance() -> None:
    members = {}
    for member_id, instance_id in (("b", None), ("z", "i"), ("a", None), ("c", "h")):
        members[member_id] = member = ConsumerGroupMember(member_id)
        member.metadata = member_metadata(instance_id=instance_id)
    assert [member.member_id for member in in_assignor_order(members)] == ["c", "z", "a", "b"]


def test_a_silent_member_is_gone_after_its_session() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.advance(44_999)
    assert driver.beat("a", 2).error_code == Code.NONE
    driver.advance(45_000)
    assert driver.beat("a", 2).error_code == Code.UNKNOWN_MEMBER_ID
    assert driver.notes == ["group g: member a was silent for too long and is gone"]


def test_only_an_accepted_heartbeat_keeps_a_session_alive() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.advance(44_000)
    assert driver.commit(2, {("foo", 0): 5}, "a") == [Code.NONE]
    driver.fetch({"foo": [0]}, member_id="a", epoch=2)
    assert driver.beat("a", 7).error_code == Code.FENCED_MEMBER_EPOCH
    driver.advance(1_000)
    assert driver.notes == ["group g: member a was silent for too long and is gone"]


def test_sessions_begin_anew_after_a_crash() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.advance(44_000)
    driver.crash()
    driver.advance(44_999)
    assert driver.beat("a", 2).error_code == Code.NONE


def test_a_static_members_successor_is_known_by_no_epoch_that_it_was_not_told() -> None:
    driver = ShardDriver()
    driver.join("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    assert driver.join("b", instance_id="i").member_epoch == 2
    answer = driver.beat("b", 1, owned={})
    assert answer.error_code == Code.FENCED_MEMBER_EPOCH


def test_a_static_member_returns_under_its_own_id_without_tombstones() -> None:
    driver = ShardDriver()
    driver.join("s", instance_id="i")
    driver.beat("s", -2, instance_id="i")
    written = len(driver.log)
    assert driver.join("s", instance_id="i").member_epoch == 2
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="s")
    back = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=(
            RecordTopicPartitions(
                topic_id=topic_id("foo"), partitions=(0, 1, 2), assignment_epochs=(0, 0, 0)
            ),
        ),
    )
    assert driver.log[written:] == [(key, back)]


def test_a_static_member_that_goes_for_a_while_owes_nothing_any_more() -> None:
    driver: Any = ShardDriver()
    driver.join("s", instance_id="i")
    driver.join("t")
    driver.beat("s", 2, instance_id="i")  # it is told to give something up
    driver.beat("s", -2, instance_id="i")
    driver.advance(40_000)  # longer than its rebalance timeout, not as long as its session
    assert (list(driver.shard.ledger.groups["g"].saved.instances), driver.notes) == (["i"], [])
    assert driver.join("s", instance_id="i").error_code == Code.NONE


@pytest.mark.parametrize("successor", ["t", "r"])  # whichever way ids are ordered
def test_a_static_member_that_returns_as_another_takes_over_what_its_predecessor_had(
    successor: str,
) -> None:
    driver = ShardDriver()
    driver.join("s", instance_id="i")
    driver.beat("s", -2, instance_id="i")
    written = len(driver.log)
    answer = driver.join(successor, instance_id="i")
    assert (answer.member_epoch, answer.assignment) == (
        2,
        Assignment(topic_partitions=parts({"foo": [0, 1, 2]})),
    )
    written_now = [
        (record.key.__key__, record.key.member_id, record.value is None)
        for record in driver.log[written:]
    ]
    assert written_now == [
        (8, "s", True),
        (7, "s", True),
        (5, "s", True),
        (5, successor, False),
        (7, successor, False),
        (8, successor, False),
        (8, successor, False),
    ]
    driver.advance(44_000)
    assert driver.beat(successor, 2, instance_id="i").error_code == Code.NONE
    driver.advance(1_000)  # the predecessor's session would be over
    assert (driver.beat(successor, 2, instance_id="i").error_code, driver.notes) == (Code.NONE, [])


def test_a_group_may_have_an_assignment_interval_of_its_own() -> None:
    driver = ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000))
    at_once = settings_with(group_consumer_assignment_interval_ms=0)
    driver.join("a")
    driver.join("b")
    assert epochs(driver) == (3, 2)
    driver.shard.own_settings = {"g": at_once}
    driver.join("c")
    assert epochs(driver) == (4, 4)
