"""Large groups: their targets are computed beside the shard, and nobody waits for them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from apportion.coord.consumer.built_in_targets import ComputeBuiltInTarget
from apportion.machine import Computation, ComputeFailed
from apportion.topics import Topic
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from tests.coord.mixed_clients import classic, make_driver
from tests.coord.shard_driver import ShardDriver, end_of, settings_with, state_of, topics
from tests.coord.toy_assignor import FOO, Toy, assigned, beat_to_target, with_toy


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


def test_the_target_of_a_large_group_comes_with_a_later_heartbeat() -> None:
    driver = driver_with()
    joined = driver.join("a")
    assert (joined.error_code, joined.member_epoch, assigned(joined)) == (0, 1, {})
    assert beat_to_target(driver, "a", 1) == (1, None)
    assert isinstance(only_computation(driver), ComputeBuiltInTarget)
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0, 1, 2)})
    assert (driver.notes, driver.computations) == ([], [])


def test_a_group_is_large_by_its_members_and_partitions_together() -> None:
    driver = driver_with(5)
    assert assigned(driver.join("a")) == {FOO: (0, 1, 2)}
    driver.join("b")
    assert len(driver.computations) == 1


def test_all_members_follow_the_older_target_until_the_new_one_is_saved() -> None:
    driver = driver_with()
    driver.join("a")
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0, 1, 2)})
    driver.join("b")
    assert beat_to_target(driver, "a", 2) == (2, None)
    before = saved(driver).assignment_epoch
    driver.end_computations()
    assert (before, saved(driver).assignment_epoch) == (2, 3)
    assert beat_to_target(driver, "a", 2) == (2, {FOO: (0, 1)})


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


def test_a_result_for_an_older_epoch_is_saved_and_another_computation_follows() -> None:
    driver = driver_with()
    driver.join("a")
    first = only_computation(driver)
    driver.join("b")
    assert driver.computations == [first]
    driver.end_computations()
    assert (saved(driver).epoch, saved(driver).assignment_epoch) == (3, 2)
    driver.beat("a", 1)
    second = only_computation(driver)
    assert isinstance(second, ComputeBuiltInTarget)
    assert second.epoch == 3


def test_the_target_of_a_member_that_has_gone_is_left_out() -> None:
    driver = driver_with()
    driver.join("a")
    driver.end_computations()
    driver.join("b")
    driver.beat("b", -1)
    driver.end_computations()
    assert {name: len(member.target) for name, member in saved(driver).members.items()} == {"a": 2}
    driver.beat("a", 1)
    driver.end_computations()
    assert beat_to_target(driver, "a", 3) == (4, {FOO: (0, 1, 2)})


def test_the_successor_of_a_static_member_gets_the_target_of_its_membership() -> None:
    driver = driver_with()
    driver.join("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    assert driver.join("b", instance_id="i").error_code == 0
    driver.end_computations()
    assert beat_to_target(driver, "b", 1) == (2, {FOO: (0, 1, 2)})


def test_a_crash_before_the_target_is_saved_costs_one_more_computation() -> None:
    driver = driver_with()
    driver.join("a")
    late = driver.computations.pop()
    driver.crash()
    before = state_of(driver.shard)
    driver.step(end_of(late))
    assert state_of(driver.shard) == before
    driver.beat("a", 1)
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0, 1, 2)})


def test_a_target_for_a_group_that_was_deleted_and_created_again_is_dropped() -> None:
    driver = driver_with()
    driver.join("a")
    driver.beat("a", -1)
    driver.send(DeleteGroupsRequest(groups_names=("g",)))
    driver.join("a")
    older = driver.computations.pop()
    before = state_of(driver.shard)
    driver.step(end_of(older))
    assert state_of(driver.shard) == before
    driver.beat("a", 1)
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (2, {FOO: (0, 1, 2)})


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


@pytest.mark.parametrize(
    "shard_with", [driver_with, partial(with_toy, Toy())], ids=["large", "custom"]
)
def test_the_interval_between_targets_counts_from_when_one_was_saved(
    shard_with: Callable[..., ShardDriver],
) -> None:
    driver = shard_with(group_consumer_assignment_interval_ms=1_000)
    driver.join("a")
    driver.advance(700)
    driver.end_computations()
    driver.join("b")
    driver.advance(999)
    driver.beat("a", 1)
    assert driver.computations == []
    driver.advance(1)
    driver.beat("a", 2)
    assert len(driver.computations) == 1


def test_a_custom_assignor_takes_the_place_of_a_computation_under_way() -> None:
    driver = with_toy(Toy(), apportion_assignor_offload_size=0)
    driver.join("a", server_assignor="uniform")
    driver.beat("a", 1, server_assignor="toy")
    driver.end_computations()
    assert beat_to_target(driver, "a", 1) == (3, {FOO: (0, 1, 2)})


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


def test_the_target_of_a_dead_group_keeps_its_successor_not_waiting() -> None:
    driver = driver_with(5)
    driver.join("a")
    driver.join("b")
    assert len(driver.computations) == 1
    driver.beat("a", -1)
    driver.beat("b", -1)
    driver.send(DeleteGroupsRequest(groups_names=("g",)), 2)
    assert assigned(driver.join("c")) == {FOO: (0, 1, 2)}


def test_a_group_that_has_become_small_has_its_target_from_what_is_under_way() -> None:
    driver = driver_with(5)
    driver.join("a")
    driver.join("b")
    driver.beat("b", -1)
    assert beat_to_target(driver, "a", 2) == (2, None)
    driver.end_computations()
    assert (saved(driver).epoch, saved(driver).assignment_epoch) == (4, 3)
    driver.beat("a", 2)
    assert (saved(driver).assignment_epoch, driver.computations) == (4, [])


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
