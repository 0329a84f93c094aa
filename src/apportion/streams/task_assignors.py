"""The task assignors by the names that this package gives them."""

from collections.abc import Callable, Mapping

from apportion.streams.crew import Crew, Policy, Shares, Tasks
from apportion.streams.fallback import fallback
from apportion.streams.high_availability import high_availability
from apportion.streams.sticky import sticky

TaskAssignor = Callable[[Tasks, Crew, Policy], Shares]

TASK_ASSIGNORS: Mapping[str, TaskAssignor] = {
    "highavailability": high_availability,
    "sticky": sticky,
    "fallback": fallback,
}
