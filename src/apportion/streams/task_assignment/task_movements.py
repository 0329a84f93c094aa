"""Assigns the part of a plan that is possible now, with warm-up replicas for the rest (KIP-441).

Problem. The plan says which client should run each task and which should keep standbys. A planned
client whose state is not caught up would stop the task until it has restored.

Method, as in KIP-441:
1. Active tasks. While the planned client lags more than `acceptable.recovery.lag`, the best other
   client (running or caught up, or at least closer) keeps the task, and the planned one becomes a
   warm-up. If that other client is a planned standby of the same task, the two swap roles: the
   planned owner restores as a standby and needs no warm-up.
2. Standby tasks likewise: a client with better state and no role in the task stands by meanwhile.
3. At most `max.warmup.replicas` warm-ups run at once in the whole group, because they come on top
   of the standbys. Those of active tasks go first, and among them those with the smallest lag,
   because they finish soonest.
4. If anything was postponed, the assignment asks for a probing rebalance. Then the caught-up client
   ranks better, and the same plan needs one movement less.

Example. A runs 0_0; the plan moves it to B, which has nothing. Now: A active, B warm-up, probing.
At the next rebalance B has a lag within the limit: B active.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.task_assignment.client_states import Bools, Ints, Longs, TaskAssignment
from apportion.streams.task_assignment.ranked_clients import (
    AssignmentProblem,
    RankedClients,
    best_clients,
    lag_behind,
)


class TaskPlan(NamedTuple):
    """The client that should run each task (-1: the task is not planned here) and its standbys.

    standby: tasks x standbys, -1 for none.
    """

    active: Ints
    standby: Ints


def assign_with_warmups(problem: AssignmentProblem, plan: TaskPlan) -> TaskAssignment:
    """Assign planned Streams tasks to caught-up clients, with warm-ups for the rest (KIP-441).

    Called by `HighAvailabilityTaskAssignor`.
    """
    active, postponed = replace_lagging_actives(problem, plan)
    standby = plan.standby.copy()
    # Where a planned standby of the task runs it meanwhile, it swaps roles with the planned owner,
    # as in Kafka: the owner restores as a standby and needs no warm-up.
    swapped, column = np.nonzero((standby == active[:, None]) & (active != plan.active)[:, None])
    standby[swapped, column] = plan.active[swapped]
    # A swapped owner restores in a standby's place already; a warm-up besides would count twice
    # against max.warmup.replicas.
    postponed = postponed[~np.isin(postponed, swapped)]
    warming_up = np.stack((postponed, plan.active[postponed]), axis=1).astype(np.int64)
    # After the active tasks: their warm-ups decide which clients have a role in a task.
    standbys_warming_up = replace_lagging_standbys(problem, TaskPlan(active, standby), warming_up)
    # `max.warmup.replicas` counts for the whole group (KIP-441). The smallest lags come first.
    warmups = np.concatenate((warming_up, standbys_warming_up))[
        : problem.configs.max_warmup_replicas
    ]
    # Not `warmups`: what max.warmup.replicas cut off is postponed as well, and only another probing
    # rebalance brings it back.
    is_incomplete = len(warming_up) + len(swapped) + len(standbys_warming_up) > 0
    assignment = assign_as_planned(TaskPlan(active, standby), is_incomplete)
    return assignment._replace(warmup=sorted_pairs(warmups[:, 1], warmups[:, 0]))


def assign_as_planned(plan: TaskPlan, needs_probing_rebalance: bool = False) -> TaskAssignment:
    """Assign the planned Streams tasks without warm-ups, whatever state the clients lack.

    For the task assignors without warm-ups: the sticky one and the fallback.
    """
    task, column = np.nonzero(plan.standby >= 0)
    standby = sorted_pairs(plan.standby[task, column], task)
    return TaskAssignment(plan.active, standby, np.empty((0, 2), np.int32), needs_probing_rebalance)


def replace_lagging_actives(problem: AssignmentProblem, plan: TaskPlan) -> tuple[Ints, Longs]:
    """Let a better client run each Streams task whose planned client lags too far behind (KIP-441).

    Returns the client that runs each task now, and the postponed tasks, the smallest lag first.
    """
    task = np.flatnonzero(plan.active >= 0)
    lag = lag_behind(problem, task, plan.active[task])
    active = plan.active.copy()
    best, rank = best_clients(problem.ranked, len(active))
    # Without any other client with state there is nobody to wait at, and the planned client
    # restores the task at once.
    is_late = (lag > problem.configs.acceptable_recovery_lag) & (best[task] >= 0)
    # KIP-441: a task moves away from its plan only to a client that is nearer to the end.
    is_late &= (best[task] != plan.active[task]) & (rank[task] < lag)
    active[task[is_late]] = best[task[is_late]]
    return active, task[is_late][np.argsort(lag[is_late], kind="stable")]


def replace_lagging_standbys(
    problem: AssignmentProblem, plan: TaskPlan, warming_up: Longs
) -> Longs:
    """Replace planned Streams standbys that lag too far behind by clients with more state.

    Returns rows (task, process) of the replaced, the smallest lag first; they may warm up. plan:
    the clients that run tasks now; its standbys are changed in place. warming_up: rows (task,
    process) of planned owners, which have a role in their task already.
    """
    task, column = np.nonzero(plan.standby >= 0)
    process = plan.standby[task, column]
    lag = lag_behind(problem, task, process)
    is_late = lag > problem.configs.acceptable_recovery_lag
    # The smallest lag first, as these standbys are the first to catch up.
    order = np.lexsort((process[is_late], task[is_late], lag[is_late]))
    late_rows = np.stack((task, column, lag), axis=1)[is_late][order]
    has_late = np.bincount(task[is_late], minlength=len(plan.active)) > 0
    candidates = unassigned_candidates(problem.ranked, plan, warming_up, has_late)
    replaced = []
    for late_task, late_column, late_lag in late_rows.tolist():
        # A planned standby with equal or better state stays: replacing it would restore the same
        # records elsewhere.
        best = candidates.get(late_task)
        if best and best[0][0] < late_lag:
            replaced.append((late_task, int(plan.standby[late_task, late_column])))
            plan.standby[late_task, late_column] = best.pop(0)[1]
    return np.array(replaced, np.int64).reshape(-1, 2)


def unassigned_candidates(
    ranked: RankedClients, plan: TaskPlan, warming_up: Longs, has_late: Bools
) -> dict[int, list[tuple[int, int]]]:
    """Return the clients with state of a Streams task but no role in it, for tasks of `has_late`.

    The clients are pairs (rank, process), the best first.
    """
    busy = (plan.active[ranked.task] == ranked.process) | (
        plan.standby[ranked.task] == ranked.process[:, None]
    ).any(1)
    processes = int(max(ranked.process.max(initial=0), warming_up[:, 1].max(initial=0))) + 1
    warming_keys = warming_up[:, 0] * processes + warming_up[:, 1]
    busy |= np.isin(ranked.task.astype(np.int64) * processes + ranked.process, warming_keys)
    free = ranked.where(has_late[ranked.task] & ~busy)
    candidates: dict[int, list[tuple[int, int]]] = {}
    for task, rank, process in zip(
        free.task.tolist(), free.rank.tolist(), free.process.tolist(), strict=True
    ):
        candidates.setdefault(task, []).append((rank, process))
    return candidates


def sorted_pairs(process: Ints | Longs, task: Longs) -> Ints:
    """Return the rows (process, task) of a Streams task assignment in ascending order.

    process, task: the columns of the rows, as indexes.
    """
    order = np.lexsort((task, process))
    pairs: Ints = np.stack((process[order], task[order]), axis=1).astype(np.int32)
    return pairs
