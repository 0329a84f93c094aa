"""Kafka Streams' `HighAvailabilityTaskAssignor` (KIP-441): balance the tasks, and move by warm-ups.

The assignor works in two steps:
1. Plan: which client should run each stateful task (`balance.py`) and keep its standbys
   (`standby_tasks.py`). The plan is as even as possible and otherwise moves as little as possible.
2. Movements: what of the plan can be done now (`task_movements.py`). A client that is not caught up
   warms up while a caught-up one keeps the task, and the group probes until nothing is postponed.

Kafka deals tasks anew at each rebalance without looking at where they run. This plan keeps what
evenness allows to stay, so a group that is as planned stays as it is, and every warm-up that
finishes leaves fewer movements: the probing ends. docs/decisions/0040 compares the two and lists
the intended differences.
"""

import numpy as np

from apportion.streams.task_assignment.balance import plan_active_tasks
from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from apportion.streams.task_assignment.ranked_clients import assignment_problem
from apportion.streams.task_assignment.standby_tasks import plan_standby_tasks
from apportion.streams.task_assignment.task_movements import TaskPlan, assign_with_warmups


def high_availability(
    tasks: Tasks, clients: ClientStates, configs: AssignmentConfigs
) -> TaskAssignment:
    """Assign stateful Streams tasks by plan and warm-ups, then stateless ones to balance loads."""
    problem = assignment_problem(tasks, clients, configs)
    # Stateful tasks are planned first, as in Kafka: they are expensive to move, and stateless ones
    # can fill any gap.
    no_load = np.zeros(len(clients.consumer_counts), np.int64)
    active = plan_active_tasks(problem, tasks.stateful, no_load)
    now = assign_with_warmups(problem, TaskPlan(active, plan_standby_tasks(problem, active)))
    # Stateless tasks have nothing to restore, so they fill up what the stateful ones leave uneven.
    running = np.bincount(now.active[tasks.stateful], minlength=len(no_load))
    stateless = plan_active_tasks(problem, ~tasks.stateful, running)
    return now._replace(active=np.where(tasks.stateful, now.active, stateless))
