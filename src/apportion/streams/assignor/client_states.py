"""What a task assignor is told and what it answers: processes, tasks and what each process has of each task, as arrays.

Processes are numbered in the order of their ids and tasks in the order of theirs, so every tie falls to the lower number and an
answer depends on nothing but these numbers.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNLIMITED_LAG = 2**63 - 1
"""An acceptable lag at which everybody is caught up."""


class Tasks(NamedTuple):
    """T tasks in order of their ids.

    stateful: it has a changelog. end: the sum of its changelogs' end offsets, 0 where there is none.
    """

    subtopology: Ints
    partition: Ints
    stateful: Bools
    end_offset_sum: Longs


class ClientStates(NamedTuple):
    """P processes in order of their ids, and what they have of tasks.

    consumers: how many consumers (stream threads) each has, at least 1. tags: the client tags of each.
    process, task, lag, active, prior: a row for each task of which a process says to have something, in order of process and task.
    `lag` is what its state lacks of the task's `end`, 0 for one that it runs; `active`: it runs it; `prior`: it does, or was given
    it to run and restores it yet. A process without a row has nothing of the task: it lacks all of `end`.
    """

    consumer_counts: Ints
    tags: tuple[Mapping[str, str], ...]
    process: Ints
    task: Ints
    lag: Longs
    is_running: Bools
    previously_active: Bools


class AssignmentConfigs(NamedTuple):
    """What an assignor is set to, by Kafka Streams' names and defaults.

    standbys: num.standby.replicas. acceptable_lag: acceptable.recovery.lag. max_warmups: max.warmup.replicas, of the whole group.
    tags: rack.aware.assignment.tags.
    """

    num_standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    rack_aware_tags: tuple[str, ...] = ()


class TaskAssignment(NamedTuple):
    """Who has which task from now on.

    active: T, the process that runs each task. standby, warmup: rows of (process, task), in order; no process has two roles in one
    task. probes: something is not yet where it belongs, so the group looks again after a while (probing.rebalance.interval.ms).
    """

    active: Ints
    standby: NDArray[np.int32]
    warmup: NDArray[np.int32]
    needs_probing_rebalance: bool = False
