"""Kafka Streams' `StickyTaskAssignor`: a task stays with its previous client if balance allows.

Stateful and stateless tasks count alike, and subtopologies are not told apart. A task moves at
once, whatever the new client lacks: there are no warm-ups and no probing rebalances. It is the
default before 2.6, and a setting since.
"""

import numpy as np

from apportion.streams.task_assignment.balance import plan_active_tasks
from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from apportion.streams.task_assignment.ranked_clients import RANK_RUNNING, problem_without_lags
from apportion.streams.task_assignment.standby_tasks import plan_standby_tasks
from apportion.streams.task_assignment.task_movements import TaskPlan, assign_as_planned


def sticky(tasks: Tasks, clients: ClientStates, configs: AssignmentConfigs) -> TaskAssignment:
    """Assign each Streams task to its previous client, or one with state, or the least loaded."""
    # A client that still restores a task counts as running it: it was assigned the task before.
    problem = problem_without_lags(tasks, clients, configs)
    every_task = np.ones(len(tasks.stateful), np.bool_)
    no_load = np.zeros(len(clients.consumer_counts), np.int64)
    active = plan_active_tasks(problem, every_task, no_load, home_rank=RANK_RUNNING)
    return assign_as_planned(TaskPlan(active, plan_standby_tasks(problem, active)))
