"""Kafka Streams' `HighAvailabilityTaskAssignor` (KIP-441): nobody runs a task that it lacks while another could run it at once.

There is a plan, who should run what and who should stand by, and there is what can be done of it now (`moves.py`). Kafka plans
anew each time, without a look at what is; this plan keeps everything that evenness lets stay. So a group that is as planned stays
as it is, and one that is not needs no more moves than evenness asks for. How this compares with Kafka's, and where it differs on
purpose: decision 0040.
"""

import numpy as np

from apportion.streams.assignor.balance import plan_active_tasks
from apportion.streams.assignor.client_states import AssignmentConfigs, ClientStates, TaskAssignment, Tasks
from apportion.streams.assignor.ranked_clients import assignment_problem
from apportion.streams.assignor.standby_tasks import plan_standby_tasks
from apportion.streams.assignor.task_movements import TaskPlan, assign_with_warmups


def high_availability(tasks: Tasks, crew: ClientStates, policy: AssignmentConfigs) -> TaskAssignment:
    """Who has which task from now on; tasks with state first, then those without, to where the fewest run."""
    group = assignment_problem(tasks, crew, policy)
    nothing = np.zeros(len(crew.consumer_counts), np.int64)
    active = plan_active_tasks(group, tasks.stateful, nothing)
    now = assign_with_warmups(group, TaskPlan(active, plan_standby_tasks(group, active)))
    running = np.bincount(now.active[tasks.stateful], minlength=len(nothing))
    return now._replace(active=np.where(tasks.stateful, now.active, plan_active_tasks(group, ~tasks.stateful, running)))
