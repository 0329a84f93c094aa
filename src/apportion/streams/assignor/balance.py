"""Who should run what: as even as it can be for the number of consumers, and as near to what is as evenness allows.

It knows homes, not lags: whether the one who should run a task can do so yet is for others to see.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.assignor.client_states import Bools, Ints, Longs
from apportion.streams.assignor.flow import Edges, min_cost_rebalance
from apportion.streams.assignor.ranked_clients import RANK_NONE, RANK_RUNNING, AssignmentProblem, RankedClients, best_clients

SCALE = 1 << 20
"""Loads per consumer are compared in parts of this."""


class Loads(NamedTuple):
    """What processes have that is not to be moved (`base`), for how many consumers, and how many more they may get at the most."""

    fixed: Longs
    consumer_counts: Ints
    max_extra: Longs | int = 1 << 40


def balanced_counts(loads: Loads, amount: int, *had: Longs) -> Longs:
    """How many more each process gets of `amount`, so that all have nearly the same for each consumer.

    No consumer of one process then has a whole one more than those of another, as far as what they have anyway and `most` allow. Of
    those with equal right, who had more than that keeps it; who does in more of `had`, first. What is too much for all is nobody's.
    """
    weight = loads.consumer_counts.astype(np.int64)

    def upto(level: int) -> Longs:
        size: Longs = np.clip((2 * weight * level // SCALE + 1) // 2 - loads.fixed, 0, loads.max_extra)
        return size

    amount = min(amount, int(np.sum(np.minimum(loads.max_extra, amount))))
    low, high = 0, 2 * SCALE * (int(loads.fixed.max()) + amount + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if upto(middle).sum() <= amount else (low, middle)
    size = upto(low)
    rivals = np.flatnonzero(upto(high) > size)
    keepers_first = rivals[np.argsort(-np.sum([each > size for each in had], axis=0)[rivals], kind="stable")]
    size[keepers_first[: amount - int(size.sum())]] += 1
    return size


class CurrentTasks(NamedTuple):
    """Tasks where they are.

    kind: 0.., of what sort each is. home: -1 for nowhere. runs: it runs at home. cost: what it takes to move it.
    """

    subtopology: Ints
    owner: Ints
    is_running: Bools
    move_cost: Longs


def assign_owners(tasks: CurrentTasks, totals: Longs, offers: RankedClients) -> Ints:
    """The process that should run each task: process p `totals[p]` of all, and of each kind its part, rounded up or down.

    As few move as these sizes allow. What moves is what somebody with room has something of already, at best what runs nowhere;
    then what costs the least. How many move depends on the homes alone, not on the offers: so as one task after the other arrives
    where it should be, what is left to move only shrinks.
    """
    if not len(tasks.owner):
        return tasks.owner
    processes = len(totals)
    at_home = np.flatnonzero(tasks.owner >= 0)
    cell = tasks.subtopology.astype(np.int64) * processes + tasks.owner
    sizes = np.bincount(tasks.subtopology)
    have, run = (
        np.bincount(cell[those], minlength=len(sizes) * processes).reshape(-1, processes) for those in (at_home, tasks.is_running)
    )
    room = counts_by_subtopology(sizes, totals, have, run) - have
    owner = move_to_candidates(tasks, room, offers)
    staying = at_home[owner[at_home] == tasks.owner[at_home]]
    by_cell = staying[np.lexsort((tasks.move_cost[staying], tasks.is_running[staying], cell[staying]))]
    owner[by_cell[rank_within_group(cell[by_cell]) < -room.ravel()[cell[by_cell]]]] = -1
    return fill_round_robin(tasks.subtopology, owner, np.maximum(room, 0))


def counts_by_subtopology(sizes: Longs, totals: Longs, *have: Longs) -> Longs:
    """How many of each kind each process should run: kinds x processes, with `sizes` and `totals` as sums.

    Each is its process's part of the kind, rounded; and so that as many as possible may stay where they are: `have` says how many
    are, in one sense or the other. Totals that differ by one at the most ask for equal parts: that can always be done.
    """
    weight = totals if totals.max() - totals.min() > 1 else np.ones_like(totals)
    exact = sizes[:, None] * weight
    every = max(int(weight.sum()), 1)
    part: Longs = exact // every
    kind, process = np.nonzero(exact % every)
    if len(kind):
        strays = np.stack([each <= part for each in have]).sum(0, dtype=np.int64)[kind, process]
        edges = Edges(kind.astype(np.int32), (process + len(sizes)).astype(np.int32), strays)
        surplus = np.concatenate((sizes - part.sum(1), part.sum(0) - totals))
        up = min_cost_rebalance(edges, np.zeros(len(kind), np.bool_), surplus)
        part[kind[up], process[up]] += 1
    return part


def move_to_candidates(tasks: CurrentTasks, room: Longs, offers: RankedClients) -> Ints:
    """Who owns each task when those with room took what they have something of; `room` is then what is left, below 0: too much.

    Nobody loses more than it has too much.
    """
    owner = tasks.owner.copy()
    kind, home = tasks.subtopology[offers.task], tasks.owner[offers.task]
    can_take = np.flatnonzero((room[kind, offers.process] > 0) & ((home < 0) | (room[kind, home] < 0)))
    for row in can_take[np.lexsort((offers.rank[can_take], tasks.is_running[offers.task[can_take]]))].tolist():
        task, process = offers.task[row], offers.process[row]
        sort, at = tasks.subtopology[task], tasks.owner[task]
        if owner[task] == at and room[sort, process] > 0 and (at < 0 or room[sort, at] < 0):
            owner[task] = process
            room[sort, process] -= 1
            room[sort, at] += at >= 0
    return owner


def fill_round_robin(kind: Ints, owner: Ints, room: Longs) -> Ints:
    """Who owns each task when those of nobody went to where there is room for their kind, in turn."""
    nobodys = np.flatnonzero(owner < 0)
    nobodys = nobodys[np.argsort(kind[nobodys], kind="stable")]
    of_kind, process = np.nonzero(room)
    count = room[of_kind, process]
    of_kind, process = np.repeat(of_kind, count), np.repeat(process, count)
    in_turn = np.lexsort((process, rank_within_group(of_kind * room.shape[1] + process), of_kind))
    owner[nobodys] = process[in_turn]
    return owner


def rank_within_group(group: Ints | Longs) -> Longs:
    """The number of each among those of its group, from 0; the groups, from -1 on, ascend."""
    start = np.flatnonzero(np.diff(group, prepend=-2))
    length = np.diff(np.append(start, len(group)))
    rank: Longs = np.arange(len(group)) - np.repeat(start, length)
    return rank


def plan_active_tasks(group: AssignmentProblem, those: Bools, base: Longs, *, home_rank: int = RANK_NONE) -> Ints:
    """The process that should run each of `those` tasks, -1 for the others.

    base: how many others each process runs. home_rank: the lowest rank with which the best process of a task is its home.
    """
    tasks = group.tasks
    chosen = np.flatnonzero(those)
    number = np.full(len(those), -1, np.int32)
    number[chosen] = np.arange(len(chosen))
    offers = group.ranked.where(those[group.ranked.task])
    offers = offers._replace(task=number[offers.task])
    home, rank = best_clients(offers.where(offers.rank <= home_rank), len(chosen))
    had = (np.bincount(home[those], minlength=len(base)) for those in (home >= 0, rank == RANK_RUNNING))
    totals = balanced_counts(Loads(base, group.clients.consumer_counts), len(chosen), *had)
    kind = np.unique(tasks.subtopology[chosen], return_inverse=True)[1].astype(np.int32)
    owner = np.full(len(those), -1, np.int32)
    owner[chosen] = assign_owners(CurrentTasks(kind, home, rank == RANK_RUNNING, tasks.end_offset_sum[chosen]), totals, offers)
    return owner
