"""Large groups: their targets are computed beside the shard, and nobody waits for them."""

from typing import Any

import pytest

from apportion.coord.consumer.built_in_targets import ComputeBuiltInTarget
from apportion.machine import Computation, ComputeFailed
from apportion.topics import Topic
from apportion.wire.messages.heartbeat import HeartbeatRequest
from tests.coord.mixed_clients import classic, make_driver
from tests.coord.shard_driver import ShardDriver, settings_with, topics
from tests.coord.toy_assignor import FOO, Toy, beat_to_target, with_toy


def driver_with(offload_size: int = 0, **changes: Any) -> ShardDriver:
    """A shard for which groups from that size on are large; foo has three partitions."""
    return ShardDriver(settings_with(apportion_assignor_offload_size=offload_size, **changes))


def saved(driver: ShardDriver) -> Any:
    """The saved state of the group."""
    group: Any = driver.shard.ledger.groups["g"]
    return group.saved


def only_computation(driver: ShardDriver) -> Computation:
    """The computation that is under way."""
    (computation,) = driver.computations
    return computation


def test_a_target_and_its_epoch_are_one_append() -> None:
    driver = driver_with()
    driver.join("a")
    driver.end_computations()
    driver.join("b")
    before = len(driver.log)
    driver.end_computations()
    assert len(driver.actions) == 1
    assert [type(record.key).__name__ for record in driver.log[before:]] == [
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMetadataKey",
    ]


def test_a_computation_that_fails_is_begun_again_after_pauses() -> None:
    driver = driver_with()
    driver.join("a")
    driver.step(ComputeFailed(driver.computations.pop(), "MemoryError()"))
    assert driver.notes == [
        "group g: uniform: the target assignment could not be computed: MemoryError()"
    ]
    driver.advance(999)
    driver.beat("a", 1)
    assert driver.computations == []
    driver.advance(1)
    driver.beat("a", 1)
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0, 1, 2)})


def test_a_group_that_changes_its_assignor_to_and_fro_piles_no_computations_up() -> None:
    driver = with_toy(Toy(), apportion_assignor_offload_size=0)
    driver.join("a", server_assignor="uniform")
    for _ in range(3):
        driver.beat("a", 1, server_assignor="toy")
        driver.beat("a", 1, server_assignor="uniform")
    built_in = [each for each in driver.computations if isinstance(each, ComputeBuiltInTarget)]
    assert len(built_in) == 1
    # Its result is of an epoch when the group was another; the next heartbeat begins anew.
    driver.end_computations()
    driver.beat("a", 1)
    assert only_computation(driver) is not built_in[0]
    driver.end_computations()
    epoch, target = beat_to_target(driver, "a", 1)
    assert (epoch, target) == (saved(driver).epoch, {FOO: (0, 1, 2)})


def test_a_classic_member_is_told_to_rejoin_when_the_target_is_there() -> None:
    driver = make_driver(apportion_assignor_offload_size=0)
    driver.join("a")
    driver.end_computations()
    member = classic(driver, "c")
    member.act()
    member.act()
    heartbeat = HeartbeatRequest(
        group_id="g", member_id=member.member_id, generation_id=member.generation
    )
    assert driver.send(heartbeat, 4).error_code == 0
    driver.end_computations()
    assert driver.send(heartbeat, 4).error_code == 27  # REBALANCE_IN_PROGRESS


def test_a_classic_member_is_not_told_to_rejoin_for_what_is_still_computed() -> None:
    driver = make_driver(apportion_assignor_offload_size=7)
    driver.join("a")
    driver.join("b")
    member = classic(driver, "c")
    member.act()
    member.act()  # with three members and four partitions the group is large
    assert len(driver.computations) == 1
    driver.beat("b", -1)  # it is small again, and what is computed is its next target
    heartbeat = HeartbeatRequest(
        group_id="g", member_id=member.member_id, generation_id=member.generation
    )
    assert driver.send(heartbeat, 4).error_code == 0
    driver.end_computations()
    assert driver.send(heartbeat, 4).error_code == 27  # REBALANCE_IN_PROGRESS


def test_a_group_that_has_no_epoch_to_tell_gets_its_target_at_once() -> None:
    driver = make_driver(apportion_assignor_offload_size=0)
    member = classic(driver, "c")
    member.act()
    member.act()  # it has an id now, and its JoinGroup waits for the first generation
    assert driver.group().live.generation == 0
    assert driver.join("a").member_epoch == 1


@pytest.mark.parametrize("offload_size", [0, 10_000])
def test_both_ways_give_the_same_targets(offload_size: int) -> None:
    driver = ShardDriver(
        settings_with(apportion_assignor_offload_size=offload_size), topics(foo=5, bar=2)
    )
    for name, wanted in (("a", ("foo",)), ("b", ("bar", "foo")), ("c", ("foo",))):
        driver.join(name, topics=wanted)
        driver.end_computations()
    driver.change_topics([Topic("foo", FOO, 4)])
    driver.beat("a", saved(driver).members["a"].epoch)
    driver.end_computations()
    assert {name: member.target.tolist() for name, member in saved(driver).members.items()} == {
        "a": [0, 1],
        "b": [3],
        "c": [2],
    }
