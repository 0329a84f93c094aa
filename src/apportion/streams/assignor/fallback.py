"""Kafka Streams' `FallbackPriorTaskAssignor`: everybody keeps what it runs, because the leader could not learn what anybody lacks.

What nobody runs goes where something of it is, else to who has the least to do; and the group looks again after a while.
"""

import numpy as np

from apportion.streams.assignor.balance import plan_active_tasks
from apportion.streams.assignor.client_states import UNLIMITED_LAG, AssignmentConfigs, ClientStates, TaskAssignment, Tasks
from apportion.streams.assignor.ranked_clients import RANK_RUNNING, assignment_problem, best_clients
from apportion.streams.assignor.standby_tasks import plan_standby_tasks
from apportion.streams.assignor.task_movements import TaskPlan, assign_as_planned


def fallback(tasks: Tasks, crew: ClientStates, policy: AssignmentConfigs) -> TaskAssignment:
    """Who has which task until the group looks again. Lags are not looked at: a process that says to have some of a task has it."""
    alike = tasks._replace(subtopology=np.zeros_like(tasks.subtopology))
    group = assignment_problem(
        alike, crew._replace(is_running=crew.previously_active), policy._replace(acceptable_recovery_lag=UNLIMITED_LAG)
    )
    runs = best_clients(group.ranked.where(group.ranked.rank == RANK_RUNNING), len(tasks.end_offset_sum))[0]
    free = runs < 0
    active = np.where(free, plan_active_tasks(group, free, np.bincount(runs[~free], minlength=len(crew.consumer_counts))), runs)
    return assign_as_planned(TaskPlan(active, plan_standby_tasks(group, active)), probes=True)
