"""Targets that lag behind the group epoch (KIP-1263), on our broker and on a real Kafka."""

from typing import Any

import pytest

from tests.kafka.conftest import until
from tests.kafka.differential.classic_clients import subscription
from tests.kafka.differential.classic_play import answered
from tests.kafka.differential.classic_steps import RANGE, Join, Pulse, Sync
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import EMPTY, TOLD, Beat, Describe, Step
from tests.node.config_requests import describe, incremental

KAFKA = "expiring"
ALIKE = {"group.consumer.session.timeout.ms": 45_000}
INTERVAL = ("consumer.assignment.interval.ms", "5000")
"""A setting of every group: longer than a script takes until it waits for the interval to pass."""
REBALANCE_IN_PROGRESS = 27
BOTH = ("two", "four")


@pytest.fixture
def group(sides: tuple[Side, Side], group: str) -> str:
    """A new group that computes a target once in the interval."""
    for side in sides:
        side.call(incremental(("group", group, ((INTERVAL[0], "=", INTERVAL[1]),))), 1)
        until(lambda side=side: is_set(side, group))
    return group


def is_set(side: Side, group: str) -> bool:
    """Whether the broker has learnt of the group's interval."""
    (described,) = side.call(describe("group", group, INTERVAL[0]), 4).results
    return [(each.name, each.value) for each in described.configs] == [INTERVAL]


def joining(group: str, member: str, *topics: str) -> Beat:
    return Beat(group, member, 0, owned=EMPTY, topics=topics, rebalance_ms=60_000)


def agreed(sides: tuple[Side, Side], step: Step) -> Any:
    """What both brokers answer, who must say the same but for the interval of heartbeats."""
    ours, theirs = answered(sides, step)
    if isinstance(step, Beat):
        ours, theirs = ({**each, "interval": 0} for each in (ours, theirs))
    assert ours == theirs, step.line()
    return ours


def after_the_interval(sides: tuple[Side, Side], step: Beat, epoch: int) -> None:
    """On both brokers the heartbeat is told that epoch, once the interval has passed."""
    for side in sides:
        until(lambda side=side: side.play(step)["epoch"] == epoch)


def state(answer: Any, group: str) -> tuple[str, int, int]:
    described = answer[group]
    return described["state"], described["epoch"], described["assignment epoch"]


def test_members_that_join_within_the_interval_wait_for_one_target(
    sides: tuple[Side, Side], group: str
) -> None:
    assert agreed(sides, joining(group, "a", "four"))["epoch"] == 2
    assert agreed(sides, joining(group, "b", "four"))["epoch"] == 2
    assert agreed(sides, joining(group, "c", "four"))["epoch"] == 2
    assert state(agreed(sides, Describe((group,))), group) == ("Assigning", 4, 2)
    agreed(sides, Beat(group, "a", 2))
    after_the_interval(sides, Beat(group, "b", 2), 4)
    assert state(agreed(sides, Describe((group,))), group) == ("Reconciling", 4, 4)
    agreed(sides, Beat(group, "a", 2))
    agreed(sides, Beat(group, "a", 2, owned=TOLD))


def test_a_member_that_unsubscribes_gives_up_before_the_next_target(
    sides: tuple[Side, Side], group: str
) -> None:
    agreed(sides, joining(group, "a", *BOTH))
    agreed(sides, joining(group, "b", "two"))
    agreed(sides, Beat(group, "a", 2, topics=("four",)))
    agreed(sides, Describe((group,)))
    agreed(sides, Beat(group, "a", 2, owned=TOLD))
    assert state(agreed(sides, Describe((group,))), group) == ("Assigning", 4, 2)
    agreed(sides, Beat(group, "b", 2))
    after_the_interval(sides, Beat(group, "b", 2), 4)
    agreed(sides, Beat(group, "a", 2))
    assert state(agreed(sides, Describe((group,))), group) == ("Stable", 4, 4)


def test_a_member_that_leaves_does_not_cut_the_interval_short(
    sides: tuple[Side, Side], group: str
) -> None:
    agreed(sides, joining(group, "a", "four"))
    agreed(sides, joining(group, "b", "four"))
    agreed(sides, Beat(group, "a", -1))
    assert agreed(sides, Beat(group, "b", 2))["epoch"] == 2
    after_the_interval(sides, Beat(group, "b", 2), 4)


def test_a_member_of_a_group_that_was_empty_does_not_wait(
    sides: tuple[Side, Side], group: str
) -> None:
    """KAFKA-20442; before Kafka 4.4 it waited there."""
    agreed(sides, joining(group, "a", "four"))
    agreed(sides, Beat(group, "a", -1))
    assert agreed(sides, joining(group, "b", "four"))["epoch"] == 4


def test_a_classic_member_rejoins_for_a_target_not_for_an_epoch(
    sides: tuple[Side, Side], group: str
) -> None:
    blob = subscription(("four",), frozenset(), 1)
    agreed(sides, joining(group, "a", "four"))
    joined = agreed(sides, Join(group, "b", ((RANGE, blob),), version=3))
    assert (joined["code"], joined["generation"]) == (0, 2)
    assert agreed(sides, Sync(group, "b", 2, version=3))["code"] == 0
    # The group is at epoch 3, its target at 2: a member that joined again would get nothing new.
    assert agreed(sides, Pulse(group, "b", 2))["code"] == 0
    for side in sides:
        until(lambda side=side: is_told_to_rejoin(side, group))


def is_told_to_rejoin(side: Side, group: str) -> bool:
    """Whether the heartbeat of a member of the consumer protocol has led to a newer target."""
    side.play(Beat(group, "a", 2))
    code: int = side.play(Pulse(group, "b", 2))["code"]
    return code == REBALANCE_IN_PROGRESS
