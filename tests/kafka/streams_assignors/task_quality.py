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
from tests.streams.simulated_application import Company

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


def rest(ask: Ask, company: Company, policy: AssignmentConfigs) -> tuple[Company, Verdict]:
    """The company when it is asked for no more, and what it took to come there. It ends by a
    failure after 500 rounds.
    """
    company = deepcopy(company)
    given: list[TaskAssignment] = []
    moved = restored = 0
    while not given or given[-1].needs_probing_rebalance:
        assert len(given) < 500, "it does not come to rest"
        given.append(ask(company.tasks, company.crew(), policy))
        before, had = list(company.runs), sorted(company.lag)
        company.adopts(given[-1])
        stateful = company.tasks.stateful
        moved += sum(
            stateful[task] and (name, task) not in company.runs and name in company.consumers
            for name, task in before
        )
        restored += len({key for key in company.lag if stateful[key[1]]}.difference(had))
    return company, Verdict((given[0], given[-1]), len(given), int(moved), restored)


def unevenness(count: np.ndarray, company: Company) -> int:
    """How far the counts of processes are from their parts by consumers, in squares for each
    consumer; 0 is perfect.
    """
    consumers = np.array([company.consumers[name] for name in company.names])
    off = count * consumers.sum() - count.sum() * consumers
    return int((off * off * TWELVE // consumers).sum())


def runs(shares: TaskAssignment, company: Company, those: np.ndarray) -> np.ndarray:
    """How many of those tasks each process runs."""
    return np.bincount(shares.active[those], minlength=len(company.names))


def carries(shares: TaskAssignment, company: Company) -> np.ndarray:
    """How many tasks with state each process runs or stands by for."""
    return runs(shares, company, company.tasks.stateful) + np.bincount(
        shares.standby[:, 0], minlength=len(company.names)
    )


def apart(shares: TaskAssignment, company: Company, dimensions: tuple[str, ...]) -> int:
    """How many different values of tags the replicas of tasks have, in all."""
    replicas: dict[int, list[str]] = {
        task: [company.names[process]] for task, process in enumerate(shares.active.tolist())
    }
    for process, task in shares.standby.tolist():
        replicas[task].append(company.names[process])
    return sum(
        len({company.tags[name].get(tag) for name in names})
        for names in replicas.values()
        for tag in dimensions
    )
