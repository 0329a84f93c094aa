"""Plans active tasks: evenly over consumers, and with as few changes of owner as evenness allows.

Problem. Clients have different numbers of consumers and already run tasks. Every client should get
a number of tasks in proportion to its consumers, the tasks of each subtopology should be spread
likewise, and as few tasks as possible should move.

Method, in three steps:
1. `balanced_counts`: how many tasks each client gets. Fill all clients to a common level of load
   per consumer, found by bisection ("water filling"); the last tasks go to clients at the same
   level, first to those that have more today.
2. `counts_by_subtopology`: how many of each subtopology. Each cell (subtopology, client) is its
   exact proportion, rounded down or up; which cells round up is a controlled rounding of a matrix
   with given row and column sums, solved as a min-cost flow (`flow.py`) whose cost is the tasks
   that must leave.
3. `assign_owners`: which tasks. First tasks move to clients with spare room that have state of
   them, best rank first; then each client gives up what it still has too much, the smallest
   changelogs first; the tasks without an owner go round the clients with room.

Why a group comes to rest: how many tasks move depends on the current owners alone, not on who has
state; so each task that arrives where it is planned leaves one movement less.

Cost: bisection and sorting, O((T + C) log T), plus the flow over subtopologies x clients.

Example. Clients A and B, one consumer each; A runs 0_0 to 0_3 and B has a standby of 0_3. The
counts are 2 and 2. 0_3 goes to B, which has its state; of 0_0 to 0_2 the one with the smallest
changelog follows.

The plan knows owners and ranks; whether the planned client is caught up is left to
`task_movements.py`.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.task_assignment.client_states import Bools, Ints, Longs
from apportion.streams.task_assignment.flow import Edges, min_cost_rebalance
from apportion.streams.task_assignment.ranked_clients import (
    RANK_NONE,
    RANK_RUNNING,
    AssignmentProblem,
    RankedClients,
    best_clients,
)

SCALE = 1 << 20
"""Loads per consumer are integers in units of one task / SCALE, so that ties are exact."""


class Loads(NamedTuple):
    """The load of each client before tasks are added.

    fixed: its tasks that stay. max_extra: the most tasks that it may get in addition.
    """

    fixed: Longs
    consumer_counts: Ints
    max_extra: Longs | int = 1 << 40


def balanced_counts(loads: Loads, amount: int, *current: Longs) -> Longs:
    """Return how many of `amount` Streams tasks each client gets, for equal loads per consumer.

    For active tasks and for standbys. Between clients with the same claim to the last tasks, those
    come first that have more than their count today, in most of the vectors `current`. An excess
    over `max_extra` of all clients is left out.
    """
    weight = loads.consumer_counts.astype(np.int64)

    def counts_at(level: int) -> Longs:
        """Return the task count that each client reaches at this load per consumer."""
        # Half a task is rounded up: a client reaches n tasks at the level (n - 1/2) / weight.
        counts: Longs = np.clip(
            (2 * weight * level // SCALE + 1) // 2 - loads.fixed, 0, loads.max_extra
        )
        return counts

    # The bisection below needs an amount that the clients can take, or it would not end with an
    # upper bound.
    amount = min(amount, int(np.sum(np.minimum(loads.max_extra, amount))))
    low, high = 0, 2 * SCALE * (int(loads.fixed.max()) + amount + 1)
    # Invariant: counts_at(low) does not exceed the amount, counts_at(high) does.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if counts_at(middle).sum() <= amount else (low, middle)
    counts = counts_at(low)
    # The last tasks go to clients that reach the next level at once, one each. A client that has
    # more today comes first, because it would lose a task otherwise.
    tied = np.flatnonzero(counts_at(high) > counts)
    has_more = np.sum([tasks > counts for tasks in current], axis=0)[tied]
    keepers_first = tied[np.argsort(-has_more, kind="stable")]
    counts[keepers_first[: amount - int(counts.sum())]] += 1
    return counts


class CurrentTasks(NamedTuple):
    """The tasks to plan and their current owners.

    subtopology: numbered from 0. owner: the client a task belongs to today, -1 for none.
    is_running: the owner runs it. move_cost: what must be restored to move it.
    """

    subtopology: Ints
    owner: Ints
    is_running: Bools
    move_cost: Longs


def assign_owners(tasks: CurrentTasks, totals: Longs, ranked: RankedClients) -> Ints:
    """Return the Streams client that should run each active task: client c runs `totals[c]` tasks.

    Each subtopology is spread in proportion, and as few tasks move as these counts allow. Tasks
    move first to clients with state of them (tasks that run nowhere before others, then by rank);
    of the rest those with the least `move_cost`.
    """
    if not len(tasks.owner):
        return tasks.owner
    clients = len(totals)
    owned = np.flatnonzero(tasks.owner >= 0)
    cell = tasks.subtopology.astype(np.int64) * clients + tasks.owner
    sizes = np.bincount(tasks.subtopology)
    owned_counts, running_counts = (
        np.bincount(cell[rows], minlength=len(sizes) * clients).reshape(-1, clients)
        for rows in (owned, tasks.is_running)
    )
    # spare: subtopologies x clients; above 0 a client may take so many more, below 0 it has too
    # many.
    spare = counts_by_subtopology(sizes, totals, owned_counts, running_counts) - owned_counts
    owner = move_to_candidates(tasks, spare, ranked)
    # A client gives up only what it has too much after the moves: tasks that it does not run yet
    # before running ones, and the cheapest to restore first.
    staying = owned[owner[owned] == tasks.owner[owned]]
    by_cell = staying[
        np.lexsort((tasks.move_cost[staying], tasks.is_running[staying], cell[staying]))
    ]
    is_excess = rank_within_group(cell[by_cell]) < -spare.ravel()[cell[by_cell]]
    owner[by_cell[is_excess]] = -1
    return fill_round_robin(tasks.subtopology, owner, np.maximum(spare, 0))


def counts_by_subtopology(sizes: Longs, totals: Longs, *current: Longs) -> Longs:
    """Return how many active tasks of each subtopology each Streams client runs, as a matrix.

    Rows: subtopologies; columns: clients. sizes, totals: the row and column sums. Each entry is the
    client's exact proportion rounded down or up, so that as many tasks as possible stay: `current`
    counts the tasks that are there today.
    """
    # Totals that differ by one at most ask for equal proportions; that can always be rounded to
    # them.
    weight = totals if totals.max() - totals.min() > 1 else np.ones_like(totals)
    exact = sizes[:, None] * weight
    denominator = max(int(weight.sum()), 1)
    counts: Longs = exact // denominator
    row, client = np.nonzero(exact % denominator)
    if len(row):
        # Rounding an entry up is free where a task more is there today.
        cost = np.stack([tasks <= counts for tasks in current]).sum(0, dtype=np.int64)[row, client]
        edges = Edges(row.astype(np.int32), (client + len(sizes)).astype(np.int32), cost)
        balance = np.concatenate((sizes - counts.sum(1), counts.sum(0) - totals))
        is_up = min_cost_rebalance(edges, np.zeros(len(row), np.bool_), balance)
        counts[row[is_up], client[is_up]] += 1
    return counts


def move_to_candidates(tasks: CurrentTasks, spare: Longs, ranked: RankedClients) -> Ints:
    """Move Streams tasks to clients with spare room and state of them; return the new owners.

    `spare` is updated. No client loses more than its excess. Greedy by rank: each row of `ranked`
    is visited once.
    """
    owner = tasks.owner.copy()
    subtopology, current = tasks.subtopology[ranked.task], tasks.owner[ranked.task]
    may_take = np.flatnonzero(
        (spare[subtopology, ranked.process] > 0)
        & ((current < 0) | (spare[subtopology, current] < 0))
    )
    # Tasks that run nowhere come first: until they are placed they make no progress at all.
    by_rank = may_take[np.lexsort((ranked.rank[may_take], tasks.is_running[ranked.task[may_take]]))]
    for row in by_rank.tolist():
        task, client = ranked.task[row], ranked.process[row]
        part, before = tasks.subtopology[task], tasks.owner[task]
        if (
            owner[task] == before
            and spare[part, client] > 0
            and (before < 0 or spare[part, before] < 0)
        ):
            owner[task] = client
            spare[part, client] -= 1
            spare[part, before] += before >= 0
    return owner


def fill_round_robin(subtopology: Ints, owner: Ints, spare: Longs) -> Ints:
    """Give each unowned Streams task to a client with spare room, to all clients in turn."""
    unowned = np.flatnonzero(owner < 0)
    unowned = unowned[np.argsort(subtopology[unowned], kind="stable")]
    part, client = np.nonzero(spare)
    count = spare[part, client]
    part, client = np.repeat(part, count), np.repeat(client, count)
    # One task to each client before a second one to any, so that the tasks of a subtopology spread
    # out.
    in_turn = np.lexsort((client, rank_within_group(part * spare.shape[1] + client), part))
    owner[unowned] = client[in_turn]
    return owner


def rank_within_group(group: Ints | Longs) -> Longs:
    """Return the position of each element among those of its group, from 0.

    A helper of Streams task assignment, where a group is a task or a client. group: ascending
    numbers from -1.
    """
    start = np.flatnonzero(np.diff(group, prepend=-2))
    length = np.diff(np.append(start, len(group)))
    rank: Longs = np.arange(len(group)) - np.repeat(start, length)
    return rank


def plan_active_tasks(
    problem: AssignmentProblem, chosen: Bools, load: Longs, *, home_rank: int = RANK_NONE
) -> Ints:
    """Return the Streams client that should run each `chosen` active task, -1 for the others.

    Each of the three task assignors begins with it. load: how many other tasks each client runs.
    home_rank: the best client of a task counts as its current owner up to this rank: RANK_RUNNING
    for the client that runs it, RANK_NONE for any with state.
    """
    tasks = problem.tasks
    numbers = np.flatnonzero(chosen)
    number_of = np.full(len(chosen), -1, np.int32)
    number_of[numbers] = np.arange(len(numbers))
    ranked = problem.ranked.where(chosen[problem.ranked.task])
    ranked = ranked._replace(task=number_of[ranked.task])
    owner, rank = best_clients(ranked.where(ranked.rank <= home_rank), len(numbers))
    is_running = rank == RANK_RUNNING
    current = (np.bincount(owner[rows], minlength=len(load)) for rows in (owner >= 0, is_running))
    # Owners count twice, as such and as running: a client that runs its tasks keeps the last ones
    # rather than a client that would have to restore them.
    totals = balanced_counts(Loads(load, problem.clients.consumer_counts), len(numbers), *current)
    subtopology = np.unique(tasks.subtopology[numbers], return_inverse=True)[1].astype(np.int32)
    current_tasks = CurrentTasks(subtopology, owner, is_running, tasks.end_offset_sum[numbers])
    planned = np.full(len(chosen), -1, np.int32)
    planned[numbers] = assign_owners(current_tasks, totals, ranked)
    return planned
