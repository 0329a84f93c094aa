"""Spark applications as an operator meets them: started as processes, stopped in order, or lost together with their host."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep

import psutil

ROOT = Path(__file__).resolve().parent.parent


def pipeline(name: str, version: int, out: Path, scratch: Path, **options: str) -> "Application":
    """`demo.pipeline` runs as an application; its log and checkpoint lie in `out`. options: the others of its options."""
    said = {"name": name, "version": str(version), "checkpoint": str(out / "checkpoints" / name), **options}
    command = [sys.executable, "-m", "demo.pipeline", *(f"--{key}={value}" for key, value in said.items())]
    return Application(name, command, out / "logs" / f"{name}.log", scratch / name)


class Application:
    """A process with all that it starts, in a process session of its own; its output goes to `log`."""

    def __init__(self, name: str, command: Sequence[str], log: Path, scratch: Path) -> None:
        """It has been started in the directory `scratch`, where it leaves whatever it cannot tidy up when it is killed."""
        self.name, self.log = name, log
        self.stopping = False
        for directory in (log.parent, scratch):
            directory.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        environment = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "TMPDIR": str(scratch)}
        with log.open("wb") as output:
            self._driver = subprocess.Popen(
                command,
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """How the driver ended; None while it runs."""
        return self._driver.poll()

    def stop(self) -> None:
        """It has been asked to finish its batch, leave the group and end."""
        self.stopping = True
        self._driver.send_signal(signal.SIGTERM)

    def lose_host(self) -> int:
        """Every process of it is dead, and none could tell anybody; the answer is how many they were.

        All are halted first: what dies early would be noticed by the others, and the last one alive would leave the group politely.
        """
        self.stopping = True
        halted: dict[int, psutil.Process] = {}
        while new := [process for process in self.processes() if process.pid not in halted]:
            _signal_all(new, signal.SIGSTOP)
            halted |= {process.pid: process for process in new}
        _signal_all(halted.values(), signal.SIGKILL)
        self._driver.wait()
        while any(map(_lives, halted.values())):
            sleep(0.01)
        return len(halted)

    def processes(self) -> list[psutil.Process]:
        """The driver, its JVM, the planning runner, the workers: all descendants, and whatever else is of its process session."""
        session = self._driver.pid
        found = {process.pid: process for process in psutil.process_iter() if _session_of(process.pid) == session}
        with suppress(psutil.NoSuchProcess):
            found |= {process.pid: process for process in psutil.Process(session).children(recursive=True)}
        return [process for process in found.values() if _lives(process)]

    def last_lines(self, count: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").rstrip().splitlines()[-count:])


def _signal_all(processes: Iterable[psutil.Process], what: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(what)


def _session_of(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
