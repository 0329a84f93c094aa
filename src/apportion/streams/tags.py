"""Which tags the standbys of a task should have: other ones than its owner and than each other, in as many dimensions as can be.

A dimension counts as long as the group has more values of it than the task has replicas already; then all its values are used and
it tells nothing apart any more (KIP-708).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from apportion.streams.balance import Loads
from apportion.streams.crew import Ints, Longs

SCALE = 1 << 20
"""Loads per consumer are compared in parts of this."""


class Kinds(NamedTuple):
    """Processes that have the same tags are of one kind.

    kind: of each process. values: kinds x dimensions, a number for each value of a tag. A process without the tag (-1) differs from
    all others in it.
    """

    kind: Ints
    values: Ints


def kinds_of(tags: Sequence[Mapping[str, str]], dimensions: Sequence[str]) -> Kinds:
    """The processes told apart by these tags and no others."""
    seen: dict[tuple[str | None, ...], int] = {}
    kind = [seen.setdefault(tuple(each.get(name) for name in dimensions), len(seen)) for each in tags]
    numbers: list[dict[str | None, int]] = [{None: -1} for _ in dimensions]
    values = [[numbers[at].setdefault(value, len(numbers[at]) - 1) for at, value in enumerate(each)] for each in seen]
    return Kinds(np.array(kind, np.int32), np.array(values, np.int32).reshape(len(seen), len(dimensions)))


def wanted_of_kinds(kinds: Kinds, loads: Loads, active: Ints, wanted: int) -> Longs:
    """How many standbys each task should have on processes of each kind: tasks x kinds, `wanted` in each row.

    active: the process that should run each task. Of the kinds that differ in the most dimensions, the one with the least load for
    each consumer; a process has one role in a task at the most.
    """
    many = len(kinds.values)
    if many == 1:
        return np.full((len(active), 1), wanted, np.int64)
    load, consumers, sizes = np.zeros((3, many), np.int64)
    np.add.at(load, kinds.kind, loads.base)
    np.add.at(consumers, kinds.kind, loads.consumers)
    np.add.at(sizes, kinds.kind, 1)
    differs = (kinds.values[:, None] != kinds.values) | (kinds.values[:, None] < 0)
    distinct = np.array([len(np.unique(column[column >= 0])) for column in kinds.values.T])
    want = np.zeros((len(active), many), np.int64)
    for task, first in enumerate(kinds.kind[active].tolist()):
        left = sizes.copy()
        left[first] -= 1
        apart = differs[first].copy()
        for replicas in range(1, wanted + 1):
            agreement = np.where(left > 0, (apart & (distinct > replicas)).sum(1), -1)
            best = np.flatnonzero(agreement == agreement.max())
            chosen = best[np.argmin(load[best] * SCALE // consumers[best])]
            want[task, chosen] += 1
            left[chosen] -= 1
            load[chosen] += 1
            apart &= differs[chosen]
    return want
