"""The tasks of one client, assigned to its consumers (stream threads).

Stateful tasks go first, to the consumers that have them open, so that state stores need not be
closed and reopened; then standby tasks, which count as much; stateless tasks come last and even out
the loads, as in Kafka Streams. Consumers end within one task of each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class ProcessTasks(NamedTuple):
    """The tasks of a client, by number, each kind in ascending order.

    previous: the tasks each consumer had before, the most complete first; a consumer without any
    may be left out.
    """

    stateful: Sequence[int]
    standby: Sequence[int]
    stateless: Sequence[int]
    previous: Mapping[str, Sequence[int]]


class ThreadTasks(NamedTuple):
    """The tasks of one consumer, by number, in ascending order."""

    active: tuple[int, ...]
    standby: tuple[int, ...]


def assign_tasks_to_threads(
    consumers: Sequence[str], tasks: ProcessTasks
) -> dict[str, ThreadTasks]:
    """Return the tasks of each consumer (stream thread) of one Streams process.

    consumers: member ids in ascending order, at least one.
    """
    loads = dict.fromkeys(consumers, 0)
    # The order matters: each kind evens out the loads that the kinds before it left.
    stateful = _assign_evenly(tasks.stateful, tasks.previous, loads)
    standby = _assign_evenly(tasks.standby, tasks.previous, loads)
    # A stateless task has nothing to close, so its previous consumer does not matter.
    stateless = _assign_evenly(tasks.stateless, {}, loads)
    return {
        consumer: ThreadTasks(
            tuple(sorted((*stateful[consumer], *stateless[consumer]))),
            tuple(sorted(standby[consumer])),
        )
        for consumer in consumers
    }


def _assign_evenly(
    tasks: Iterable[int], previous: Mapping[str, Sequence[int]], loads: dict[str, int]
) -> dict[str, list[int]]:
    """Assign tasks of one Streams process to its consumers and add them to `loads`.

    A consumer keeps its previous tasks up to an even load. Each task that is left goes to a least
    loaded consumer, and among those to its previous one.
    """
    assigned: dict[str, list[int]] = {consumer: [] for consumer in loads}
    left = dict.fromkeys(tasks)
    # Rounded down, so that the previous tasks of one consumer cannot make another one fall behind.
    even_load = (sum(loads.values()) + len(left)) // len(loads)

    def assign(task: int, consumer: str) -> None:
        del left[task]
        assigned[consumer].append(task)
        loads[consumer] += 1

    for consumer in loads:
        for task in previous.get(consumer, ()):
            if task in left and loads[consumer] < even_load:
                assign(task, consumer)
    owners = {
        task: consumer for consumer in loads for task in previous.get(consumer, ()) if task in left
    }
    for task in tuple(left):
        least = min(loads.values())
        owner = owners.get(task)
        assign(
            task,
            owner
            if owner is not None and loads[owner] == least
            else min(loads, key=loads.__getitem__),
        )
    return assigned
