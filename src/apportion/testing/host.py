"""A process and all its descendants as one host: frozen, thawed, or lost at one instant.

Spark's Python workers have process groups of their own, so a signal to a group misses them: the children are walked.
"""

import signal
from collections.abc import Iterator
from contextlib import suppress

import psutil


def processes(pid: int) -> list[psutil.Process]:
    """The process and everything below it that is alive now; parents come first."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def freeze(pid: int) -> list[psutil.Process]:
    """All of them have SIGSTOP; children born meanwhile too."""
    frozen: dict[int, psutil.Process] = {}
    while new := [process for process in processes(pid) if process.pid not in frozen]:
        for process in _sent(new, signal.SIGSTOP):
            frozen[process.pid] = process
    return list(frozen.values())


def thaw(frozen: list[psutil.Process]) -> None:
    """They go on, children first, so that no parent finds a silent child."""
    for _ in _sent(reversed(frozen), signal.SIGCONT):
        pass


def lose(pid: int) -> None:
    """The host is lost: nobody in it could say a word, and nothing of it is left."""
    frozen = freeze(pid)
    for _ in _sent(frozen, signal.SIGKILL):
        pass
    psutil.wait_procs(frozen, timeout=10)


def _sent(
    these: "Iterator[psutil.Process] | list[psutil.Process] | reversed[psutil.Process]", number: int
) -> Iterator[psutil.Process]:
    for process in these:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        yield process
