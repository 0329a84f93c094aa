"""Spark applications as an operator meets them: started as processes, stopped in order, or lost
together with their host.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from apportion.testing import host

ROOT = Path(__file__).resolve().parent.parent


def pipeline(name: str, version: int, out: Path, scratch: Path, **options: str) -> "Application":
    """`demo.pipeline` runs as an application; its log and checkpoint lie in `out`. options: the
    others of its options.
    """
    said = {
        "name": name,
        "version": str(version),
        "checkpoint": str(out / "checkpoints" / name),
        **options,
    }
    command = [
        sys.executable,
        "-m",
        "demo.pipeline",
        *(f"--{key}={value}" for key, value in said.items()),
    ]
    return Application(name, command, out / "logs" / f"{name}.log", scratch / name)


class Application:
    """A process with all that it starts, in a process session of its own; its output goes to
    `log`.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, scratch: Path) -> None:
        """It has been started in the directory `scratch`, where it leaves whatever it cannot tidy
        up when it is killed.
        """
        self.name, self.log = name, log
        self.stopping = False
        for directory in (log.parent, scratch):
            directory.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        environment = os.environ | {
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(scratch),
        }
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
        """Every process of it is dead, and none could tell anybody; the answer is how many they
        were.
        """
        self.stopping = True
        count = host.kill_host(self._driver.pid)
        self._driver.wait()
        return count

    def processes(self) -> list[psutil.Process]:
        """The driver, its JVM, the planning runner, the workers: what is alive of it."""
        return host.processes(self._driver.pid)

    def last_lines(self, count: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").rstrip().splitlines()[-count:])
