"""Whether what somebody's own task assignor answered can be followed, by Kafka's reasons (KIP-924) and in one sentence.

Kafka does not ask that every task is somebody's: what an assignor leaves out runs nowhere until the next assignment.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from apportion.streams.words import TaskId


class Reason(IntEnum):
    """Kafka's `TaskAssignor.AssignmentError`, by its names and in its order."""

    NONE = 0
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = 1
    INVALID_STANDBY_TASK = 2
    MISSING_PROCESS_ID = 3
    UNKNOWN_PROCESS_ID = 4
    UNKNOWN_TASK_ID = 5


class Share(NamedTuple):
    """What one process is to run and to stand by for."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


class Fault(NamedTuple):
    """Why an answer cannot be followed."""

    reason: Reason
    sentence: str


def check_shares(stateful: Mapping[TaskId, bool], processes: Mapping[str, object], answer: Mapping[str, Share]) -> Fault | None:
    """The first fault of the answer, None without one.

    stateful: of every task there is. processes: the names of those there are. answer: the share of each process, by its name.
    Faults are looked for in Kafka's order: tasks first, then standbys, then processes.
    """
    for faults in (_tasks_at_fault(stateful, answer), _standbys_at_fault(stateful, answer), _processes_at_fault(processes, answer)):
        for fault in faults:
            return fault
    return None


def _tasks_at_fault(stateful: Mapping[TaskId, bool], answer: Mapping[str, Share]) -> Iterator[Fault]:
    owner: dict[TaskId, str] = {}
    for process, share in answer.items():
        for task in (*share.active, *share.standby):
            if task not in stateful:
                yield Fault(Reason.UNKNOWN_TASK_ID, f"Process {process} was given task {task}, which the topology does not have.")
        for task in share.active:
            if task in owner:
                both = (
                    f"to process {owner[task]} and to process {process}"
                    if owner[task] != process
                    else f"twice to process {process}"
                )
                yield Fault(Reason.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, f"Task {task} was given to run {both}.")
            owner[task] = process


def _standbys_at_fault(stateful: Mapping[TaskId, bool], answer: Mapping[str, Share]) -> Iterator[Fault]:
    for process, share in answer.items():
        for task in share.standby:
            if not stateful[task]:
                yield Fault(Reason.INVALID_STANDBY_TASK, f"Process {process} was to stand by for task {task}, which has no state.")
            if task in share.active:
                yield Fault(
                    Reason.INVALID_STANDBY_TASK, f"Process {process} was to stand by for task {task}, which it runs itself."
                )


def _processes_at_fault(processes: Mapping[str, object], answer: Mapping[str, Share]) -> Iterator[Fault]:
    for process in processes:
        if process not in answer:
            yield Fault(Reason.MISSING_PROCESS_ID, f"Process {process} was given nothing, not even an empty share.")
    for process in answer:
        if process not in processes:
            yield Fault(Reason.UNKNOWN_PROCESS_ID, f"Process {process} was given a share and is not in the group.")
