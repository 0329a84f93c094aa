"""Standbys shared among processes that are all alike: as even as can be, and where the state is as far as evenness allows.

Even is what a process runs and stands by for together, for each of its consumers. Who is caught up keeps its post; as many do as
can with these sizes, so with each new one that has caught up what is left to move shrinks. Nothing moves that has nowhere to go.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.assignor.balance import SCALE, Loads, even, rank_in
from apportion.streams.assignor.client_states import Bools, Ints, Longs
from apportion.streams.assignor.flow import Edges, settled
from apportion.streams.assignor.task_lags import HAS, NOTHING, RUNS, Holdings

ROTATIONS = 8
"""In so many ways a round of new standbys is laid beside their tasks, before single ones change places."""


class Posts(NamedTuple):
    """How many standbys each task wants here, who runs it (-1: nobody here), what it has, and what the processes have to carry."""

    want: Longs
    active: Ints
    end: Longs
    loads: Loads


class Standing(NamedTuple):
    """The posts so far.

    role: tasks x processes, who has one in what. want: how many each task still lacks. room: how many each process may still get.
    """

    role: Bools
    want: Longs
    room: Longs

    def fill(self, task: Ints | Longs, process: Ints | Longs, change: int = 1) -> None:
        """Each process stands by for its task; with a change of -1 it no longer does."""
        self.role[task, process] = change > 0
        np.subtract.at(self.want, task, change)
        np.subtract.at(self.room, process, change)


def posted(posts: Posts, had: Holdings) -> tuple[Longs, Longs]:
    """Who should stand by for what: rows of task and process. had: what they have of the tasks that want a standby."""
    run = np.flatnonzero(posts.active >= 0)
    role = np.zeros((len(posts.want), len(posts.loads.base)), np.bool_)
    role[run, posts.active[run]] = True
    had = had.where(~role[had.task, had.process])
    taken, size = kept(posts, had.where(had.rank <= HAS))
    standing = Standing(role, posts.want.copy(), size.copy())
    standing.fill(taken.task, taken.process)
    moving = True
    while moving:
        dropped = let_go(posts, standing, taken, had)
        take_over(standing, had)
        lay_out(posts, standing)
        moving = take_back(standing, dropped) < len(dropped.task)
    crowd(posts, standing, size)
    role[run, posts.active[run]] = False
    if (standing.room < 0).any() and (standing.room > 0).any():
        pass_on(posts, standing, had)
    task, process = np.nonzero(role)
    return task, process


def kept(posts: Posts, near: Holdings) -> tuple[Holdings, Longs]:
    """Who is caught up and stands by, and how many each process may stand by for in all: possibly fewer than are kept.

    near: who could stand by at once. One that stood by already goes before one that is to lose the task.
    """
    near = near.where(np.lexsort((near.process, near.lag, near.rank == RUNS, near.task)))
    taken = rank_in(near.task) < posts.want[near.task]
    base = posts.loads.base
    picks = np.bincount(near.process[taken], minlength=len(base))
    runs = np.bincount(posts.active[(posts.active >= 0) & (posts.want > 0)], minlength=len(base))
    loads = Loads(base, posts.loads.consumers, np.count_nonzero(posts.want) - runs)
    size = even(loads, int(posts.want.sum()), picks)
    contested = np.bincount(near.task, minlength=len(posts.want)) > posts.want
    rows = np.flatnonzero(contested[near.task])
    if len(rows) and (picks > size).any():
        edges = Edges(near.task[rows] + len(base), near.process[rows], np.zeros(len(rows), np.int64))
        balance = np.concatenate((picks - size, np.zeros(len(posts.want), np.int64)))
        taken[rows] = settled(edges, taken[rows], balance)
    return near.where(taken), size


def let_go(posts: Posts, standing: Standing, taken: Holdings, had: Holdings) -> Holdings:
    """Of processes with too much, the posts that they give up: those that others are on the way to first, then the smallest."""
    over, under = standing.room < 0, standing.room > 0
    rows = taken.where(over[taken.process] & standing.role[taken.task, taken.process])
    on_the_way = np.full(len(posts.want), NOTHING)
    others = had.where(under[had.process] & ~standing.role[had.task, had.process])
    np.minimum.at(on_the_way, others.task, others.rank)
    rows = rows.where(~np.all(standing.role[rows.task][:, under], axis=1))  # but none that nobody else can have
    rows = rows.where(np.lexsort((rows.task, posts.end[rows.task], on_the_way[rows.task], rows.process)))
    rows = rows.where(rank_in(rows.process) < -standing.room[rows.process])
    standing.fill(rows.task, rows.process, -1)
    return rows


def take_over(standing: Standing, had: Holdings) -> None:
    """Those with room stand by for what they have something of, the best first."""
    rows = had.where((standing.want[had.task] > 0) & (standing.room[had.process] > 0))
    for row in np.argsort(rows.rank, kind="stable"):
        task, process = rows.task[row : row + 1], rows.process[row : row + 1]
        if standing.want[task] > 0 and standing.room[process] > 0 and not standing.role[task, process]:
            standing.fill(task, process)


def take_back(standing: Standing, dropped: Holdings) -> int:
    """Who gave up a post that nobody else took has it again; how many did."""
    back = [row for row in range(len(dropped.task)) if standing.want[dropped.task[row]] > 0]
    for row in back:
        if standing.want[dropped.task[row]] > 0:  # of two that gave up the same task only one may be needed again
            standing.fill(dropped.task[row : row + 1], dropped.process[row : row + 1])
    return len(back)


def lay_out(posts: Posts, standing: Standing) -> None:
    """Those with room stand by for what is left, as far as they have no role in it.

    In rounds, each with one more for each task. Who would meet a task that it has a role in changes places with another who can.
    """
    laid = np.empty((0, 2), np.int64)
    left = -1
    while left != (left := int(standing.want.sum())) and (standing.room > 0).any():
        pairs = in_turn(posts, standing)
        clash = standing.role[pairs[:, 0], pairs[:, 1]]
        laid = np.concatenate((laid, pairs[~clash]))
        standing.fill(*pairs[~clash].T)
        found = [exchanged(standing, laid, pair) for pair in pairs[clash]]
        laid = np.concatenate((laid, *found))


def in_turn(posts: Posts, standing: Standing) -> Longs:
    """Rows (task, process): one for each task that lacks some, as far as there is room; in the turn with the fewest clashes.

    The tasks of one process go to all others in turn, so that no single one has to carry everything when it is gone.
    """
    processes = len(standing.room)
    task = np.flatnonzero(standing.want > 0)
    task = task[np.argsort(posts.active[task], kind="stable")]
    task = task[np.argsort(rank_in(posts.active[task]), kind="stable")]
    process = np.repeat(np.arange(processes), np.maximum(standing.room, 0))
    turn = rank_in(process)
    best, fewest = np.empty((0, 2), np.int64), len(task) + 1
    for more in range(1, min(ROTATIONS, processes) + 1):
        order = np.lexsort(((process - turn % max(processes - 1, 1) - more) % processes, turn))[: len(task)]
        pairs = np.stack((task[: len(order)], process[order]), axis=1)
        clashes = int(standing.role[pairs[:, 0], pairs[:, 1]].sum())
        if clashes < fewest:
            best, fewest = pairs, clashes
        if not fewest:
            break
    return best


def exchanged(standing: Standing, laid: Longs, pair: Longs) -> Longs:
    """The row with which the task of `pair` is filled after all, none if it cannot be: its process has a role in it already.

    Its process goes to a task of `laid`, and the process of that one to it.
    """
    task, process = pair
    can = np.flatnonzero(~standing.role[task, laid[:, 1]] & ~standing.role[laid[:, 0], process])
    if not len(can):
        return laid[:0]
    other, its = laid[can[:1]].T
    standing.fill(other, its, -1)
    laid[can[0], 1] = process
    standing.fill(other, laid[can[:1], 1])
    standing.fill(pair[:1], its)
    return np.stack((pair[:1], its), axis=1)


def crowd(posts: Posts, standing: Standing, size: Longs) -> None:
    """Nobody lacks a standby as long as there is a process without a role in the task: the least loaded takes it, room or not."""
    for task in np.repeat(np.arange(len(standing.want)), standing.want).tolist():
        load = (posts.loads.base + size - standing.room) * SCALE // posts.loads.consumers
        process = np.argmin(np.where(standing.role[task], NOTHING, load))
        if not standing.role[task, process]:
            standing.fill(np.array([task]), np.array([process]))


def pass_on(posts: Posts, standing: Standing, had: Holdings) -> None:
    """Who has too much passes something on to another, and that one to the next, until it comes to one who has room.

    Only needed where one with room has a role already in all that one with too much could give it. `role` knows standbys alone.
    """
    task, process = np.nonzero((posts.want > 0)[:, None] & (np.arange(len(standing.room)) != posts.active[:, None]))
    far = ~standing.role
    far[had.task, had.process] &= had.rank > HAS
    edges = Edges(task + len(standing.room), process, far[task, process].astype(np.int64))
    balance = np.concatenate((-standing.room, np.zeros(len(posts.want), np.int64)))
    standing.role[task, process] = settled(edges, standing.role[task, process], balance)
