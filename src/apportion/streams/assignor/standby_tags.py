"""Who should stand by for whom: each task the wanted number of standbys, on processes that have no other role in it.

Where tags are told apart (KIP-708), `tags.py` says first how many standbys of a task go to processes of which tags; the processes
with the same tags then share these among themselves as `posts.py` says.
"""

import numpy as np

from apportion.streams.assignor.balance import Loads, rank_in
from apportion.streams.assignor.client_states import Ints
from apportion.streams.assignor.client_tags import kinds_of, wanted_of_kinds
from apportion.streams.assignor.standby_balance import Posts, posted
from apportion.streams.assignor.task_lags import Group


def standbys(group: Group, active: Ints) -> Ints:
    """The processes that should stand by for each task, tasks x standbys; -1 at the end of a row that has fewer.

    active: who should run each task; -1: a task that does not count.
    """
    tasks, crew, policy, had = group
    processes = len(crew.consumers)
    wide = max(min(policy.standbys, processes - 1), 0)
    places = np.full((len(active), wide), -1, np.int32)
    wanting = np.flatnonzero(tasks.stateful)
    if not wide or not len(wanting):
        return places
    kinds = kinds_of(crew.tags, policy.tags)
    loads = Loads(np.bincount(active[active >= 0], minlength=processes), crew.consumers)
    want = np.zeros((len(active), len(kinds.values)), np.int64)
    want[wanting] = wanted_of_kinds(kinds, loads, active[wanting], wide)
    found = []
    for kind in range(len(kinds.values)):
        members = np.flatnonzero(kinds.kind == kind)
        number = np.full(processes + 1, -1, np.int32)  # the last answers for -1
        number[members] = np.arange(len(members))
        rows = had.where((number[had.process] >= 0) & (want[had.task, kind] > 0))
        posts = Posts(want[:, kind], number[active], tasks.end, Loads(loads.base[members], crew.consumers[members]))
        task, process = posted(posts, rows._replace(process=number[rows.process]))
        found.append(np.stack((task, members[process])))
    task, process = np.concatenate(found, axis=1)
    order = np.lexsort((process, task))
    places[task[order], rank_in(task[order])] = process[order]
    return places
