"""Balances standby replicas over the clients of one tag set, on clients with state where possible.

Problem. Each task wants some standbys, on different clients, none of which runs the task. The load
of a client is its active tasks plus its standbys, for each of its consumers. Find counts that are
as even as possible, and fill them so that as few standbys as possible must be restored.

Method. Start from what is caught up and repair:
1. `keep_caught_up`: the standbys that are caught up stay, and `balanced_counts` says how many
   standbys each client may have. Where a task has more caught-up clients than it wants standbys, a
   min-cost flow (`flow.py`) chooses those that fit the counts.
2. Repeat until every released standby came back (or none was released):
   `release_excess`: a client above its count gives up standbys, first those that others have
   started to restore, then those with the smallest changelog;
   `assign_to_candidates`: clients with room take tasks of which they have state, best rank first;
   `place_new`: the rest goes round the clients with room; where a client has a role in the task
   already, two placements are swapped (`swap_conflict`);
   `restore_released`: what nobody took goes back to the client that gave it up.
3. `overfill`: a task that still lacks standbys takes the least loaded client, beyond its count.
4. `rebalance_along_chains`: if some client is above and another below its count, min-cost flow
   moves standbys along chains (A passes one to B, B another one to C), because C has a role in all
   that A has.

Why it ends: step 2 goes on only while a client with room has taken a released standby. Clients
above their count take none, so the total excess has shrunk then. Why a group comes to rest: as many
caught-up standbys stay as fit the counts, so each new standby that has caught up leaves less to
move. Cost: sorting and small loops over moved standbys; the flow runs in rare cases only.

Example. A, B, C run one task each (0, 1, 2), one standby each, nothing restored yet. Counts: one
each. `place_new` goes round: task 0 to B, task 1 to C, task 2 to A.
"""

from typing import NamedTuple

import numpy as np

from apportion.streams.task_assignment.balance import (
    SCALE,
    Loads,
    balanced_counts,
    rank_within_group,
)
from apportion.streams.task_assignment.client_states import Bools, Ints, Longs
from apportion.streams.task_assignment.flow import Edges, min_cost_rebalance
from apportion.streams.task_assignment.ranked_clients import (
    RANK_CAUGHT_UP,
    RANK_NONE,
    RANK_RUNNING,
    RankedClients,
)

ROTATIONS = 8
"""How many rotations of clients against tasks `round_robin_pairs` tries."""


class StandbyProblem(NamedTuple):
    """The standbys to place on the clients of one tag set, numbered from 0.

    standby_counts: how many standbys each task needs here. active: the client that runs each task,
    -1 for one of another tag set. end_offset_sum: the size of each task's changelogs. loads: the
    active tasks of each client.
    """

    standby_counts: Longs
    active: Ints
    end_offset_sum: Longs
    loads: Loads


class StandbyAssignment(NamedTuple):
    """The standbys so far; the arrays change in place.

    has_role: tasks x clients, True where the client runs the task or stands by for it.
    missing: how many standbys each task still lacks. spare: how many each client may still take,
    below 0 how many it has too many.
    """

    has_role: Bools
    missing: Longs
    spare: Longs

    def add(self, task: Ints | Longs, process: Ints | Longs, change: int = 1) -> None:
        """Add Streams standbys of `task[i]` on `process[i]`; remove them with a change of -1."""
        self.has_role[task, process] = change > 0
        np.subtract.at(self.missing, task, change)
        np.subtract.at(self.spare, process, change)


def balance_standbys(problem: StandbyProblem, ranked: RankedClients) -> tuple[Longs, Longs]:
    """Return the Streams standbys of one tag set as two columns, task and client.

    For `num.standby.replicas`. ranked: the clients with state of the tasks that want standbys.
    """
    running = np.flatnonzero(problem.active >= 0)
    has_role = np.zeros((len(problem.standby_counts), len(problem.loads.fixed)), np.bool_)
    has_role[running, problem.active[running]] = True
    ranked = ranked.where(~has_role[ranked.task, ranked.process])
    # Standbys that are caught up come first: whatever else the plan wants must be restored.
    kept, counts = keep_caught_up(problem, ranked.where(ranked.rank <= RANK_CAUGHT_UP))
    assignment = StandbyAssignment(has_role, problem.standby_counts.copy(), counts.copy())
    assignment.add(kept.task, kept.process)
    # Goes on while a released standby has found another client: that may have made room for more.
    is_moving = True
    while is_moving:
        released = release_excess(problem, assignment, kept, ranked)
        assign_to_candidates(assignment, ranked)
        place_new(problem, assignment)
        is_moving = restore_released(assignment, released) < len(released.task)
    overfill(problem, assignment, counts)
    # From here on `has_role` means standbys only: the flow may neither use nor drop active tasks.
    has_role[running, problem.active[running]] = False
    if (assignment.spare < 0).any() and (assignment.spare > 0).any():
        rebalance_along_chains(problem, assignment, ranked)
    task, process = np.nonzero(has_role)
    return task, process


def keep_caught_up(
    problem: StandbyProblem, caught_up: RankedClients
) -> tuple[RankedClients, Longs]:
    """Return the caught-up Streams clients that stay standbys, and each client's standby count.

    A client may keep more than its count; `release_excess` corrects that. A client that was a
    standby goes before one that runs the task today and is to lose it.
    """
    order = np.lexsort(
        (caught_up.process, caught_up.lag, caught_up.rank == RANK_RUNNING, caught_up.task)
    )
    caught_up = caught_up.where(order)
    is_kept = rank_within_group(caught_up.task) < problem.standby_counts[caught_up.task]
    fixed = problem.loads.fixed
    kept_counts = np.bincount(caught_up.process[is_kept], minlength=len(fixed))
    # A client cannot stand by for the tasks that it runs.
    running = np.bincount(
        problem.active[(problem.active >= 0) & (problem.standby_counts > 0)], minlength=len(fixed)
    )
    loads = Loads(
        fixed, problem.loads.consumer_counts, np.count_nonzero(problem.standby_counts) - running
    )
    counts = balanced_counts(loads, int(problem.standby_counts.sum()), kept_counts)
    # Only tasks with more caught-up clients than standbys leave a choice; the flow makes it.
    is_contested = (
        np.bincount(caught_up.task, minlength=len(problem.standby_counts)) > problem.standby_counts
    )
    rows = np.flatnonzero(is_contested[caught_up.task])
    if len(rows) and (kept_counts > counts).any():
        edges = Edges(
            caught_up.task[rows] + len(fixed),
            caught_up.process[rows],
            np.zeros(len(rows), np.int64),
        )
        balance = np.concatenate(
            (kept_counts - counts, np.zeros(len(problem.standby_counts), np.int64))
        )
        is_kept[rows] = min_cost_rebalance(edges, is_kept[rows], balance)
    return caught_up.where(is_kept), counts


def release_excess(
    problem: StandbyProblem,
    assignment: StandbyAssignment,
    kept: RankedClients,
    ranked: RankedClients,
) -> RankedClients:
    """Take Streams standbys from clients above their count and return them.

    First go those of which a client with room has the best rank, then those with the smallest
    changelog.
    """
    is_over, is_under = assignment.spare < 0, assignment.spare > 0
    rows = kept.where(is_over[kept.process] & assignment.has_role[kept.task, kept.process])
    best_elsewhere = np.full(len(problem.standby_counts), RANK_NONE)
    others = ranked.where(
        is_under[ranked.process] & ~assignment.has_role[ranked.task, ranked.process]
    )
    np.minimum.at(best_elsewhere, others.task, others.rank)
    # A task in which every client with room has a role already cannot move.
    rows = rows.where(~np.all(assignment.has_role[rows.task][:, is_under], axis=1))
    rows = rows.where(
        np.lexsort(
            (rows.task, problem.end_offset_sum[rows.task], best_elsewhere[rows.task], rows.process)
        )
    )
    rows = rows.where(rank_within_group(rows.process) < -assignment.spare[rows.process])
    assignment.add(rows.task, rows.process, -1)
    return rows


def assign_to_candidates(assignment: StandbyAssignment, ranked: RankedClients) -> None:
    """Place Streams standbys on clients with room and state of the task, best rank first."""
    rows = ranked.where(
        (assignment.missing[ranked.task] > 0) & (assignment.spare[ranked.process] > 0)
    )
    for row in np.argsort(rows.rank, kind="stable"):
        task, process = rows.task[row : row + 1], rows.process[row : row + 1]
        if (
            assignment.missing[task] > 0
            and assignment.spare[process] > 0
            and not assignment.has_role[task, process]
        ):
            assignment.add(task, process)


def restore_released(assignment: StandbyAssignment, released: RankedClients) -> int:
    """Give back the released Streams standbys that are still missing; return their number."""
    # Two clients may have released the same task, and one standby of it was enough: so the loop
    # checks again what is missing.
    returned = [
        row for row in range(len(released.task)) if assignment.missing[released.task[row]] > 0
    ]
    for row in returned:
        if assignment.missing[released.task[row]] > 0:
            assignment.add(released.task[row : row + 1], released.process[row : row + 1])
    return len(returned)


def place_new(problem: StandbyProblem, assignment: StandbyAssignment) -> None:
    """Place missing Streams standbys on clients with room, one of each task in a round."""
    placed = np.empty((0, 2), np.int64)
    left = -1
    # In rounds, so that no task gets its second standby before another has its first.
    while left != (left := int(assignment.missing.sum())) and (assignment.spare > 0).any():
        pairs = round_robin_pairs(problem, assignment)
        is_conflict = assignment.has_role[pairs[:, 0], pairs[:, 1]]
        placed = np.concatenate((placed, pairs[~is_conflict]))
        assignment.add(*pairs[~is_conflict].T)
        swapped = [swap_conflict(assignment, placed, pair) for pair in pairs[is_conflict]]
        placed = np.concatenate((placed, *swapped))


def round_robin_pairs(problem: StandbyProblem, assignment: StandbyAssignment) -> Longs:
    """Return rows (task, client) of new Streams standbys: one for each task that lacks a standby.

    There are fewer where room is lacking. The tasks of one client go to all others in turn, so that
    no single client takes over everything when that one fails. Of several rotations the one with
    the fewest role conflicts is returned: a client may have one role in a task, active or standby.
    """
    processes = len(assignment.spare)
    task = np.flatnonzero(assignment.missing > 0)
    task = task[np.argsort(problem.active[task], kind="stable")]
    task = task[np.argsort(rank_within_group(problem.active[task]), kind="stable")]
    process = np.repeat(np.arange(processes), np.maximum(assignment.spare, 0))
    # Each turn rotates the clients further, so that the standbys of one active client spread over
    # all others.
    turn = rank_within_group(process)
    best, fewest = np.empty((0, 2), np.int64), len(task) + 1
    for shift in range(1, min(ROTATIONS, processes) + 1):
        order = np.lexsort(((process - turn % max(processes - 1, 1) - shift) % processes, turn))[
            : len(task)
        ]
        pairs = np.stack((task[: len(order)], process[order]), axis=1)
        conflicts = int(assignment.has_role[pairs[:, 0], pairs[:, 1]].sum())
        if conflicts < fewest:
            best, fewest = pairs, conflicts
        if not fewest:
            break
    return best


def swap_conflict(assignment: StandbyAssignment, placed: Longs, pair: Longs) -> Longs:
    """Place a Streams standby whose proposed client has a role in its task, by a swap.

    The proposed client takes the task of a row of `placed`, and the row's client takes the task of
    `pair`. Returns the new row (task, client), or none where no swap is possible. `placed` changes
    in place.
    """
    task, process = pair
    candidates = np.flatnonzero(
        ~assignment.has_role[task, placed[:, 1]] & ~assignment.has_role[placed[:, 0], process]
    )
    if not len(candidates):
        return placed[:0]
    other_task, other_process = placed[candidates[:1]].T
    assignment.add(other_task, other_process, -1)
    placed[candidates[0], 1] = process
    assignment.add(other_task, placed[candidates[:1], 1])
    assignment.add(pair[:1], other_process)
    return np.stack((pair[:1], other_process), axis=1)


def overfill(problem: StandbyProblem, assignment: StandbyAssignment, counts: Longs) -> None:
    """Place the Streams standbys still missing on the least loaded clients, beyond their counts.

    `num.standby.replicas` matters more than evenness.
    """
    for task in np.repeat(np.arange(len(assignment.missing)), assignment.missing).tolist():
        load = (
            (problem.loads.fixed + counts - assignment.spare)
            * SCALE
            // problem.loads.consumer_counts
        )
        # A standby beside another copy of its task would protect against nothing.
        process = np.argmin(np.where(assignment.has_role[task], RANK_NONE, load))
        if not assignment.has_role[task, process]:
            assignment.add(np.array([task]), np.array([process]))


def rebalance_along_chains(
    problem: StandbyProblem, assignment: StandbyAssignment, ranked: RankedClients
) -> None:
    """Pass Streams standbys along chains of clients, from those above their count to those below.

    Needed only where each client below has a role in every task that a client above could give it
    directly. A new standby costs 1 unless the client is caught up; the cheapest chains are used.
    `has_role` must know standbys only.
    """
    is_other = np.arange(len(assignment.spare)) != problem.active[:, None]
    task, process = np.nonzero((problem.standby_counts > 0)[:, None] & is_other)
    must_restore = ~assignment.has_role
    must_restore[ranked.task, ranked.process] &= ranked.rank > RANK_CAUGHT_UP
    edges = Edges(
        task + len(assignment.spare), process, must_restore[task, process].astype(np.int64)
    )
    balance = np.concatenate((-assignment.spare, np.zeros(len(problem.standby_counts), np.int64)))
    assignment.has_role[task, process] = min_cost_rebalance(
        edges, assignment.has_role[task, process], balance
    )
