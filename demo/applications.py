"""Spark applications as processes: started, stopped in order, or lost together with their host."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from demo import host

ROOT = Path(__file__).resolve().parent.parent


def pipeline(
    name: str, version: int, out: Path, scratch_directory: Path, **options: str
) -> "Application":
    """Start `demo.pipeline` as an application.

    out: gets its log and its checkpoint. options: the remaining options of its command line.
    """
    arguments = {
        "name": name,
        "version": str(version),
        "checkpoint": str(out / "checkpoints" / name),
        **options,
    }
    command = [
        sys.executable,
        "-m",
        "demo.pipeline",
        *(f"--{key}={value}" for key, value in arguments.items()),
    ]
    return Application(name, command, out / "logs" / f"{name}.log", scratch_directory / name)


class Application:
    """A process with all that it starts, in a process session of its own, running until stopped.

    log: the file for its output. scratch_directory: its working directory, which gets the temporary
    files that it cannot delete when it is killed.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, scratch_directory: Path
    ) -> None:
        self.name, self.log = name, log
        self.stopping = False
        for directory in (log.parent, scratch_directory):
            directory.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        environment = os.environ | {
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(scratch_directory),
        }
        with log.open("wb") as output:
            self._driver = subprocess.Popen(
                command,
                cwd=scratch_directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """The driver's exit code; None while it runs."""
        return self._driver.poll()

    def stop(self) -> None:
        """Ask it by SIGTERM to finish its batch, leave the group and end."""
        self.stopping = True
        self._driver.send_signal(signal.SIGTERM)

    def lose_host(self) -> int:
        """Kill all of its processes at one instant and return their number, as if the host died.

        None of them can leave the group, so the coordinator waits for the session timeout.
        """
        self.stopping = True
        count = host.kill_host(self._driver.pid)
        self._driver.wait()
        return count

    def processes(self) -> list[psutil.Process]:
        """Return its live processes: the driver, its JVM, the planning runner, the workers."""
        return host.processes(self._driver.pid)

    def command_lines(self) -> list[str]:
        """Return the command lines of its live processes."""
        return host.command_lines(self._driver.pid)

    def last_lines(self, count: int = 15) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").rstrip().splitlines()[-count:])
