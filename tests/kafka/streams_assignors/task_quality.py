"""What an assignor is worth: how even it is, how far apart its standbys are, and what it takes to
come to rest.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from tests.streams.simulated_application import SimulatedApplication

Ask = Callable[[Tasks, ClientStates, AssignmentConfigs], TaskAssignment]
TWELVE = 12  # a multiple of all numbers of consumers


class Verdict(NamedTuple):
    """shares: the first and the last. moved: how often a task with state changed its owner.
    restored: states fetched anew.
    """

    shares: tuple[TaskAssignment, TaskAssignment]
    rounds: int
    moved: int
    restored: int


def rest(
    ask: Ask, application: SimulatedApplication, policy: AssignmentConfigs
) -> tuple[SimulatedApplication, Verdict]:
    """The application when it is asked for no more, and what it took to come there. It ends by a
    failure after 500 rounds.
    """
    application = deepcopy(application)
    given: list[TaskAssignment] = []
    moved = restored = 0
    while not given or given[-1].needs_probing_rebalance:
        assert len(given) < 500, "it does not come to rest"
        given.append(ask(application.tasks, application.clients(), policy))
        before, had = list(application.runs), sorted(application.lag)
        application.adopts(given[-1])
        stateful = application.tasks.stateful
        moved += sum(
            stateful[task]
            and (name, task) not in application.runs
            and name in application.consumers
            for name, task in before
        )
        restored += len({key for key in application.lag if stateful[key[1]]}.difference(had))
    return application, Verdict((given[0], given[-1]), len(given), int(moved), restored)


def unevenness(count: np.ndarray, application: SimulatedApplication) -> int:
    """How far the counts of processes are from their parts by consumers, in squares for each
    consumer; 0 is perfect.
    """
    consumers = np.array([application.consumers[name] for name in application.names])
    off = count * consumers.sum() - count.sum() * consumers
    return int((off * off * TWELVE // consumers).sum())


def runs(
    shares: TaskAssignment, application: SimulatedApplication, those: np.ndarray
) -> np.ndarray:
    """How many of those tasks each process runs."""
    return np.bincount(shares.active[those], minlength=len(application.names))


def carries(shares: TaskAssignment, application: SimulatedApplication) -> np.ndarray:
    """How many tasks with state each process runs or stands by for."""
    return runs(shares, application, application.tasks.stateful) + np.bincount(
        shares.standby[:, 0], minlength=len(application.names)
    )


def apart(
    shares: TaskAssignment, application: SimulatedApplication, dimensions: tuple[str, ...]
) -> int:
    """How many different values of tags the replicas of tasks have, in all."""
    replicas: dict[int, list[str]] = {
        task: [application.names[process]] for task, process in enumerate(shares.active.tolist())
    }
    for process, task in shares.standby.tolist():
        replicas[task].append(application.names[process])
    return sum(
        len({application.tags[name].get(tag) for name in names})
        for names in replicas.values()
        for tag in dimensions
    )
