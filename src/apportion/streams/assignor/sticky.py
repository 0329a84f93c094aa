"""Kafka Streams' `StickyTaskAssignor`: a task goes to who ran it or stood by for it, within its share; at once, whatever it lacks.

Tasks with and without state count alike and subtopologies are not told apart. There are no warm-ups and nothing is owed, so the
group never looks again by itself.
"""

import numpy as np

from apportion.streams.assignor.balance import plan_active_tasks
from apportion.streams.assignor.client_states import UNLIMITED_LAG, AssignmentConfigs, ClientStates, TaskAssignment, Tasks
from apportion.streams.assignor.ranked_clients import RANK_RUNNING, assignment_problem
from apportion.streams.assignor.standby_tasks import plan_standby_tasks
from apportion.streams.assignor.task_movements import TaskPlan, assign_as_planned


def sticky(tasks: Tasks, crew: ClientStates, policy: AssignmentConfigs) -> TaskAssignment:
    """Who has which task from now on: the previous owner, else one who has something of it, else who has the least to do."""
    alike = tasks._replace(subtopology=np.zeros_like(tasks.subtopology))
    group = assignment_problem(
        alike, crew._replace(is_running=crew.previously_active), policy._replace(acceptable_recovery_lag=UNLIMITED_LAG)
    )
    active = plan_active_tasks(
        group, np.ones(len(tasks.end_offset_sum), np.bool_), np.zeros(len(crew.consumer_counts), np.int64), home_rank=RANK_RUNNING
    )
    return assign_as_planned(TaskPlan(active, plan_standby_tasks(group, active)))
