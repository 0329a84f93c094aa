"""What all task assignors promise, whatever they are asked."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apportion.streams.task_assignment.balance import CurrentTasks, assign_owners
from apportion.streams.task_assignment.client_states import AssignmentConfigs, TaskAssignment
from apportion.streams.task_assignment.high_availability import high_availability
from apportion.streams.task_assignment.ranked_clients import RankedClients
from apportion.streams.task_assignment.task_assignors import TASK_ASSIGNORS
from tests.streams.simulated_application import (
    ALL,
    SimulatedApplication,
    any_company,
    changed,
    tasks_of,
)

RANDOMS = st.integers(0, 1 << 32).map(Random)
POLICIES = st.builds(
    lambda standbys, warmups: AssignmentConfigs(standbys, max_warmup_replicas=warmups),
    st.integers(0, 3),
    st.integers(1, 3),
)


def same(one: TaskAssignment, other: TaskAssignment) -> bool:
    pairs: Any = zip(one, other, strict=True)
    return all(np.array_equal(mine, yours) for mine, yours in pairs)


def roles(shares: TaskAssignment) -> list[tuple[int, int]]:
    """(task, process) of every role that somebody has."""
    held = [(task, process) for task, process in enumerate(shares.active.tolist())]
    return held + [
        (task, process) for process, task in (*shares.standby.tolist(), *shares.warmup.tolist())
    ]


def played(
    application: SimulatedApplication,
    policy: AssignmentConfigs,
    random: Random,
    name: str = "highavailability",
) -> TaskAssignment:
    """What it is given after a history of joins and crashes in which not every assignment came to
    rest.
    """
    for _ in range(random.randint(0, 6)):
        application.adopts(
            TASK_ASSIGNORS[name](application.tasks, application.clients(), policy),
            forgets=random.random() < 0.7,
        )
        changed(application, random)
    return TASK_ASSIGNORS[name](application.tasks, application.clients(), policy)


@pytest.mark.parametrize("name", sorted(TASK_ASSIGNORS))
@settings(deadline=None, max_examples=200)
@given(RANDOMS, POLICIES, st.booleans())
def test_every_task_runs_once_and_nobody_has_two_roles_in_one(
    name: str, random: Random, policy: AssignmentConfigs, tagged: bool
) -> None:
    application = any_company(random, tags=("zone", "rack") if tagged else ())
    policy = policy._replace(rack_aware_tags=("zone", "rack") if tagged else ())
    shares = played(application, policy, random, name)
    processes = len(application.names)
    assert len(shares.active) == len(application.tasks.end_offset_sum)
    assert shares.active.min() >= 0
    assert shares.active.max() < processes
    assert len(set(roles(shares))) == len(roles(shares))
    assert len(shares.warmup) <= (policy.max_warmup_replicas if name == "highavailability" else 0)
    count = np.bincount(shares.standby[:, 1], minlength=len(shares.active))
    assert (
        count.tolist()
        == np.where(
            application.tasks.stateful, min(policy.num_standby_replicas, processes - 1), 0
        ).tolist()
    )
    assert not shares.needs_probing_rebalance or name != "sticky"
    assert shares.standby.tolist() == sorted(shares.standby.tolist())
    assert shares.warmup.tolist() == sorted(shares.warmup.tolist())


@pytest.mark.parametrize("name", sorted(TASK_ASSIGNORS))
@settings(deadline=None, max_examples=100)
@given(RANDOMS, POLICIES)
def test_the_same_question_has_the_same_answer_and_is_not_changed(
    name: str, random: Random, policy: AssignmentConfigs
) -> None:
    application = any_company(random)
    played(application, policy, random, name)
    clients = application.clients()
    before = [np.copy(each) for each in (*application.tasks, *clients[:1], *clients[2:])]
    first = TASK_ASSIGNORS[name](application.tasks, clients, policy)
    assert same(first, TASK_ASSIGNORS[name](application.tasks, application.clients(), policy))
    pairs: Any = zip(before, (*application.tasks, *clients[:1], *clients[2:]), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)


@settings(deadline=None, max_examples=100)
@given(RANDOMS, POLICIES, st.booleans(), st.booleans())
@example(Random(948), AssignmentConfigs(3, max_warmup_replicas=1), True, False)
@example(Random(244393), AssignmentConfigs(3, max_warmup_replicas=1), False, False)
def test_it_comes_to_rest_and_then_never_changes_again(
    random: Random, policy: AssignmentConfigs, tagged: bool, forgets: bool
) -> None:
    application = any_company(random, tags=("zone",) if tagged else ())
    policy = policy._replace(rack_aware_tags=("zone",) if tagged else ())
    shares = played(application, policy, random)
    rounds = 0
    while shares.needs_probing_rebalance:
        application.adopts(shares, forgets=forgets)
        shares = high_availability(application.tasks, application.clients(), policy)
        rounds += 1
        assert (
            rounds <= len(application.tasks.end_offset_sum) * (policy.num_standby_replicas + 1) + 1
        )
    assert not len(shares.warmup)
    for _ in range(2):
        application.adopts(shares, forgets=forgets)
        again = high_availability(application.tasks, application.clients(), policy)
        assert same(shares, again)


@settings(deadline=None, max_examples=100)
@given(RANDOMS, POLICIES)
def test_at_rest_it_is_even_for_each_consumer_and_in_each_subtopology(
    random: Random, policy: AssignmentConfigs
) -> None:
    application = any_company(random, alike=random.random() < 0.5)
    shares = played(application, policy, random)
    while shares.needs_probing_rebalance:
        application.adopts(shares)
        shares = high_availability(application.tasks, application.clients(), policy)
    consumers = np.array([application.consumers[name] for name in application.names])
    stateful = application.tasks.stateful
    runs = np.bincount(shares.active[stateful], minlength=len(consumers))
    stands = np.bincount(shares.standby[:, 0], minlength=len(consumers))
    per_consumer = runs / consumers
    assert per_consumer.max() - per_consumer.min() <= 1
    if len(set(consumers.tolist())) == 1:
        assert (runs + stands).max() - (runs + stands).min() <= consumers[0]
        for number in np.unique(application.tasks.subtopology[stateful]):
            each = np.bincount(
                shares.active[application.tasks.subtopology == number], minlength=len(consumers)
            )
            assert each.max() - each.min() <= 1


@settings(deadline=None, max_examples=100)
@given(RANDOMS, POLICIES)
def test_nobody_runs_what_it_lacks_while_another_could_run_it_at_once(
    random: Random, policy: AssignmentConfigs
) -> None:
    application = any_company(random)
    shares = played(application, policy, random)
    clients = application.clients()
    near = clients.lag <= policy.acceptable_recovery_lag
    could = np.bincount(clients.task[near], minlength=len(shares.active)) > 0
    caught_up = {
        (task, process)
        for task, process in zip(
            clients.task[near].tolist(), clients.process[near].tolist(), strict=True
        )
    }
    for task in np.flatnonzero(application.tasks.stateful & could).tolist():
        assert (task, int(shares.active[task])) in caught_up


@settings(deadline=None, max_examples=100)
@given(RANDOMS, POLICIES)
def test_fallback_takes_nothing_from_who_runs_it(random: Random, policy: AssignmentConfigs) -> None:
    application = any_company(random)
    played(application, policy, random)
    clients = application.clients()
    shares = TASK_ASSIGNORS["fallback"](application.tasks, clients, policy)
    assert shares.needs_probing_rebalance
    assert (
        shares.active[clients.task[clients.is_running]].tolist()
        == clients.process[clients.is_running].tolist()
    )


def test_one_that_joins_warms_up_within_the_limit_and_then_runs() -> None:
    application = SimulatedApplication(tasks_of((6, True)), {"a": 1, "b": 1})
    policy = AssignmentConfigs(num_standby_replicas=0, max_warmup_replicas=1)
    first = high_availability(application.tasks, application.clients(), policy)
    assert first.active.tolist() == [0, 1, 0, 1, 0, 1]
    application.adopts(first)
    application.consumers["c"] = 1
    seen = []
    while (
        shares := high_availability(application.tasks, application.clients(), policy)
    ).needs_probing_rebalance:
        seen.append((shares.active.tolist(), shares.warmup.tolist()))
        application.adopts(shares)
    assert seen == [([0, 1, 0, 1, 0, 1], [[2, 0]]), ([2, 1, 0, 1, 0, 1], [[2, 1]])]
    assert shares.active.tolist() == [2, 2, 0, 1, 0, 1]


def test_a_standby_that_is_caught_up_takes_over_at_once() -> None:
    application = SimulatedApplication(tasks_of((4, True)), {"a": 1, "b": 1})
    policy = AssignmentConfigs(num_standby_replicas=1)
    application.adopts(high_availability(application.tasks, application.clients(), policy))
    application.leaves("a")
    shares = high_availability(application.tasks, application.clients(), policy)
    assert same(
        shares,
        TaskAssignment(
            np.zeros(4, np.int32), np.empty((0, 2), np.int32), np.empty((0, 2), np.int32), False
        ),
    )


def test_small_changelogs_move_without_a_warm_up() -> None:
    application = SimulatedApplication(tasks_of((4, True)), {"a": 1})
    application.adopts(
        high_availability(application.tasks, application.clients(), AssignmentConfigs())
    )
    application.consumers["b"] = 1
    shares = high_availability(
        application.tasks, application.clients(), AssignmentConfigs(acceptable_recovery_lag=ALL)
    )
    assert (shares.active.tolist(), shares.needs_probing_rebalance) == ([1, 1, 0, 0], False)


def test_the_roles_are_swapped_when_the_one_who_is_caught_up_should_stand_by() -> None:
    application = SimulatedApplication(tasks_of((2, True)), {"a": 1})
    policy = AssignmentConfigs(num_standby_replicas=1, max_warmup_replicas=1)
    application.adopts(high_availability(application.tasks, application.clients(), policy))
    application.consumers["b"] = 1
    shares = high_availability(application.tasks, application.clients(), policy)
    assert (
        shares.active.tolist(),
        shares.standby.tolist(),
        len(shares.warmup),
        shares.needs_probing_rebalance,
    ) == (
        [0, 0],
        [[1, 0], [1, 1]],
        0,
        True,
    )
    application.adopts(shares)
    shares = high_availability(application.tasks, application.clients(), policy)
    assert (shares.active.tolist(), shares.standby.tolist(), shares.needs_probing_rebalance) == (
        [1, 0],
        [[0, 0], [1, 1]],
        False,
    )


def test_a_standby_that_moves_counts_among_the_warm_ups() -> None:
    application = SimulatedApplication(tasks_of((6, True)), {"a": 1, "b": 1})
    policy = AssignmentConfigs(num_standby_replicas=1, max_warmup_replicas=1)
    application.adopts(high_availability(application.tasks, application.clients(), policy))
    application.consumers["c"] = 1
    seen = 0
    while (
        shares := high_availability(application.tasks, application.clients(), policy)
    ).needs_probing_rebalance:
        assert np.bincount(shares.standby[:, 1]).tolist() == [1] * 6
        assert len(shares.warmup) == 1
        application.adopts(shares)
        seen += 1
    assert (
        seen,
        np.bincount(shares.active).tolist(),
        np.bincount(shares.standby[:, 0]).tolist(),
    ) == (4, [2, 2, 2], [2, 2, 2])


def test_nobody_caught_up_means_that_the_nearest_runs_and_the_planned_one_warms_up() -> None:
    application = SimulatedApplication(tasks_of((2, True)), {"a": 1, "b": 1})
    application.lag = {("a", 0): 30_000, ("a", 1): 20_000}
    shares = high_availability(
        application.tasks, application.clients(), AssignmentConfigs(max_warmup_replicas=1)
    )
    assert same(
        shares,
        TaskAssignment(
            np.array([0, 0], np.int32),
            np.empty((0, 2), np.int32),
            np.array([[1, 0]], np.int32),
            True,
        ),
    )


def test_standbys_differ_from_their_owner_in_as_many_tags_as_can_be() -> None:
    tag_values = {"a": ("1", "x"), "b": ("1", "y"), "c": ("2", "x"), "d": ("2", "y")}
    tags = {
        name: {"zone": zone, "cluster": cluster} for name, (zone, cluster) in tag_values.items()
    }
    application = SimulatedApplication(tasks_of((8, True)), dict.fromkeys(tag_values, 1), tags)
    policy = AssignmentConfigs(num_standby_replicas=1, rack_aware_tags=("zone", "cluster"))
    shares = high_availability(application.tasks, application.clients(), policy)
    opposite = {0: 3, 3: 0, 1: 2, 2: 1}
    assert sorted((task, process) for process, task in shares.standby.tolist()) == [
        (task, opposite[owner]) for task, owner in enumerate(shares.active.tolist())
    ]
    only_zone = high_availability(
        application.tasks, application.clients(), policy._replace(num_standby_replicas=2)
    )
    for task in range(8):
        have = [only_zone.active[task], *only_zone.standby[only_zone.standby[:, 1] == task, 0]]
        assert len({tag_values["abcd"[process]] for process in have}) == 3


def test_stateless_tasks_go_to_who_runs_the_least_and_then_stay() -> None:
    application = SimulatedApplication(tasks_of((3, True), (5, False)), {"a": 1, "b": 1})
    shares = high_availability(application.tasks, application.clients(), AssignmentConfigs())
    assert np.bincount(shares.active).tolist() == [4, 4]
    application = SimulatedApplication(tasks_of((6, False)), {"a": 1, "b": 1})
    application.adopts(
        high_availability(application.tasks, application.clients(), AssignmentConfigs())
    )
    application.consumers["c"] = 1
    before, after = (
        application.clients(),
        high_availability(application.tasks, application.clients(), AssignmentConfigs()),
    )
    stayed = after.active[before.task] == before.process
    assert (
        np.bincount(after.active).tolist(),
        int(stayed.sum()),
        after.needs_probing_rebalance,
    ) == ([2, 2, 2], 4, False)


def test_a_task_that_runs_nowhere_goes_to_who_has_state_of_it() -> None:
    nowhere = CurrentTasks(
        subtopology=np.zeros(4, np.int32),
        owner=np.full(4, -1, np.int32),
        is_running=np.zeros(4, np.bool_),
        move_cost=np.zeros(4, np.int64),
    )
    tasks, processes = np.arange(4, dtype=np.int32), np.array([1, 1, 0, 0], np.int32)
    lag = np.full(4, 7)
    ranked = RankedClients(tasks, processes, lag, lag)
    assert assign_owners(nowhere, np.array([2, 2]), ranked).tolist() == processes.tolist()


def test_sticky_gives_the_tasks_of_one_who_left_to_who_stood_by_for_them() -> None:
    application = SimulatedApplication(tasks_of((6, True)), {"a": 1, "b": 1, "c": 1})
    policy = AssignmentConfigs(num_standby_replicas=1)
    first = TASK_ASSIGNORS["sticky"](application.tasks, application.clients(), policy)
    application.adopts(first, lag=ALL - 1)
    application.leaves("c")
    shares = TASK_ASSIGNORS["sticky"](application.tasks, application.clients(), policy)
    kept = [task for task in range(6) if first.active[task] < 2]
    assert shares.active[kept].tolist() == first.active[kept].tolist()
    stood_by = {task: process for process, task in first.standby.tolist()}
    assert all(
        shares.active[task] == stood_by[task] for task in range(6) if first.active[task] == 2
    )
    assert not shares.needs_probing_rebalance
    assert not len(shares.warmup)
