"""Ranks the clients that have state of each task, best first; every task assignor builds on it.

The rank of a client for a task is RANK_RUNNING if it runs the task, RANK_CAUGHT_UP if its lag is at
most `acceptable.recovery.lag`, and the lag itself otherwise (KIP-441). A lower rank is better.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.task_assignment.client_states import (
    UNLIMITED_LAG,
    AssignmentConfigs,
    Bools,
    ClientStates,
    Ints,
    Longs,
    Tasks,
)

RANK_RUNNING, RANK_CAUGHT_UP, RANK_NONE = -1, 0, 1 << 62
"""The ranks below every lag, and the one above every lag, for a client that has nothing."""


class RankedClients(NamedTuple):
    """Rows of (task, process) where the client has state of the task, by task, best client first.

    rank: RANK_RUNNING, RANK_CAUGHT_UP, or the lag where it is more than acceptable. lag: the lag in
    any case. Among caught-up clients the smallest lag comes first: that one is a standby, and a
    larger lag may be the leftover of a task that was closed.
    """

    task: Ints
    process: Ints
    rank: Longs
    lag: Longs

    def where(self, rows: Bools | Longs) -> "RankedClients":
        """Return the rows that a mask or an array of row numbers selects."""
        return RankedClients(self.task[rows], self.process[rows], self.rank[rows], self.lag[rows])


class AssignmentProblem(NamedTuple):
    """The input of a task assignor, with its ranking.

    ranked: the ranking of `clients` under `configs`.
    """

    tasks: Tasks
    clients: ClientStates
    configs: AssignmentConfigs
    ranked: RankedClients


def assignment_problem(
    tasks: Tasks, clients: ClientStates, configs: AssignmentConfigs
) -> AssignmentProblem:
    """Return the input of a Streams task assignor, with the clients of each task's state ranked.

    Called by each task assignor, for each rebalance that the leader computes. clients: one row for
    each (process, task) that a process has reported; here a client is a process, as in Kafka
    Streams. A client whose lag is the whole changelog is left out: it has no state to build on.
    """
    lag, task = clients.lag, clients.task
    rank = np.where(
        clients.is_running,
        RANK_RUNNING,
        np.where(lag <= configs.acceptable_recovery_lag, RANK_CAUGHT_UP, lag),
    )
    end = tasks.end_offset_sum[task]
    # A client that opened an empty changelog (end 0) has all of it, so there a lag of 0 is state.
    has_state = np.flatnonzero(
        clients.is_running | (tasks.stateful[task] & ((lag < end) | (end == 0)))
    )
    order = has_state[
        np.lexsort((clients.process[has_state], lag[has_state], rank[has_state], task[has_state]))
    ]
    return AssignmentProblem(
        tasks,
        clients,
        configs,
        RankedClients(task[order], clients.process[order], rank[order], lag[order]),
    )


def problem_without_lags(
    tasks: Tasks, clients: ClientStates, configs: AssignmentConfigs
) -> AssignmentProblem:
    """Return the input of a task assignor that looks at neither lags nor subtopologies.

    Every client counts as caught up, and as running the tasks that it was assigned before.
    """
    return assignment_problem(
        tasks._replace(subtopology=np.zeros_like(tasks.subtopology)),
        clients._replace(is_running=clients.previously_active),
        configs._replace(acceptable_recovery_lag=UNLIMITED_LAG),
    )


def best_clients(ranked: RankedClients, tasks: int) -> tuple[Ints, Longs]:
    """Return the best Streams client of each task, and its rank; client -1 where none has state."""
    best, rank = np.full(tasks, -1, np.int32), np.zeros(tasks, np.int64)
    first = np.flatnonzero(np.diff(ranked.task, prepend=-1))
    best[ranked.task[first]], rank[ranked.task[first]] = ranked.process[first], ranked.rank[first]
    return best, rank


def lag_behind(problem: AssignmentProblem, task: Ints | Longs, process: Ints | Longs) -> Longs:
    """Return the lag of process[i] for task[i]: the whole changelog where none was reported."""
    tasks, clients = problem.tasks, problem.clients
    # The rows of `clients` are sorted by (process, task), so one key of both can be searched.
    keys = clients.process.astype(np.int64) * len(tasks.end_offset_sum) + clients.task
    key = process.astype(np.int64) * len(tasks.end_offset_sum) + task
    at = np.minimum(np.searchsorted(keys, key), max(len(keys) - 1, 0))
    if not len(keys):
        return tasks.end_offset_sum[task]
    lag: Longs = np.where(keys[at] == key, clients.lag[at], tasks.end_offset_sum[task])
    return lag
