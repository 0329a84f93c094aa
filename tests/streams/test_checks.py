"""What an assignor of somebody's own may not answer."""

import pytest

from apportion.streams.checks import Fault, Reason, Share, check_shares
from apportion.streams.words import TaskId

ONE, TWO, STATELESS, GONE = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(7, 0)
TASKS = {ONE: True, TWO: True, STATELESS: False}
PROCESSES = {"a": None, "b": None}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"a": Share((ONE, STATELESS), (TWO,)), "b": Share((TWO,), (ONE,))}, None),
        ({"a": Share(), "b": Share()}, None),
        (
            {"a": Share((ONE,)), "b": Share((ONE,))},
            Fault(Reason.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, "Task 0_0 was given to run to process a and to process b."),
        ),
        (
            {"a": Share((ONE, ONE)), "b": Share()},
            Fault(Reason.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, "Task 0_0 was given to run twice to process a."),
        ),
        (
            {"a": Share((), (STATELESS,)), "b": Share()},
            Fault(Reason.INVALID_STANDBY_TASK, "Process a was to stand by for task 1_0, which has no state."),
        ),
        (
            {"a": Share((ONE,), (ONE,)), "b": Share()},
            Fault(Reason.INVALID_STANDBY_TASK, "Process a was to stand by for task 0_0, which it runs itself."),
        ),
        ({"a": Share()}, Fault(Reason.MISSING_PROCESS_ID, "Process b was given nothing, not even an empty share.")),
        (
            {"a": Share(), "b": Share(), "c": Share()},
            Fault(Reason.UNKNOWN_PROCESS_ID, "Process c was given a share and is not in the group."),
        ),
        (
            {"a": Share((), (GONE,)), "c": Share()},
            Fault(Reason.UNKNOWN_TASK_ID, "Process a was given task 7_0, which the topology does not have."),
        ),
    ],
)
def test_the_first_fault_of_an_answer_is_said_in_a_sentence(answer, fault):
    assert check_shares(TASKS, PROCESSES, answer) == fault
