"""The metrics of groups: what a scripted history counts, and how long each state took."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.coord.config import GroupSettings
from apportion.coord.metrics import BrokerMetrics, GroupMetrics
from apportion.machine import Reply
from apportion.wire.group_states import GroupState
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
)
from tests.coord import classic_requests
from tests.coord.classic_shard_driver import (
    ClassicShardDriver,
    ScriptedClient,
    ask,
    join_and_sync,
    subscription,
)
from tests.coord.mixed_clients import classic, consumer, make_driver, settle
from tests.coord.shard_driver import ShardDriver, settings_with, topics

NOBODY = {
    "left": 0,
    "session_timeout": 0,
    "rebalance_timeout": 0,
    "fenced": 0,
    "group_full": 0,
}


def metrics(driver: ShardDriver, group_id: str = "g") -> GroupMetrics:
    (found,) = [each for each in driver.metrics() if each.group_id == group_id]
    return found


def consumer_metrics(**facts: Any) -> GroupMetrics:
    """The metrics of a consumer group; state_seconds: without the states that it was not in."""
    defaults = {
        "group_id": "g",
        "protocol": "consumer",
        "removed_members": NOBODY,
        "state_seconds": {},
    }
    seconds = dict.fromkeys(("Empty", "Assigning", "Reconciling", "Stable"), 0.0)
    whole = defaults | facts
    return GroupMetrics(**whole | {"state_seconds": seconds | whole["state_seconds"]})


def classic_metrics(**facts: Any) -> GroupMetrics:
    """The same of a classic group."""
    defaults = {
        "group_id": "g",
        "protocol": "classic",
        "assignment_epoch": None,
        "targets_computed": None,
        "removed_members": NOBODY,
        "state_seconds": {},
    }
    seconds = dict.fromkeys(("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"), 0.0)
    whole = defaults | facts
    return GroupMetrics(**whole | {"state_seconds": seconds | whole["state_seconds"]})


def test_a_consumer_group_counts_its_rebalances_and_the_time_in_each_state() -> None:
    driver = ShardDriver(settings_with(), topics(foo=3))
    driver.mono_ms = 500  # the group appears here
    driver.join("a")
    driver.advance(1_000)
    assert metrics(driver) == consumer_metrics(
        state="Stable",
        members=1,
        epoch=2,
        assignment_epoch=2,
        unowned_partitions=0,
        rebalances=1,
        targets_computed=1,
        heartbeats=1,
        state_seconds={"Stable": 1.0},
    )
    driver.join("b")
    driver.advance(250)
    driver.beat("a", 2, owned={"foo": [0, 1, 2]})  # told to give one up
    driver.advance(250)
    driver.beat("a", 2, owned={"foo": [0, 1]})
    assert metrics(driver) == consumer_metrics(
        state="Reconciling",
        members=2,
        epoch=3,
        assignment_epoch=3,
        unowned_partitions=1,
        rebalances=2,
        targets_computed=2,
        heartbeats=4,
        state_seconds={"Stable": 1.0, "Reconciling": 0.5},
    )
    driver.beat("b", 3)
    driver.advance(2_000)
    driver.beat("a", -1)
    driver.advance(44_000)
    assert metrics(driver) == consumer_metrics(
        state="Empty",
        members=0,
        epoch=5,
        assignment_epoch=5,  # which nobody computed
        unowned_partitions=0,
        rebalances=4,
        targets_computed=2,
        heartbeats=5,
        removed_members=NOBODY | {"left": 1, "session_timeout": 1},
        # b is silent from 2,000 ms on, and its session is 45 s
        state_seconds={"Stable": 3.0, "Reconciling": 0.5, "Assigning": 43.0, "Empty": 1.0},
    )


def test_an_assignment_interval_shows_as_rebalances_without_a_new_target() -> None:
    driver = ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000), topics(foo=4))
    for member_id in "abcd":
        driver.join(member_id)
    driver.advance(400)
    assert metrics(driver) == consumer_metrics(
        state="Assigning",
        members=4,
        epoch=5,
        assignment_epoch=2,
        unowned_partitions=0,
        rebalances=4,
        targets_computed=1,
        heartbeats=4,
        state_seconds={"Assigning": 0.4},
    )


def test_a_member_that_does_not_revoke_in_time_counts_as_such() -> None:
    driver = ShardDriver()
    driver.join("a", rebalance_timeout_ms=5_000)
    driver.join("b")
    driver.beat("a", 2)
    driver.advance(5_000)
    assert metrics(driver).removed_members == NOBODY | {"rebalance_timeout": 1}


def test_a_static_member_that_left_for_now_is_not_counted_as_removed() -> None:
    driver = ShardDriver()
    driver.join("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.join("b", instance_id="i")
    assert (metrics(driver).members, metrics(driver).removed_members) == (1, NOBODY)


def test_partitions_of_unsubscribed_and_deleted_topics_are_not_unowned() -> None:
    driver = ShardDriver(known=topics(foo=3, bar=5))
    driver.join("a", ("foo", "none"))
    assert metrics(driver).unowned_partitions == 0
    driver.change_topics(topics(foo=7, bar=5))
    assert metrics(driver).unowned_partitions == 4
    driver.change_topics(topics(life=1, foo=7))
    assert metrics(driver).unowned_partitions == 7, "another topic of that name"
    driver.change_topics(topics(bar=5))
    assert metrics(driver).unowned_partitions == 0


def assignment(*indexes: int) -> bytes:
    parts = (ConsumerProtocolTopicPartition(topic="foo", partitions=indexes),)
    return consumer_serde.encode(ConsumerProtocolAssignment(assigned_partitions=parts))


def classic_consumer(name: str) -> ScriptedClient:
    client = ScriptedClient(name)
    client.protocols = (("range", subscription("foo")),)
    return client


def test_a_classic_group_counts_its_generations_and_the_time_in_each_state() -> None:
    driver = ClassicShardDriver(
        GroupSettings(group_initial_rebalance_delay_ms=3_000), topics(foo=4)
    )
    client = classic_consumer("a")
    client.rebalance_ms = 20_000
    ask(driver, client, client.joining())
    driver.advance(1_000)
    ask(driver, client, client.joining())
    driver.advance(6_000)
    client.apply_join(driver.responses[-1][1])
    assert metrics(driver) == classic_metrics(
        state="CompletingRebalance",
        members=1,
        epoch=1,
        unowned_partitions=4,
        rebalances=1,
        heartbeats=0,
        state_seconds={"Empty": 1.0, "PreparingRebalance": 3.0, "CompletingRebalance": 3.0},
    )
    ask(driver, client, client.syncing([(client.member_id, assignment(0, 1, 3, 9))]), 5)
    driver.advance(500)
    driver.ask(client.beating(), 4)
    assert metrics(driver) == classic_metrics(
        state="Stable",
        members=1,
        epoch=1,
        unowned_partitions=1,
        rebalances=1,
        heartbeats=1,
        state_seconds={
            "Empty": 1.0,
            "PreparingRebalance": 3.0,
            "CompletingRebalance": 3.0,
            "Stable": 0.5,
        },
    )
    driver.ask(client.leaving(), 5)
    driver.advance(2_000)
    assert metrics(driver) == classic_metrics(
        state="Empty",
        members=0,
        epoch=2,
        unowned_partitions=0,
        rebalances=2,
        heartbeats=1,
        removed_members=NOBODY | {"left": 1},
        state_seconds={
            "Empty": 3.0,
            "PreparingRebalance": 3.0,
            "CompletingRebalance": 3.0,
            "Stable": 0.5,
        },
    )


def test_classic_members_are_counted_by_the_reason_of_their_removal() -> None:
    driver = ClassicShardDriver(known=topics(foo=4))
    silent = join_and_sync(driver, classic_consumer("silent"))
    driver.advance(silent.session_ms)
    assert metrics(driver).removed_members == NOBODY | {"session_timeout": 1}
    late = join_and_sync(driver, classic_consumer("late"))
    other = classic_consumer("other")
    ask(driver, other, other.joining())
    ask(driver, other, other.joining())
    for _ in range(3):
        driver.advance(late.session_ms - 1)
        driver.ask(late.beating(), 4)
    assert metrics(driver).removed_members == NOBODY | {
        "session_timeout": 1,
        "rebalance_timeout": 1,
    }
    first, second = classic_consumer("first"), classic_consumer("second")
    driver = ClassicShardDriver(known=topics(foo=4))
    first.instance_id = second.instance_id = "i"
    join_and_sync(driver, first)
    ask(driver, second, second.joining())
    assert metrics(driver).removed_members == NOBODY | {"fenced": 1}


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_unowned_partitions_are_unknown_where_the_subscription_is(protocol_type: str) -> None:
    driver = ClassicShardDriver(known=topics(foo=4))
    client = ScriptedClient("a")
    client.protocol_type, client.protocols = protocol_type, (("range", b"\xff"),)
    join_and_sync(driver, client)
    assert metrics(driver).unowned_partitions is None


def test_an_assignment_that_cannot_be_decoded_gives_nobody_a_partition() -> None:
    driver = ClassicShardDriver(known=topics(foo=4))
    join_and_sync(driver, classic_consumer("a"), b"\xff")
    assert metrics(driver).unowned_partitions == 4


def test_a_classic_member_of_a_consumer_group_is_counted_there() -> None:
    driver: Any = classic_requests.driver_with_one_consumer()
    joined = classic_requests.join(driver, "")
    joined = classic_requests.join(driver, joined.member_id)
    driver.c.act()
    classic_requests.beat(driver, joined.generation_id, joined.member_id)
    before = metrics(driver)
    classic_requests.leave(driver, (joined.member_id, None))
    assert metrics(driver) == replace(
        before,
        state=GroupState.ASSIGNING,
        members=1,
        epoch=before.epoch + 1,
        rebalances=before.rebalances + 1,
        unowned_partitions=metrics(driver).unowned_partitions,
        removed_members=NOBODY | {"left": 1},
    )


def test_a_group_that_changes_its_protocol_begins_anew() -> None:
    driver = make_driver()
    a, b = classic(driver, "a"), classic(driver, "b")
    settle(a, b)
    assert (metrics(driver).protocol, metrics(driver).rebalances) == ("classic", 1)
    driver.advance(1_000)
    c = consumer(driver, "c")
    c.act()
    driver.advance(500)
    upgraded = metrics(driver)
    assert upgraded == consumer_metrics(
        state="Reconciling",
        members=3,
        epoch=2,
        assignment_epoch=2,
        unowned_partitions=upgraded.unowned_partitions,
        rebalances=1,
        targets_computed=1,
        heartbeats=1,
        state_seconds={"Reconciling": 0.5},
    )
    settle(a, b, c)
    driver.advance(1_000)
    c.leave()
    driver.advance(250)
    downgraded = metrics(driver)
    assert downgraded == classic_metrics(
        state="PreparingRebalance",
        members=2,
        epoch=downgraded.epoch,
        unowned_partitions=downgraded.unowned_partitions,
        rebalances=0,
        heartbeats=0,
        state_seconds={"PreparingRebalance": 0.25},
    )


def test_the_first_rebalance_after_an_empty_classic_group_counts() -> None:
    driver = make_driver()
    a = classic(driver, "a")
    settle(a)
    a.leave()
    assert (metrics(driver).protocol, metrics(driver).state) == ("classic", "Empty")
    consumer(driver, "c").act()
    found = metrics(driver)
    assert (found.protocol, found.epoch) == ("consumer", 2)
    assert (found.rebalances, found.targets_computed) == (1, 1)


def test_a_restart_begins_at_zero() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.advance(5_000)
    driver.crash()
    driver.advance(1_000)
    assert metrics(driver) == consumer_metrics(
        state="Stable",
        members=1,
        epoch=2,
        assignment_epoch=2,
        unowned_partitions=0,
        rebalances=0,
        targets_computed=0,
        heartbeats=0,
        state_seconds={"Stable": 1.0},
    )


def test_a_group_that_is_deleted_has_no_metrics() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.beat("a", -1)
    driver.send(DeleteGroupsRequest(groups_names=("g",)), 2)
    assert driver.metrics() == []


def test_a_steady_heartbeat_writes_nothing_and_adds_one() -> None:
    driver = ShardDriver()
    driver.join("a")
    before = metrics(driver)
    driver.beat("a", 2)
    assert [type(action) for action in driver.actions] == [Reply]
    assert metrics(driver) == replace(before, heartbeats=before.heartbeats + 1)


def test_groups_are_counted_by_protocol_and_state() -> None:
    driver = ShardDriver()
    for group_id in ("one", "two"):
        driver.join("a", group_id=group_id)
    driver.beat("a", -1, group_id="two")
    whole = BrokerMetrics(
        heartbeat_budget_per_second=200,
        booked_heartbeats=driver.heartbeats.bookings,
        groups=tuple(driver.metrics()),
    )
    assert whole.booked_heartbeats == 2
    assert whole.group_counts() == {
        ("consumer", "Empty"): 1,
        ("consumer", "Assigning"): 0,
        ("consumer", "Reconciling"): 0,
        ("consumer", "Stable"): 1,
        ("classic", "Empty"): 0,
        ("classic", "PreparingRebalance"): 0,
        ("classic", "CompletingRebalance"): 0,
        ("classic", "Stable"): 0,
    }
