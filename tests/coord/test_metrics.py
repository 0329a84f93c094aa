"""The metrics of groups that change their protocol or have classic members; `metrics.txt` among the
scripts of either kind has the others.
"""

from dataclasses import replace
from typing import Any

import pytest

from apportion.coord.metrics import BrokerMetrics, GroupMetrics
from apportion.wire.group_states import GroupState
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
)
from tests.coord import classic_requests
from tests.coord.classic_shard_driver import (
    ClassicShardDriver,
    ScriptedClient,
    join_and_sync,
    subscription,
)
from tests.coord.mixed_clients import classic, consumer, make_driver, settle
from tests.coord.script_words import metrics_words
from tests.coord.shard_driver import ShardDriver, topics


def metrics(driver: ShardDriver) -> GroupMetrics:
    (found,) = driver.metrics()
    return found


def assignment(*indexes: int) -> bytes:
    parts = (ConsumerProtocolTopicPartition(topic="foo", partitions=indexes),)
    return consumer_serde.encode(ConsumerProtocolAssignment(assigned_partitions=parts))


@pytest.mark.parametrize(
    ("protocol_type", "said", "has", "unowned"),
    [
        ("consumer", subscription("foo"), assignment(0, 1, 3, 9), 1),
        ("consumer", subscription("foo"), b"", 4),
        # An assignment that cannot be decoded gives nobody a partition.
        ("consumer", subscription("foo"), b"\xff", 4),
        ("consumer", b"\xff", b"all", None),
        ("connect", b"\xff", b"all", None),
    ],
)
def test_unowned_partitions_are_unknown_where_the_subscription_is(
    protocol_type: str, said: bytes, has: bytes, unowned: int | None
) -> None:
    driver = ClassicShardDriver(known=topics(foo=4))
    client = ScriptedClient("a")
    client.protocol_type, client.protocols = protocol_type, (("range", said),)
    join_and_sync(driver, client, has)
    assert metrics(driver).unowned_partitions == unowned


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
        removed_members=before.removed_members | {"left": 1},
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
    assert metrics_words(driver) == [
        "consumer Reconciling, members 3, epoch 2/2, unowned 0, rebalances 1, targets 1, "
        "heartbeats 1; seconds: Reconciling 0.5"
    ]
    settle(a, b, c)
    driver.advance(1_000)
    c.leave()
    driver.advance(250)
    assert metrics_words(driver) == [
        "classic PreparingRebalance, members 2, epoch 2, unowned 1, rebalances 0, heartbeats 0; "
        "seconds: PreparingRebalance 0.25"
    ]


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
    none = dict.fromkeys(
        [
            ("consumer", "Assigning"),
            ("consumer", "Reconciling"),
            *(("classic", state) for state in ("Empty", "PreparingRebalance")),
            *(("classic", state) for state in ("CompletingRebalance", "Stable")),
        ],
        0,
    )
    there = {("consumer", "Empty"): 1, ("consumer", "Stable"): 1}
    assert whole.group_counts() == none | there
