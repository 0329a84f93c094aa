"""A process and all that it has started, as if they were one host that is lost at one instant.

Spark's Python workers have process groups of their own, so a signal to a process group misses them.
Instead, all descendants are found, and every process of the session that the first one leads.
"""

import os
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
from time import sleep

import psutil


def processes(pid: int) -> list[psutil.Process]:
    """Return the live processes of the host that process `pid` stands for.

    The host's processes are `pid`, its descendants, and the members of the session that it leads.
    """
    by_pid = {
        process.pid: process
        for process in psutil.process_iter()
        if _session_or_none(process.pid) == pid
    }
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        by_pid |= {process.pid: process for process in (root, *root.children(recursive=True))}
    return [process for process in by_pid.values() if is_alive(process)]


def command_lines(pid: int) -> list[str]:
    """Return the command lines of the live processes of the host that `pid` stands for."""
    lines = []
    for process in processes(pid):
        with suppress(psutil.NoSuchProcess):  # a zombie by now, too
            lines.append(" ".join(process.cmdline()))
    return lines


def suspend(pid: int) -> list[psutil.Process]:
    """Suspend all processes of the host by SIGSTOP, and return them.

    Repeated until no new process appears: one may be started while others are being suspended.
    """
    suspended: dict[int, psutil.Process] = {}
    while new := [process for process in processes(pid) if process.pid not in suspended]:
        _signal_all(new, signal.SIGSTOP)
        suspended |= {process.pid: process for process in new}
    return list(suspended.values())


def resume(suspended: list[psutil.Process]) -> None:
    """Resume processes that `suspend` returned by SIGCONT, children before their parents."""
    _signal_all(reversed(suspended), signal.SIGCONT)


def kill_host(pid: int) -> int:
    """Lose a host: kill all processes under `pid` at one instant; return their number.

    All processes are suspended first: a process that outlives the others for a moment could notice
    that they are gone, and leave its consumer group in order. A lost host sends no LeaveGroup.
    """
    suspended = suspend(pid)
    # Children first: a process group that loses its last parent outside gets SIGHUP and SIGCONT
    # from the kernel, and whoever ignores SIGHUP, as under nohup, would run on for a moment.
    _signal_all(reversed(suspended), signal.SIGKILL)
    while any(map(is_alive, suspended)):
        sleep(0.01)
    return len(suspended)


def end_with_parent() -> None:
    """Let this process end in order once its parent is gone, in whatever way."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def is_alive(process: psutil.Process) -> bool:
    """Return whether the process still runs: a zombie, which waits for its parent, does not."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _signal_all(targets: Iterable[psutil.Process], signal_number: signal.Signals) -> None:
    for process in targets:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal_number)


def _session_or_none(pid: int) -> int | None:
    """Return the session id of a process; None if the process has ended."""
    with suppress(OSError):
        return os.getsid(pid)
    return None
