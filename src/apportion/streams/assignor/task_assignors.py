"""The task assignors by the names that this package gives them."""

from collections.abc import Callable, Mapping

from apportion.streams.assignor.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from apportion.streams.assignor.fallback import fallback
from apportion.streams.assignor.high_availability import high_availability
from apportion.streams.assignor.sticky import sticky

TaskAssignor = Callable[[Tasks, ClientStates, AssignmentConfigs], TaskAssignment]

TASK_ASSIGNORS: Mapping[str, TaskAssignor] = {
    "highavailability": high_availability,
    "sticky": sticky,
    "fallback": fallback,
}
