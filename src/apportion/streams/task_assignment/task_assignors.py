"""The task assignors by the names that this package gives them."""

from collections.abc import Callable, Mapping

from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from apportion.streams.task_assignment.fallback import fallback
from apportion.streams.task_assignment.high_availability import high_availability
from apportion.streams.task_assignment.sticky import sticky

TaskAssignor = Callable[[Tasks, ClientStates, AssignmentConfigs], TaskAssignment]

TASK_ASSIGNORS: Mapping[str, TaskAssignor] = {
    "highavailability": high_availability,
    "sticky": sticky,
    "fallback": fallback,
}
