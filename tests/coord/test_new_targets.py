"""What needs a new target though no subscription has changed: that another assignor has most votes,
or that a member is in another rack.
"""

from typing import Any

import pytest

from tests.coord.shard_driver import ShardDriver, end_of, settings_with, state_of, topics
from tests.coord.toy_assignor import FOO, Toy, beat_to_target, with_toy


def targets(driver: ShardDriver) -> tuple[int, dict[str, int]]:
    """The epoch of the group's targets, and how many partitions each member is to have."""
    saved: Any = driver.shard.ledger.groups["g"].saved
    assert saved.epoch == saved.assignment_epoch
    return saved.epoch, {name: len(member.target) for name, member in saved.members.items()}


@pytest.fixture
def driver() -> ShardDriver:
    """Two topics of three partitions: `range` gives one of two members four, `uniform` three."""
    return ShardDriver(known=topics(bar=3, foo=3))


BOTH: dict[str, Any] = {"topics": ("foo", "bar")}


def test_static_members_that_come_back_with_another_assignor_get_its_target(
    driver: ShardDriver,
) -> None:
    for name in "ab":
        driver.join(name, server_assignor="range", instance_id=name, **BOTH)
    assert targets(driver) == (3, {"a": 4, "b": 2})
    for name in "ab":
        driver.beat(name, -2, instance_id=name)
    driver.join("c", server_assignor="uniform", instance_id="a", **BOTH)
    driver.join("d", server_assignor="uniform", instance_id="b", **BOTH)
    # The first one made a tie, which the default assignor wins; the second one changed nothing.
    assert targets(driver) == (4, {"c": 3, "d": 3})


def test_a_static_member_that_comes_back_under_its_own_id_may_change_the_assignor(
    driver: ShardDriver,
) -> None:
    driver.join("a", server_assignor="range", instance_id="i", **BOTH)
    driver.beat("a", -2, instance_id="i")
    assert driver.join("a", server_assignor="uniform", instance_id="i", **BOTH).member_epoch == 3


def test_the_majority_for_another_assignor_bumps_the_epoch_and_no_other_vote_does(
    driver: ShardDriver,
) -> None:
    for name in "abc":
        driver.join(name, server_assignor="range", **BOTH)
    seen = []
    for name in "cba":
        epoch = driver.join(name, server_assignor="uniform", **BOTH).member_epoch
        seen.append((epoch, driver.shard.ledger.groups["g"].epoch))
    assert seen == [(4, 4), (5, 5), (5, 5)]


def test_a_new_member_without_topics_may_change_the_assignor(driver: ShardDriver) -> None:
    driver.join("a", server_assignor="range", **BOTH)
    assert driver.join("b", topics=(), server_assignor="range").member_epoch == 2
    assert driver.join("c", topics=(), server_assignor="uniform").member_epoch == 2
    assert driver.join("d", topics=(), server_assignor="uniform").member_epoch == 3


def test_the_first_member_of_a_group_may_want_another_assignor_than_the_default() -> None:
    epochs = []
    for assignor in (None, "uniform", "range"):
        driver = ShardDriver()
        epochs.append(driver.join("a", topics=(), server_assignor=assignor).member_epoch)
    assert epochs == [1, 1, 2]


@pytest.mark.parametrize(
    ("before", "said", "epoch"),
    [("r1", "r2", 3), ("r1", "r1", 2), ("r1", None, 2), (None, "r1", 3), (None, None, 2)],
)
def test_a_rack_that_changes_bumps_the_epoch(
    driver: ShardDriver, before: str | None, said: str | None, epoch: int
) -> None:
    driver.join("a", rack_id=before, **BOTH)
    assert driver.beat("a", 2, rack_id=said).member_epoch == epoch
    assert driver.beat("a", epoch, rack_id=said).member_epoch == epoch


def test_a_static_member_that_comes_back_in_another_rack_bumps_the_epoch(
    driver: ShardDriver,
) -> None:
    driver.join("a", rack_id="r1", instance_id="i", **BOTH)
    driver.beat("a", -2, instance_id="i")
    assert driver.join("b", rack_id="r1", instance_id="i", **BOTH).member_epoch == 2
    driver.beat("b", -2, instance_id="i")
    assert driver.join("c", rack_id="r2", instance_id="i", **BOTH).member_epoch == 3


def test_an_answer_for_members_who_have_all_left_is_dropped() -> None:
    driver = with_toy(Toy())
    driver.join("a")
    driver.beat("a", -1)
    driver.join("b")
    (older,) = driver.computations
    before = state_of(driver.shard)
    driver.step(end_of(older))
    assert state_of(driver.shard) == before
    driver.computations.clear()
    driver.beat("b", 3)
    driver.end_computations()
    assert beat_to_target(driver, "b", 3) == (4, {FOO: (0, 1, 2)})


def test_the_first_member_of_a_group_that_was_empty_does_not_wait_for_the_interval() -> None:
    driver = ShardDriver(settings_with(group_consumer_assignment_interval_ms=5_000))
    driver.join("a")
    driver.join("b")
    driver.beat("a", -1)
    assert driver.beat("b", 2).member_epoch == 2
    driver.beat("b", -1)
    assert driver.join("c").member_epoch == 6
    assert driver.join("d").member_epoch == 6
