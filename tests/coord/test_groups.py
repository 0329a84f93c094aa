"""What makes a group's epoch grow, who votes, which interval members are told, how long they may be
silent.
"""

from typing import Any

from apportion.coord.consumer.asked_members import in_assignor_order
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    RecordTopicPartitions,
)
from tests.coord.shard_driver import (
    ShardDriver,
    member_metadata,
    settings_with,
    topic_id,
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


def test_assignors_are_told_of_static_members_first_by_instance() -> None:
    members = {}
    for member_id, instance_id in (("b", None), ("z", "i"), ("a", None), ("c", "h")):
        members[member_id] = member = ConsumerGroupMember(member_id)
        member.metadata = member_metadata(instance_id=instance_id)
    assert [member.member_id for member in in_assignor_order(members)] == ["c", "z", "a", "b"]


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


def test_a_group_may_have_an_assignment_interval_of_its_own() -> None:
    driver = ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000))
    at_once = settings_with(group_consumer_assignment_interval_ms=0)
    driver.join("a")
    driver.join("b")
    assert epochs(driver) == (3, 2)
    driver.shard.own_settings = {"g": at_once}
    driver.join("c")
    assert epochs(driver) == (4, 4)
