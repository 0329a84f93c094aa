"""Our task assignors beside Kafka Streams' own, in Java, on the same groups and through the same
histories.

Who gets what is free: both are judged by how even they are, how far apart standbys are, and what it
takes to come to rest. Kafka's `highavailability` plans anew each time; ours keeps what is (decision
0040), so it moves and waits less, in all and nearly always. Where it takes more, it ends evener
than Kafka's, or Kafka's moved more at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import NoReturn

import numpy as np
import pytest

from apportion.streams.task_assignment.client_states import AssignmentConfigs, TaskAssignment
from apportion.streams.task_assignment.task_assignors import TASK_ASSIGNORS
from apportion.testing.kafka import KafkaMissing
from tests.kafka.java import QUICK_START
from tests.kafka.streams_assignors.task_oracle import TaskOracle
from tests.kafka.streams_assignors.task_quality import apart, carries, rest, runs, unevenness
from tests.streams.simulated_application import SimulatedApplication, any_company, changed

HISTORIES, STEPS = 60, 4


@pytest.fixture(scope="module")
def java(lane_missing: Callable[[str], NoReturn]) -> Iterator[TaskOracle]:
    """Java's task assignors; without Java or Maven the lane is missing."""
    try:
        oracle = TaskOracle(*QUICK_START)
    except KafkaMissing as problem:
        lane_missing(str(problem))
    with oracle:
        yield oracle


def histories(
    *, alike: bool, tags: tuple[str, ...] = ()
) -> Iterator[tuple[Random, SimulatedApplication, AssignmentConfigs]]:
    """Companies that change, and what they are assigned by, each step adopted from the one leader
    or the other.
    """
    for seed in range(HISTORIES):
        random = Random(seed)
        application = any_company(random, tags=tags, alike=alike)
        policy = AssignmentConfigs(
            random.randint(0, 2), max_warmup_replicas=random.randint(1, 3), rack_aware_tags=tags
        )
        for _ in range(STEPS):
            yield random, application, policy
            changed(application, random)


@pytest.mark.parametrize("alike", [True, False], ids=["equal", "general"])
@pytest.mark.parametrize("tags", [(), ("zone", "rack")], ids=["", "tags"])
def test_high_availability_is_as_even_and_comes_to_rest_with_less_than_javas(
    java: TaskOracle, alike: bool, tags: tuple[str, ...]
) -> None:
    total: Counter[str] = Counter()
    for random, application, policy in histories(alike=alike, tags=tags):
        rested, ours = rest(TASK_ASSIGNORS["highavailability"], application, policy)
        other, theirs = rest(partial(java.assign, "highavailability"), application, policy)
        mine, yours = ours.shares[1], theirs.shares[1]
        stateful, everything = (
            application.tasks.stateful,
            np.ones(len(application.tasks.end_offset_sum), np.bool_),
        )
        evenness = [
            unevenness(runs(each, application, stateful), application) for each in (mine, yours)
        ]
        evener = evenness[0] < evenness[1]
        assert evenness[0] <= evenness[1]
        assert not (alike and evener)
        assert unevenness(runs(mine, application, everything), application) <= unevenness(
            runs(yours, application, everything), application
        )
        assert len(mine.standby) == len(yours.standby)
        assert (
            not ours.shares[0].needs_probing_rebalance
            or theirs.shares[0].needs_probing_rebalance
            or evener
        )
        assert ours.moved <= theirs.moved or evener
        total["steps"] += 1
        total["slower"] += ours.rounds > theirs.rounds and not evener
        total["nearer"] += apart(mine, application, tags) < apart(yours, application, tags)
        less_even = unevenness(carries(mine, application), application) > unevenness(
            carries(yours, application), application
        )
        total["less even"] += (
            less_even
            and evenness[0] == evenness[1]
            and apart(mine, application, tags) <= apart(yours, application, tags)
        )
        for what in ("rounds", "moved", "restored"):
            total[f"our {what}"] += getattr(ours, what)
            total[f"their {what}"] += getattr(theirs, what)
        application.lag, application.runs = (each := random.choice((rested, other))).lag, each.runs
    few = total["steps"] // 40
    assert total["slower"] <= few * (not alike or bool(tags)), total
    assert total["nearer"] <= few, total
    assert total["less even"] <= few * bool(tags), total
    assert 2 * total["our moved"] < total["their moved"], total
    assert 10 * total["our rounds"] < 7 * total["their rounds"], total
    assert total["our restored"] < total["their restored"], total


@pytest.mark.parametrize("alike", [True, False], ids=["equal", "general"])
@pytest.mark.parametrize("name", ["sticky", "fallback"])
def test_sticky_and_fallback_are_as_even_and_keep_as_much_as_javas(
    java: TaskOracle, name: str, alike: bool
) -> None:
    total: Counter[str] = Counter()
    for random, application, policy in histories(alike=alike):
        clients = application.clients()
        ours, theirs = (
            TASK_ASSIGNORS[name](application.tasks, clients, policy),
            java.assign(name, application.tasks, clients, policy),
        )
        evenness = [
            unevenness(np.bincount(each.active, minlength=len(application.names)), application)
            for each in (ours, theirs)
        ]
        assert (ours.needs_probing_rebalance, len(ours.standby)) == (
            theirs.needs_probing_rebalance,
            len(theirs.standby),
        )
        assert evenness[0] <= evenness[1]
        taken = [taken_away(application, each) for each in (ours, theirs)]
        assert taken[0] <= taken[1] or evenness[0] < evenness[1] or name == "sticky"
        total["our moves"] += taken[0]
        total["their moves"] += taken[1]
        total["more moves"] += taken[0] > taken[1] and evenness[0] == evenness[1]
        application.adopts(random.choice((ours, theirs)))
    assert total["our moves"] <= total["their moves"], total
    assert total["more moves"] <= HISTORIES * STEPS // 40, total


def taken_away(application: SimulatedApplication, shares: TaskAssignment) -> int:
    """How many tasks went from who ran them to somebody else."""
    return sum(application.names[shares.active[task]] != name for name, task in application.runs)
