"""Who should stand by for whom: each task the wanted number of standbys, on processes that have no other role in it.

Where tags are told apart (KIP-708), `tags.py` says first how many standbys of a task go to processes of which tags; the processes
with the same tags then share these among themselves as `posts.py` says.
"""

import numpy as np

from apportion.streams.assignor.balance import Loads, rank_within_group
from apportion.streams.assignor.client_states import Ints
from apportion.streams.assignor.client_tags import standbys_per_tag_set, tag_sets_of
from apportion.streams.assignor.ranked_clients import AssignmentProblem
from apportion.streams.assignor.standby_balance import StandbyProblem, balance_standbys


def plan_standby_tasks(group: AssignmentProblem, active: Ints) -> Ints:
    """The processes that should stand by for each task, tasks x standbys; -1 at the end of a row that has fewer.

    active: who should run each task; -1: a task that does not count.
    """
    tasks, crew, policy, had = group
    processes = len(crew.consumer_counts)
    wide = max(min(policy.num_standby_replicas, processes - 1), 0)
    places = np.full((len(active), wide), -1, np.int32)
    wanting = np.flatnonzero(tasks.stateful)
    if not wide or not len(wanting):
        return places
    kinds = tag_sets_of(crew.tags, policy.rack_aware_tags)
    loads = Loads(np.bincount(active[active >= 0], minlength=processes), crew.consumer_counts)
    want = np.zeros((len(active), len(kinds.tag_values)), np.int64)
    want[wanting] = standbys_per_tag_set(kinds, loads, active[wanting], wide)
    found = []
    for kind in range(len(kinds.tag_values)):
        members = np.flatnonzero(kinds.tag_set_of == kind)
        number = np.full(processes + 1, -1, np.int32)  # the last answers for -1
        number[members] = np.arange(len(members))
        rows = had.where((number[had.process] >= 0) & (want[had.task, kind] > 0))
        posts = StandbyProblem(
            want[:, kind], number[active], tasks.end_offset_sum, Loads(loads.fixed[members], crew.consumer_counts[members])
        )
        task, process = balance_standbys(posts, rows._replace(process=number[rows.process]))
        found.append(np.stack((task, members[process])))
    task, process = np.concatenate(found, axis=1)
    order = np.lexsort((process, task))
    places[task[order], rank_within_group(task[order])] = process[order]
    return places
