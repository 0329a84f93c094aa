"""A process with all that it started, treated as one host: suspended, resumed, or killed at one
instant.

Spark's Python workers have process groups of their own, so a signal to a group misses them: the
children are walked, and whatever else belongs to the process session that the first process leads.
"""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from time import sleep

import psutil


def processes(pid: int) -> list[psutil.Process]:
    """The process, everything below it, and everything of the session that it leads: all that is
    alive now.
    """
    found = {
        process.pid: process
        for process in psutil.process_iter()
        if _session_or_none(process.pid) == pid
    }
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        found |= {process.pid: process for process in (root, *root.children(recursive=True))}
    return [process for process in found.values() if is_alive(process)]


def suspend(pid: int) -> list[psutil.Process]:
    """Suspend all of them with SIGSTOP, including those that are started meanwhile."""
    halted: dict[int, psutil.Process] = {}
    while new := [process for process in processes(pid) if process.pid not in halted]:
        _signal_all(new, signal.SIGSTOP)
        halted |= {process.pid: process for process in new}
    return list(halted.values())


def resume(halted: list[psutil.Process]) -> None:
    """Resume them with SIGCONT, the last one that was suspended first."""
    _signal_all(reversed(halted), signal.SIGCONT)


def kill_host(pid: int) -> int:
    """Kill every process at one instant, so that none can leave a group; return how many there
    were.

    All are halted first: what dies early would be noticed by the others, and the last one alive
    would leave its group politely.
    """
    halted = suspend(pid)
    _signal_all(halted, signal.SIGKILL)
    while any(map(is_alive, halted)):
        sleep(0.01)
    return len(halted)


def is_alive(process: psutil.Process) -> bool:
    """Whether the process can still do anything; what waits only to be buried cannot."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _signal_all(these: Iterable[psutil.Process], what: signal.Signals) -> None:
    for process in these:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(what)


def _session_or_none(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None
