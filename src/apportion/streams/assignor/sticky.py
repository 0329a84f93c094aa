"""Kafka Streams' `StickyTaskAssignor`: a task goes to who ran it or stood by for it, within its share; at once, whatever it lacks.

Tasks with and without state count alike and subtopologies are not told apart. There are no warm-ups and nothing is owed, so the
group never looks again by itself.
"""

import numpy as np

from apportion.streams.assignor.balance import planned
from apportion.streams.assignor.client_states import UNLIMITED_LAG, Crew, Policy, Shares, Tasks
from apportion.streams.assignor.movements import Plan, shares_of
from apportion.streams.assignor.standby_tags import standbys
from apportion.streams.assignor.task_lags import RUNS, group_of


def sticky(tasks: Tasks, crew: Crew, policy: Policy) -> Shares:
    """Who has which task from now on: the previous owner, else one who has something of it, else who has the least to do."""
    alike = tasks._replace(subtopology=np.zeros_like(tasks.subtopology))
    group = group_of(alike, crew._replace(active=crew.prior), policy._replace(acceptable_lag=UNLIMITED_LAG))
    active = planned(group, np.ones(len(tasks.end), np.bool_), np.zeros(len(crew.consumers), np.int64), home_rank=RUNS)
    return shares_of(Plan(active, standbys(group, active)))
