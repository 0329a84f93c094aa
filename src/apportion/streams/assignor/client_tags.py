"""Which tags the standbys of a task should have: other ones than its owner and than each other, in as many dimensions as can be.

A dimension of which all values are taken tells nothing apart any more, and the others decide alone (KIP-708).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from apportion.streams.assignor.balance import SCALE, Loads
from apportion.streams.assignor.client_states import Ints, Longs


class TagSets(NamedTuple):
    """Processes that have the same tags are of one kind.

    kind: of each process. values: kinds x dimensions, a number for each value of a tag. A process without the tag (-1) differs from
    all others in it.
    """

    tag_set_of: Ints
    tag_values: Ints


def tag_sets_of(tags: Sequence[Mapping[str, str]], dimensions: Sequence[str]) -> TagSets:
    """The processes told apart by these tags and no others."""
    seen: dict[tuple[str | None, ...], int] = {}
    kind = [seen.setdefault(tuple(each.get(name) for name in dimensions), len(seen)) for each in tags]
    numbers: list[dict[str | None, int]] = [{None: -1} for _ in dimensions]
    values = [[numbers[at].setdefault(value, len(numbers[at]) - 1) for at, value in enumerate(each)] for each in seen]
    return TagSets(np.array(kind, np.int32), np.array(values, np.int32).reshape(len(seen), len(dimensions)))


def standbys_per_tag_set(kinds: TagSets, loads: Loads, active: Ints, wanted: int) -> Longs:
    """How many standbys each task should have on processes of each kind: tasks x kinds, `wanted` in each row.

    active: the process that should run each task. Each standby goes to the kind of the process with the least load for each
    consumer, of those that differ in the most dimensions and have no role in the task. Tasks with few such processes choose first.
    """
    many = len(kinds.tag_values)
    if many == 1:
        return np.full((len(active), 1), wanted, np.int64)
    differs = ((kinds.tag_values[:, None] != kinds.tag_values) | (kinds.tag_values[:, None] < 0))[kinds.tag_set_of]
    consumers = loads.consumer_counts.astype(np.int64)
    load = loads.fixed * SCALE // consumers
    more = SCALE // consumers
    want = np.zeros((len(active), many), np.int64)
    differences = differs.sum(2)
    choices = (differences == differences.max(0)).sum(0)
    for task in np.argsort(choices[kinds.tag_set_of[active]], kind="stable").tolist():
        owner = int(active[task])
        apart = differs[:, kinds.tag_set_of[owner]].copy()
        taken = [owner]
        for _ in range(wanted):
            difference = apart.sum(1)
            difference[taken] = -1
            best = np.flatnonzero(difference == difference.max())
            chosen = int(best[np.argmin(load[best])])
            load[chosen] += more[chosen]
            taken.append(chosen)
            want[task, kinds.tag_set_of[chosen]] += 1
            apart &= differs[:, kinds.tag_set_of[chosen]]
    return want
