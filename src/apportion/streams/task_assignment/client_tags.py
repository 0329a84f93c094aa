"""Rack-aware standbys by client tags (KIP-708): each on a client with tags unlike the others'.

`rack.aware.assignment.tags` names the tag keys ("dimensions") that count, say zone and cluster. A
standby goes to a client that differs in as many dimensions as possible from the client that runs
the task and from the task's other standbys. A dimension of which every value is taken no longer
tells clients apart, and the others decide.

Method: greedy, task by task, because KIP-708 asks for a best effort. Tasks with the fewest suitable
clients choose first, so that others do not take their only chance. Cost: tasks x standbys x
clients.

Example. Clients A (zone 1), B (zone 1), C (zone 2); A runs the task. One standby: C, the only one
in another zone. Two standbys: C, then B, because both zones are taken.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from apportion.streams.task_assignment.balance import SCALE, Loads
from apportion.streams.task_assignment.client_states import Ints, Longs


class TagSets(NamedTuple):
    """Clients grouped by the values of the tags that count.

    tag_set_of: the tag set of each client. tag_values: tag sets x dimensions, a number for each
    value. A client without a tag (-1) differs from all others in that dimension.
    """

    tag_set_of: Ints
    tag_values: Ints


def tag_sets_of(tags: Sequence[Mapping[str, str]], dimensions: Sequence[str]) -> TagSets:
    """Group Streams clients by the values of their tags named `dimensions`, as arrays (KIP-708).

    dimensions: `rack.aware.assignment.tags`. For the placement of standbys.
    """
    seen: dict[tuple[str | None, ...], int] = {}
    tag_set_of = [
        seen.setdefault(tuple(client.get(key) for key in dimensions), len(seen)) for client in tags
    ]
    numbers: list[dict[str | None, int]] = [{None: -1} for _ in dimensions]
    values = [
        [
            numbers[column].setdefault(value, len(numbers[column]) - 1)
            for column, value in enumerate(tag_set)
        ]
        for tag_set in seen
    ]
    return TagSets(
        np.array(tag_set_of, np.int32),
        np.array(values, np.int32).reshape(len(seen), len(dimensions)),
    )


def standbys_per_tag_set(tag_sets: TagSets, loads: Loads, active: Ints, replicas: int) -> Longs:
    """Return how many standbys each Streams task gets in each tag set, as a matrix (KIP-708).

    Rows: tasks, each with `replicas` in all; columns: tag sets. active: the client that should run
    each task. Among clients that differ in equally many dimensions the one with the least load per
    consumer is chosen.
    """
    count = len(tag_sets.tag_values)
    # Without tags, or with equal tags, KIP-708 changes nothing.
    if count == 1:
        return np.full((len(active), 1), replicas, np.int64)
    # differs: clients x tag sets x dimensions, True where the client has another value than the
    # set.
    differs = (
        (tag_sets.tag_values[:, None] != tag_sets.tag_values) | (tag_sets.tag_values[:, None] < 0)
    )[tag_sets.tag_set_of]
    consumers = loads.consumer_counts.astype(np.int64)
    load = loads.fixed * SCALE // consumers
    load_of_one = SCALE // consumers
    standby_counts = np.zeros((len(active), count), np.int64)
    differences = differs.sum(2)
    choices = (differences == differences.max(0)).sum(0)
    for task in np.argsort(choices[tag_sets.tag_set_of[active]], kind="stable").tolist():
        owner = int(active[task])
        is_apart = differs[:, tag_sets.tag_set_of[owner]].copy()
        taken = [owner]
        for _ in range(replicas):
            difference = is_apart.sum(1)
            # KIP-708 is best effort: a standby on a client with equal tags is better than none. A
            # client that has a role in the task already is no choice.
            difference[taken] = -1
            best = np.flatnonzero(difference == difference.max())
            chosen = int(best[np.argmin(load[best])])
            load[chosen] += load_of_one[chosen]
            taken.append(chosen)
            standby_counts[task, tag_sets.tag_set_of[chosen]] += 1
            # A later standby should differ from this client as well; a dimension in which no client
            # differs from all any more decides nothing.
            is_apart &= differs[:, tag_sets.tag_set_of[chosen]]
    return standby_counts
