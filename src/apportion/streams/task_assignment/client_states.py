"""Input and output of a task assignor, as arrays: tasks, clients, and what clients have of tasks.

A client is one process of the application (one `KafkaStreams` instance), with one consumer for each
stream thread. Clients are numbered in the order of their process ids and tasks in the order of
their task ids. Every tie falls to the lower number, so an answer depends on nothing but these
numbers.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.settings import MAX_INT64
from apportion.streams.settings import (
    ACCEPTABLE_RECOVERY_LAG,
    MAX_WARMUP_REPLICAS,
    NUM_STANDBY_REPLICAS,
)

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNLIMITED_LAG = MAX_INT64
"""An `acceptable_recovery_lag` at which every client counts as caught up."""


class Tasks(NamedTuple):
    """All T tasks of the topology in the order of their ids, one column for each property.

    stateful: True if the task has a changelog. end_offset_sum: the sum of the end offsets of its
    changelogs, 0 for a task without any.
    """

    subtopology: Ints
    partition: Ints
    stateful: Bools
    end_offset_sum: Longs


class ClientStates(NamedTuple):
    """The C clients in the order of their process ids, and their state (Kafka's ClientState).

    consumer_counts: how many consumers (stream threads) each client has, at least 1. tags: the
    client tags of each client (KIP-708).

    The other columns have one row for each (process, task) of which the client reported something,
    in order of process and task. lag: how many offsets its state lacks of the task's
    `end_offset_sum`; 0 for a running task. is_running: the task is active there and fully restored.
    previously_active: the task is running there, or was assigned there and is still restoring. A
    client without a row for a task has nothing of it: its lag is the whole `end_offset_sum`.
    """

    consumer_counts: Ints
    tags: tuple[Mapping[str, str], ...]
    process: Ints
    task: Ints
    lag: Longs
    is_running: Bools
    previously_active: Bools


class AssignmentConfigs(NamedTuple):
    """The settings of a task assignor, with Kafka Streams' names and defaults.

    rack_aware_tags: `rack.aware.assignment.tags`. The limit of warm-ups counts for the whole group.
    """

    num_standby_replicas: int = NUM_STANDBY_REPLICAS.default
    acceptable_recovery_lag: int = ACCEPTABLE_RECOVERY_LAG.default
    max_warmup_replicas: int = MAX_WARMUP_REPLICAS.default
    rack_aware_tags: tuple[str, ...] = ()


class TaskAssignment(NamedTuple):
    """The answer of a task assignor: the client of every task and of every copy of its state.

    active: T, the client that runs each task. standby, warmup: rows of (client, task), sorted; no
    client has two roles in one task. needs_probing_rebalance: some task is not yet where it
    belongs, so the group rebalances again after `probing.rebalance.interval.ms`.
    """

    active: Ints
    standby: NDArray[np.int32]
    warmup: NDArray[np.int32]
    needs_probing_rebalance: bool = False
