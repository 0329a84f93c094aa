"""What can be done of a plan now: who is not caught up warms up while somebody who is stands in (KIP-441).

Warm-ups come on top of the standbys, so there is a limit for the whole group; active tasks go first, and of these who lacks the
least. An owner that is not caught up and a standby that is just change roles: that needs no warm-up.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.assignor.client_states import Bools, Ints, Longs, TaskAssignment
from apportion.streams.assignor.ranked_clients import AssignmentProblem, RankedClients, best_clients, lag_behind


class TaskPlan(NamedTuple):
    """Who should run each task (-1: not in this plan), and stand by for it (tasks x standbys, -1 for none)."""

    active: Ints
    standby: Ints


def assign_with_warmups(group: AssignmentProblem, plan: TaskPlan) -> TaskAssignment:
    """The plan as far as it can be followed now, for the tasks that are in it; with a warm-up or a look again for the rest.

    Somebody who is caught up, or at least nearer to it, runs the task or stands by as long as the planned one is not caught up.
    """
    active, late = replace_lagging_actives(group, plan)
    standby = plan.standby.copy()
    swapped, place = np.nonzero((standby == active[:, None]) & (active != plan.active)[:, None])
    standby[swapped, place] = plan.active[swapped]
    late = late[~np.isin(late, swapped)]
    waiting = np.stack((late, plan.active[late]), axis=1).astype(np.int64)
    more = replace_lagging_standbys(group, TaskPlan(active, standby), waiting)
    warm = np.concatenate((waiting, more))[: group.configs.max_warmup_replicas]
    shares = assign_as_planned(TaskPlan(active, standby), len(waiting) + len(swapped) + len(more) > 0)
    return shares._replace(warmup=sorted_pairs(warm[:, 1], warm[:, 0]))


def assign_as_planned(plan: TaskPlan, probes: bool = False) -> TaskAssignment:
    """The plan itself, without a warm-up."""
    task, place = np.nonzero(plan.standby >= 0)
    return TaskAssignment(plan.active, sorted_pairs(plan.standby[task, place], task), np.empty((0, 2), np.int32), probes)


def replace_lagging_actives(group: AssignmentProblem, plan: TaskPlan) -> tuple[Ints, Longs]:
    """Who runs each task now, and the tasks that are not with their planned owner, those of the nearest first."""
    task = np.flatnonzero(plan.active >= 0)
    lag = lag_behind(group, task, plan.active[task])
    active = plan.active.copy()
    home, rank = best_clients(group.ranked, len(active))
    late = (
        (lag > group.configs.acceptable_recovery_lag) & (home[task] >= 0) & (home[task] != plan.active[task]) & (rank[task] < lag)
    )
    active[task[late]] = home[task[late]]
    return active, task[late][np.argsort(lag[late], kind="stable")]


def replace_lagging_standbys(group: AssignmentProblem, now: TaskPlan, waiting: Longs) -> Longs:
    """Stand-ins stand by for who is not caught up; rows (task, process) of the planned ones, the nearest first.

    now: its standbys are changed to the stand-ins. waiting: who has been planned to run what, and so is no stand-in.
    """
    task, place = np.nonzero(now.standby >= 0)
    process = now.standby[task, place]
    lag = lag_behind(group, task, process)
    late = lag > group.configs.acceptable_recovery_lag
    late_ones = np.stack((task, place, lag), axis=1)[late][np.lexsort((process[late], task[late], lag[late]))]
    best = unassigned_candidates(group.ranked, now, waiting, np.bincount(task[late], minlength=len(now.active)) > 0)
    found = []
    for row, place_, lag_ in late_ones.tolist():
        choice = best.get(row)
        if choice and choice[0][0] < lag_:
            found.append((row, int(now.standby[row, place_])))
            now.standby[row, place_] = choice.pop(0)[1]
    return np.array(found, np.int64).reshape(-1, 2)


def unassigned_candidates(had: RankedClients, now: TaskPlan, waiting: Longs, wanted: Bools) -> dict[int, list[tuple[int, int]]]:
    """The processes (rank, process) that have something of a wanted task and no role in it, best first."""
    busy = (now.active[had.task] == had.process) | (now.standby[had.task] == had.process[:, None]).any(1)
    processes = int(max(had.process.max(initial=0), waiting[:, 1].max(initial=0))) + 1
    busy |= np.isin(had.task.astype(np.int64) * processes + had.process, waiting[:, 0] * processes + waiting[:, 1])
    found = had.where(wanted[had.task] & ~busy)
    best: dict[int, list[tuple[int, int]]] = {}
    for task, rank, process in zip(found.task.tolist(), found.rank.tolist(), found.process.tolist(), strict=True):
        best.setdefault(task, []).append((rank, process))
    return best


def sorted_pairs(process: Ints | Longs, task: Longs) -> Ints:
    """Rows (process, task) in order."""
    order = np.lexsort((task, process))
    found: Ints = np.stack((process[order], task[order]), axis=1).astype(np.int32)
    return found
