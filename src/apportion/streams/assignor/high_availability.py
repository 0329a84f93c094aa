"""Kafka Streams' `HighAvailabilityTaskAssignor` (KIP-441): nobody runs a task that it lacks while another could run it at once.

There is a plan, who should run what and who should stand by, and there is what can be done of it now (`moves.py`). Kafka plans
anew each time, without a look at what is; this plan keeps everything that evenness lets stay. So a group that is as planned stays
as it is, and one that is not needs no more moves than evenness asks for. How this compares with Kafka's, and where it differs on
purpose: decision 0040.
"""

import numpy as np

from apportion.streams.assignor.balance import planned
from apportion.streams.assignor.client_states import Crew, Policy, Shares, Tasks
from apportion.streams.assignor.movements import Plan, feasible
from apportion.streams.assignor.standby_tags import standbys
from apportion.streams.assignor.task_lags import group_of


def high_availability(tasks: Tasks, crew: Crew, policy: Policy) -> Shares:
    """Who has which task from now on; tasks with state first, then those without, to where the fewest run."""
    group = group_of(tasks, crew, policy)
    nothing = np.zeros(len(crew.consumers), np.int64)
    active = planned(group, tasks.stateful, nothing)
    now = feasible(group, Plan(active, standbys(group, active)))
    running = np.bincount(now.active[tasks.stateful], minlength=len(nothing))
    return now._replace(active=np.where(tasks.stateful, now.active, planned(group, ~tasks.stateful, running)))
