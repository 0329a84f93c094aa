"""Plans standby tasks: `num.standby.replicas` of each stateful task, on distinct clients.

With `rack.aware.assignment.tags` (KIP-708), `client_tags.py` first says how many standbys of a task
go to clients of which tags; the clients with the same tags then share them by `standby_balance.py`.
"""

import numpy as np

from apportion.streams.task_assignment.balance import Loads, rank_within_group
from apportion.streams.task_assignment.client_states import Ints
from apportion.streams.task_assignment.client_tags import standbys_per_tag_set, tag_sets_of
from apportion.streams.task_assignment.ranked_clients import AssignmentProblem
from apportion.streams.task_assignment.standby_balance import StandbyProblem, balance_standbys


def plan_standby_tasks(problem: AssignmentProblem, active: Ints) -> Ints:
    """Return the Streams clients that should have the standbys of each task, as a matrix.

    Rows: tasks, the shorter ones end in -1; columns: standbys. active: the planned client of each
    task; -1 for a task that is not planned.
    """
    tasks, clients, configs, ranked = problem
    client_count = len(clients.consumer_counts)
    # As in Kafka, a task cannot have more copies than there are other clients.
    replicas = max(min(configs.num_standby_replicas, client_count - 1), 0)
    standby = np.full((len(active), replicas), -1, np.int32)
    stateful = np.flatnonzero(tasks.stateful)
    # Stateless tasks have nothing to keep a copy of.
    if not replicas or not len(stateful):
        return standby
    tag_sets = tag_sets_of(clients.tags, configs.rack_aware_tags)
    loads = Loads(np.bincount(active[active >= 0], minlength=client_count), clients.consumer_counts)
    standby_counts = np.zeros((len(active), len(tag_sets.tag_values)), np.int64)
    standby_counts[stateful] = standbys_per_tag_set(tag_sets, loads, active[stateful], replicas)
    # The tag sets are independent now: each has its own clients and its own number of standbys.
    pairs = []
    for tag_set in range(len(tag_sets.tag_values)):
        members = np.flatnonzero(tag_sets.tag_set_of == tag_set)
        # Clients are renumbered within their tag set; all others become -1, and so does client -1.
        number_of = np.full(client_count + 1, -1, np.int32)
        number_of[members] = np.arange(len(members))
        rows = ranked.where(
            (number_of[ranked.process] >= 0) & (standby_counts[ranked.task, tag_set] > 0)
        )
        own_loads = Loads(loads.fixed[members], clients.consumer_counts[members])
        part = StandbyProblem(
            standby_counts[:, tag_set], number_of[active], tasks.end_offset_sum, own_loads
        )
        task, process = balance_standbys(part, rows._replace(process=number_of[rows.process]))
        pairs.append(np.stack((task, members[process])))
    task, process = np.concatenate(pairs, axis=1)
    order = np.lexsort((process, task))
    standby[task[order], rank_within_group(task[order])] = process[order]
    return standby
