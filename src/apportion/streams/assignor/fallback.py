"""Kafka Streams' `FallbackPriorTaskAssignor`: everybody keeps what it runs, because the leader could not learn what anybody lacks.

What nobody runs goes where something of it is, else to who has the least to do; and the group looks again after a while.
"""

import numpy as np

from apportion.streams.assignor.balance import planned
from apportion.streams.assignor.client_states import UNLIMITED_LAG, Crew, Policy, Shares, Tasks
from apportion.streams.assignor.movements import Plan, shares_of
from apportion.streams.assignor.standby_tags import standbys
from apportion.streams.assignor.task_lags import RUNS, group_of, homes


def fallback(tasks: Tasks, crew: Crew, policy: Policy) -> Shares:
    """Who has which task until the group looks again. Lags are not looked at: a process that says to have some of a task has it."""
    alike = tasks._replace(subtopology=np.zeros_like(tasks.subtopology))
    group = group_of(alike, crew._replace(active=crew.prior), policy._replace(acceptable_lag=UNLIMITED_LAG))
    runs = homes(group.had.where(group.had.rank == RUNS), len(tasks.end))[0]
    free = runs < 0
    active = np.where(free, planned(group, free, np.bincount(runs[~free], minlength=len(crew.consumers))), runs)
    return shares_of(Plan(active, standbys(group, active)), probes=True)
