"""Standbys shared among processes that are all alike: as even as can be, and where the state is as far as evenness allows.

Even is what a process runs and stands by for together, for each of its consumers. Who is caught up keeps its post; as many do as
can with these sizes, so with each new one that has caught up what is left to move shrinks. Nothing moves that has nowhere to go.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.assignor.balance import SCALE, Loads, balanced_counts, rank_within_group
from apportion.streams.assignor.client_states import Bools, Ints, Longs
from apportion.streams.assignor.flow import Edges, min_cost_rebalance
from apportion.streams.assignor.ranked_clients import RANK_CAUGHT_UP, RANK_NONE, RANK_RUNNING, RankedClients

ROTATIONS = 8
"""In so many ways a round of new standbys is laid beside their tasks, before single ones change places."""


class StandbyProblem(NamedTuple):
    """How many standbys each task wants here, who runs it (-1: nobody here), what it has, and what the processes have to carry."""

    wanted: Longs
    active: Ints
    end_offset_sum: Longs
    loads: Loads


class StandbyAssignment(NamedTuple):
    """The posts so far.

    role: tasks x processes, who has one in what. want: how many each task still lacks. room: how many each process may still get.
    """

    has_role: Bools
    missing: Longs
    spare: Longs

    def add(self, task: Ints | Longs, process: Ints | Longs, change: int = 1) -> None:
        """Each process stands by for its task; with a change of -1 it no longer does."""
        self.has_role[task, process] = change > 0
        np.subtract.at(self.missing, task, change)
        np.subtract.at(self.spare, process, change)


def balance_standbys(posts: StandbyProblem, had: RankedClients) -> tuple[Longs, Longs]:
    """Who should stand by for what: rows of task and process. had: what they have of the tasks that want a standby."""
    run = np.flatnonzero(posts.active >= 0)
    role = np.zeros((len(posts.wanted), len(posts.loads.fixed)), np.bool_)
    role[run, posts.active[run]] = True
    had = had.where(~role[had.task, had.process])
    taken, size = keep_caught_up(posts, had.where(had.rank <= RANK_CAUGHT_UP))
    standing = StandbyAssignment(role, posts.wanted.copy(), size.copy())
    standing.add(taken.task, taken.process)
    moving = True
    while moving:
        dropped = release_excess(posts, standing, taken, had)
        assign_to_candidates(standing, had)
        place_new(posts, standing)
        moving = restore_released(standing, dropped) < len(dropped.task)
    overfill(posts, standing, size)
    role[run, posts.active[run]] = False
    if (standing.spare < 0).any() and (standing.spare > 0).any():
        rebalance_along_chains(posts, standing, had)
    task, process = np.nonzero(role)
    return task, process


def keep_caught_up(posts: StandbyProblem, near: RankedClients) -> tuple[RankedClients, Longs]:
    """Who is caught up and stands by, and how many each process may stand by for in all: possibly fewer than are kept.

    near: who could stand by at once. One that stood by already goes before one that is to lose the task.
    """
    near = near.where(np.lexsort((near.process, near.lag, near.rank == RANK_RUNNING, near.task)))
    taken = rank_within_group(near.task) < posts.wanted[near.task]
    base = posts.loads.fixed
    picks = np.bincount(near.process[taken], minlength=len(base))
    runs = np.bincount(posts.active[(posts.active >= 0) & (posts.wanted > 0)], minlength=len(base))
    loads = Loads(base, posts.loads.consumer_counts, np.count_nonzero(posts.wanted) - runs)
    size = balanced_counts(loads, int(posts.wanted.sum()), picks)
    contested = np.bincount(near.task, minlength=len(posts.wanted)) > posts.wanted
    rows = np.flatnonzero(contested[near.task])
    if len(rows) and (picks > size).any():
        edges = Edges(near.task[rows] + len(base), near.process[rows], np.zeros(len(rows), np.int64))
        balance = np.concatenate((picks - size, np.zeros(len(posts.wanted), np.int64)))
        taken[rows] = min_cost_rebalance(edges, taken[rows], balance)
    return near.where(taken), size


def release_excess(posts: StandbyProblem, standing: StandbyAssignment, taken: RankedClients, had: RankedClients) -> RankedClients:
    """Of processes with too much, the posts that they give up: those that others are on the way to first, then the smallest."""
    over, under = standing.spare < 0, standing.spare > 0
    rows = taken.where(over[taken.process] & standing.has_role[taken.task, taken.process])
    on_the_way = np.full(len(posts.wanted), RANK_NONE)
    others = had.where(under[had.process] & ~standing.has_role[had.task, had.process])
    np.minimum.at(on_the_way, others.task, others.rank)
    rows = rows.where(~np.all(standing.has_role[rows.task][:, under], axis=1))  # but none that nobody else can have
    rows = rows.where(np.lexsort((rows.task, posts.end_offset_sum[rows.task], on_the_way[rows.task], rows.process)))
    rows = rows.where(rank_within_group(rows.process) < -standing.spare[rows.process])
    standing.add(rows.task, rows.process, -1)
    return rows


def assign_to_candidates(standing: StandbyAssignment, had: RankedClients) -> None:
    """Those with room stand by for what they have something of, the best first."""
    rows = had.where((standing.missing[had.task] > 0) & (standing.spare[had.process] > 0))
    for row in np.argsort(rows.rank, kind="stable"):
        task, process = rows.task[row : row + 1], rows.process[row : row + 1]
        if standing.missing[task] > 0 and standing.spare[process] > 0 and not standing.has_role[task, process]:
            standing.add(task, process)


def restore_released(standing: StandbyAssignment, dropped: RankedClients) -> int:
    """Who gave up a post that nobody else took has it again; how many did."""
    back = [row for row in range(len(dropped.task)) if standing.missing[dropped.task[row]] > 0]
    for row in back:
        if standing.missing[dropped.task[row]] > 0:  # of two that gave up the same task only one may be needed again
            standing.add(dropped.task[row : row + 1], dropped.process[row : row + 1])
    return len(back)


def place_new(posts: StandbyProblem, standing: StandbyAssignment) -> None:
    """Those with room stand by for what is left, as far as they have no role in it.

    In rounds, each with one more for each task. Who would meet a task that it has a role in changes places with another who can.
    """
    laid = np.empty((0, 2), np.int64)
    left = -1
    while left != (left := int(standing.missing.sum())) and (standing.spare > 0).any():
        pairs = round_robin_pairs(posts, standing)
        clash = standing.has_role[pairs[:, 0], pairs[:, 1]]
        laid = np.concatenate((laid, pairs[~clash]))
        standing.add(*pairs[~clash].T)
        found = [swap_conflict(standing, laid, pair) for pair in pairs[clash]]
        laid = np.concatenate((laid, *found))


def round_robin_pairs(posts: StandbyProblem, standing: StandbyAssignment) -> Longs:
    """Rows (task, process): one for each task that lacks some, as far as there is room; in the turn with the fewest clashes.

    The tasks of one process go to all others in turn, so that no single one has to carry everything when it is gone.
    """
    processes = len(standing.spare)
    task = np.flatnonzero(standing.missing > 0)
    task = task[np.argsort(posts.active[task], kind="stable")]
    task = task[np.argsort(rank_within_group(posts.active[task]), kind="stable")]
    process = np.repeat(np.arange(processes), np.maximum(standing.spare, 0))
    turn = rank_within_group(process)
    best, fewest = np.empty((0, 2), np.int64), len(task) + 1
    for more in range(1, min(ROTATIONS, processes) + 1):
        order = np.lexsort(((process - turn % max(processes - 1, 1) - more) % processes, turn))[: len(task)]
        pairs = np.stack((task[: len(order)], process[order]), axis=1)
        clashes = int(standing.has_role[pairs[:, 0], pairs[:, 1]].sum())
        if clashes < fewest:
            best, fewest = pairs, clashes
        if not fewest:
            break
    return best


def swap_conflict(standing: StandbyAssignment, laid: Longs, pair: Longs) -> Longs:
    """The row with which the task of `pair` is filled after all, none if it cannot be: its process has a role in it already.

    Its process goes to a task of `laid`, and the process of that one to it.
    """
    task, process = pair
    can = np.flatnonzero(~standing.has_role[task, laid[:, 1]] & ~standing.has_role[laid[:, 0], process])
    if not len(can):
        return laid[:0]
    other, its = laid[can[:1]].T
    standing.add(other, its, -1)
    laid[can[0], 1] = process
    standing.add(other, laid[can[:1], 1])
    standing.add(pair[:1], its)
    return np.stack((pair[:1], its), axis=1)


def overfill(posts: StandbyProblem, standing: StandbyAssignment, size: Longs) -> None:
    """Nobody lacks a standby as long as there is a process without a role in the task: the least loaded takes it, room or not."""
    for task in np.repeat(np.arange(len(standing.missing)), standing.missing).tolist():
        load = (posts.loads.fixed + size - standing.spare) * SCALE // posts.loads.consumer_counts
        process = np.argmin(np.where(standing.has_role[task], RANK_NONE, load))
        if not standing.has_role[task, process]:
            standing.add(np.array([task]), np.array([process]))


def rebalance_along_chains(posts: StandbyProblem, standing: StandbyAssignment, had: RankedClients) -> None:
    """Who has too much passes something on to another, and that one to the next, until it comes to one who has room.

    Only needed where one with room has a role already in all that one with too much could give it. `role` knows standbys alone.
    """
    task, process = np.nonzero((posts.wanted > 0)[:, None] & (np.arange(len(standing.spare)) != posts.active[:, None]))
    far = ~standing.has_role
    far[had.task, had.process] &= had.rank > RANK_CAUGHT_UP
    edges = Edges(task + len(standing.spare), process, far[task, process].astype(np.int64))
    balance = np.concatenate((-standing.spare, np.zeros(len(posts.wanted), np.int64)))
    standing.has_role[task, process] = min_cost_rebalance(edges, standing.has_role[task, process], balance)
