"""What processes have of tasks, as the assignors ask for it: where a task is at home, and what the others lack of it."""

from typing import NamedTuple

import numpy as np

from apportion.streams.assignor.client_states import AssignmentConfigs, Bools, ClientStates, Ints, Longs, Tasks

RANK_RUNNING, RANK_CAUGHT_UP, RANK_NONE = -1, 0, 1 << 62
"""Ranks before any lag: it runs the task; it could run it at once. And the rank below all."""


class RankedClients(NamedTuple):
    """A row for each task of which a process has something to build on, the best of each task first.

    rank: RUNS, HAS, or how much is lacking where that is more than acceptable. lag: how much in any case; of those who have it the
    one comes first that lacks the least, as it is a standby and not the dying rest of one.
    """

    task: Ints
    process: Ints
    rank: Longs
    lag: Longs

    def where(self, rows: Bools | Longs) -> "RankedClients":
        """The rows for which it is true, or of these numbers."""
        return RankedClients(self.task[rows], self.process[rows], self.rank[rows], self.lag[rows])


class AssignmentProblem(NamedTuple):
    """What an assignor is asked about. had: the holdings of `crew`, as `policy` sees them."""

    tasks: Tasks
    clients: ClientStates
    configs: AssignmentConfigs
    ranked: RankedClients


def assignment_problem(tasks: Tasks, crew: ClientStates, policy: AssignmentConfigs) -> AssignmentProblem:
    """The question with its holdings. A process that lacks all that a task has, has nothing to build on."""
    rank = np.where(crew.is_running, RANK_RUNNING, np.where(crew.lag <= policy.acceptable_recovery_lag, RANK_CAUGHT_UP, crew.lag))
    end = tasks.end_offset_sum[crew.task]
    has = np.flatnonzero(crew.is_running | (tasks.stateful[crew.task] & ((crew.lag < end) | (end == 0))))
    order = has[np.lexsort((crew.process[has], crew.lag[has], rank[has], crew.task[has]))]
    return AssignmentProblem(
        tasks, crew, policy, RankedClients(crew.task[order], crew.process[order], rank[order], crew.lag[order])
    )


def best_clients(had: RankedClients, tasks: int) -> tuple[Ints, Longs]:
    """The best process of each task and its rank; -1 where nobody has anything of it."""
    home, rank = np.full(tasks, -1, np.int32), np.zeros(tasks, np.int64)
    first = np.flatnonzero(np.diff(had.task, prepend=-1))
    home[had.task[first]], rank[had.task[first]] = had.process[first], had.rank[first]
    return home, rank


def lag_behind(group: AssignmentProblem, task: Ints | Longs, process: Ints | Longs) -> Longs:
    """What process[i] lacks of task[i]: all of it where it says nothing."""
    tasks, crew = group.tasks, group.clients
    keys = crew.process.astype(np.int64) * len(tasks.end_offset_sum) + crew.task
    asked = process.astype(np.int64) * len(tasks.end_offset_sum) + task
    at = np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))
    if not len(keys):
        return tasks.end_offset_sum[task]
    lag: Longs = np.where(keys[at] == asked, crew.lag[at], tasks.end_offset_sum[task])
    return lag
