"""What can be done of a plan now: who is not caught up warms up while somebody who is stands in (KIP-441).

Warm-ups come on top of the standbys, so there is a limit for the whole group; active tasks go first, and of these who lacks the
least. An owner that is not caught up and a standby that is just change roles: that needs no warm-up.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.assignor.client_states import Bools, Ints, Longs, Shares
from apportion.streams.assignor.task_lags import Group, Holdings, homes, lacking


class Plan(NamedTuple):
    """Who should run each task (-1: not in this plan), and stand by for it (tasks x standbys, -1 for none)."""

    active: Ints
    standby: Ints


def feasible(group: Group, plan: Plan) -> Shares:
    """The plan as far as it can be followed now, for the tasks that are in it; with a warm-up or a look again for the rest.

    Somebody who is caught up, or at least nearer to it, runs the task or stands by as long as the planned one is not caught up.
    """
    active, late = stood_in(group, plan)
    standby = plan.standby.copy()
    swapped, place = np.nonzero((standby == active[:, None]) & (active != plan.active)[:, None])
    standby[swapped, place] = plan.active[swapped]
    late = late[~np.isin(late, swapped)]
    waiting = np.stack((late, plan.active[late]), axis=1).astype(np.int64)
    more = stood_by(group, Plan(active, standby), waiting)
    warm = np.concatenate((waiting, more))[: group.policy.max_warmups]
    shares = shares_of(Plan(active, standby), len(waiting) + len(swapped) + len(more) > 0)
    return shares._replace(warmup=rows(warm[:, 1], warm[:, 0]))


def shares_of(plan: Plan, probes: bool = False) -> Shares:
    """The plan itself, without a warm-up."""
    task, place = np.nonzero(plan.standby >= 0)
    return Shares(plan.active, rows(plan.standby[task, place], task), np.empty((0, 2), np.int32), probes)


def stood_in(group: Group, plan: Plan) -> tuple[Ints, Longs]:
    """Who runs each task now, and the tasks that are not with their planned owner, those of the nearest first."""
    task = np.flatnonzero(plan.active >= 0)
    lag = lacking(group, task, plan.active[task])
    active = plan.active.copy()
    home, rank = homes(group.had, len(active))
    late = (lag > group.policy.acceptable_lag) & (home[task] >= 0) & (home[task] != plan.active[task]) & (rank[task] < lag)
    active[task[late]] = home[task[late]]
    return active, task[late][np.argsort(lag[late], kind="stable")]


def stood_by(group: Group, now: Plan, waiting: Longs) -> Longs:
    """Stand-ins stand by for who is not caught up; rows (task, process) of the planned ones, the nearest first.

    now: its standbys are changed to the stand-ins. waiting: who has been planned to run what, and so is no stand-in.
    """
    task, place = np.nonzero(now.standby >= 0)
    process = now.standby[task, place]
    lag = lacking(group, task, process)
    late = lag > group.policy.acceptable_lag
    late_ones = np.stack((task, place, lag), axis=1)[late][np.lexsort((process[late], task[late], lag[late]))]
    best = idle(group.had, now, waiting, np.bincount(task[late], minlength=len(now.active)) > 0)
    found = []
    for row, place_, lag_ in late_ones.tolist():
        choice = best.get(row)
        if choice and choice[0][0] < lag_:
            found.append((row, int(now.standby[row, place_])))
            now.standby[row, place_] = choice.pop(0)[1]
    return np.array(found, np.int64).reshape(-1, 2)


def idle(had: Holdings, now: Plan, waiting: Longs, wanted: Bools) -> dict[int, list[tuple[int, int]]]:
    """The processes (rank, process) that have something of a wanted task and no role in it, best first."""
    busy = (now.active[had.task] == had.process) | (now.standby[had.task] == had.process[:, None]).any(1)
    processes = int(max(had.process.max(initial=0), waiting[:, 1].max(initial=0))) + 1
    busy |= np.isin(had.task.astype(np.int64) * processes + had.process, waiting[:, 0] * processes + waiting[:, 1])
    found = had.where(wanted[had.task] & ~busy)
    best: dict[int, list[tuple[int, int]]] = {}
    for task, rank, process in zip(found.task.tolist(), found.rank.tolist(), found.process.tolist(), strict=True):
        best.setdefault(task, []).append((rank, process))
    return best


def rows(process: Ints | Longs, task: Longs) -> Ints:
    """Rows (process, task) in order."""
    order = np.lexsort((task, process))
    found: Ints = np.stack((process[order], task[order]), axis=1).astype(np.int32)
    return found
