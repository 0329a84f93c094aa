"""The tasks of one process, spread over its consumers (stream threads).

Tasks with state go first, to the consumers that have them open; then standby tasks, which count as much; tasks without state come
last and go wherever there is room. Consumers end within one task of each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class ProcessTasks(NamedTuple):
    """The tasks of a process, by number, each kind in order.

    had: what each consumer had of them, the most complete first; a consumer that is left out had nothing.
    """

    stateful: Sequence[int]
    standby: Sequence[int]
    stateless: Sequence[int]
    previous: Mapping[str, Sequence[int]]


class ThreadTasks(NamedTuple):
    """The tasks of one consumer, in order."""

    active: tuple[int, ...]
    standby: tuple[int, ...]


def assign_tasks_to_threads(consumers: Sequence[str], work: ProcessTasks) -> dict[str, ThreadTasks]:
    """What each consumer runs and keeps. consumers: in order, at least one."""
    loads = dict.fromkeys(consumers, 0)
    stateful = _assign_evenly(work.stateful, work.previous, loads)
    standby = _assign_evenly(work.standby, work.previous, loads)
    stateless = _assign_evenly(work.stateless, {}, loads)
    return {
        consumer: ThreadTasks(tuple(sorted((*stateful[consumer], *stateless[consumer]))), tuple(sorted(standby[consumer])))
        for consumer in consumers
    }


def _assign_evenly(tasks: Iterable[int], had: Mapping[str, Sequence[int]], loads: dict[str, int]) -> dict[str, list[int]]:
    """Everybody's share of these tasks; `loads` counts them from now on.

    Who had a task keeps it up to an even load. What is left goes round those with the least, to who had it if he is one of them.
    """
    shares: dict[str, list[int]] = {consumer: [] for consumer in loads}
    left = dict.fromkeys(tasks)
    even = (sum(loads.values()) + len(left)) // len(loads)

    def give(task: int, consumer: str) -> None:
        del left[task]
        shares[consumer].append(task)
        loads[consumer] += 1

    for consumer in loads:
        for task in had.get(consumer, ()):
            if task in left and loads[consumer] < even:
                give(task, consumer)
    owners = {task: consumer for consumer in loads for task in had.get(consumer, ()) if task in left}
    for task in tuple(left):
        least = min(loads.values())
        owner = owners.get(task)
        give(task, owner if owner is not None and loads[owner] == least else min(loads, key=loads.__getitem__))
    return shares
