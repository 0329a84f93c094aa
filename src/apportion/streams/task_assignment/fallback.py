"""Kafka Streams' `FallbackPriorTaskAssignor`: every client keeps its active tasks.

The leader uses it when it could not fetch the end offsets of changelogs, so that lags are unknown.
A task that no client runs goes to one with state of it, else to the least loaded; a probing
rebalance follows, at which the offsets may be known.
"""

import numpy as np

from apportion.streams.task_assignment.balance import plan_active_tasks
from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from apportion.streams.task_assignment.ranked_clients import (
    RANK_RUNNING,
    best_clients,
    problem_without_lags,
)
from apportion.streams.task_assignment.standby_tasks import plan_standby_tasks
from apportion.streams.task_assignment.task_movements import TaskPlan, assign_as_planned


def fallback(tasks: Tasks, clients: ClientStates, configs: AssignmentConfigs) -> TaskAssignment:
    """Keep active Streams tasks in place, assign the others, and request a probing rebalance."""
    # With unknown lags no client can be preferred for its lag.
    problem = problem_without_lags(tasks, clients, configs)
    ranked = problem.ranked
    running = best_clients(ranked.where(ranked.rank == RANK_RUNNING), len(tasks.stateful))[0]
    is_free = running < 0
    load = np.bincount(running[~is_free], minlength=len(clients.consumer_counts))
    active = np.where(is_free, plan_active_tasks(problem, is_free, load), running)
    return assign_as_planned(
        TaskPlan(active, plan_standby_tasks(problem, active)), needs_probing_rebalance=True
    )
