"""Runs a tutorial as its reader does: writes its files, types its commands, and compares what they
print.

A comment before a block of `python` or `console` says what the reader does with it:

    <!-- file NAME -->     writes it into the file NAME
    <!-- run -->           types the commands, each after the last one has ended
    <!-- run until -->     types the command again until it prints what is shown
    <!-- background -->    types the command in a terminal of its own, where it goes on
    <!-- not run -->       needs something that a test has not, such as a package index

`<!-- stop COMMAND -->` presses Ctrl-C in the terminal of that command. In what a command prints,
`...` stands for anything. Port 9092 becomes a free one, where commands look by default, too.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

PATIENCE_S = 300  # Spark alone takes two minutes to start where others use the cores
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"  # starts with a third less work
STEP = re.compile(
    r"^<!-- (?P<mark>.+?) -->$(?:\n+```(?P<kind>python|console)[^\n]*\n(?P<text>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
BLOCK = re.compile(r"^```(?:python|console)", re.MULTILINE)


class Step(NamedTuple):
    """What the reader does: a mark, and the block after it."""

    mark: str
    text: str


class Command(NamedTuple):
    """A line that is typed, and what is shown below it."""

    line: str
    shown: str


def steps(page: str) -> list[Step]:
    """Return the steps of a page. AssertionError for a block that no comment stands before."""
    result = [Step(step["mark"], step["text"] or "") for step in STEP.finditer(page)]
    assert len(BLOCK.findall(page)) == sum(bool(step.text) for step in result), (
        "a block has no mark"
    )
    return result


def commands(text: str) -> list[Command]:
    """Return the commands of a console block."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0], f"output without a command: {parts[0]!r}"
    return [
        Command(line, shown.strip())
        for line, _, shown in (part.partition("\n") for part in parts[1:])
    ]


def is_as_shown(printed: str, shown: str) -> bool:
    """Return whether that was printed, somewhere in it if it is a long way; `...` stands for
    anything.
    """
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    # Not by a regular expression, which may take for ever on a picture that has dots of its own.
    end = 0
    for part in shown.split("..."):
        begin = lines.find(part, end)
        if begin < 0:
            return False
        end = begin + len(part)
    return True


class Walk:
    """One reader in one directory; `close` ends the terminals that are still at work."""

    def __init__(self, directory: Path, *, columns: int = 80) -> None:
        self.directory = directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | {
            "PATH": path,
            "COLUMNS": str(columns),
            # Commands that name no cluster mean the broker on port 9092.
            "APPORTION_BOOTSTRAP": f"127.0.0.1:{self._port}",
            "JAVA_TOOL_OPTIONS": QUICK_JVM,
        }
        for name in [name for name in os.environ if name.startswith(("PYTEST_", "PYSPARK_"))]:
            del self._environment[name]
        self._terminals: dict[str, subprocess.Popen[bytes]] = {}

    def take(self, step: Step) -> None:
        """Do what the step says."""
        what, _, name = step.mark.partition(" ")
        text = step.text.replace("9092", self._port)
        if what == "file":
            (self.directory / name).write_text(text)
        elif what == "stop":
            self._stop(name.replace("9092", self._port))
        elif step.mark in ("run", "run until", "background"):
            for command in commands(text):
                {"run": self._run, "run until": self._run_until, "background": self._open}[
                    step.mark
                ](command)
        else:
            assert step.mark == "not run", f"there is no mark {step.mark!r}"

    def _run(self, command: Command) -> None:
        printed, code = self._typed(command)
        assert code == 0, f"$ {command.line}\n{printed}"
        assert is_as_shown(printed, command.shown), (
            f"$ {command.line}\n{printed}\nis not as shown:\n{command.shown}"
        )

    def _run_until(self, command: Command) -> None:
        end = time.monotonic() + PATIENCE_S
        while not is_as_shown(self._typed(command)[0], command.shown):
            if time.monotonic() > end:
                self._run(command)
            time.sleep(0.5)

    def _typed(self, command: Command) -> tuple[str, int]:
        done = subprocess.run(
            ["bash", "-c", command.line],
            cwd=self.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.stdout, done.returncode

    def _open(self, command: Command) -> None:
        log = self._log(command.line)
        with log.open("wb") as printed:
            terminal = subprocess.Popen(
                command.line.split(),
                cwd=self.directory,
                env=self._environment,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
        self._terminals[command.line] = terminal
        end = time.monotonic() + PATIENCE_S
        while not is_as_shown(log.read_text(), command.shown):
            assert terminal.poll() is None, f"$ {command.line}\n{log.read_text()}"
            assert time.monotonic() < end, f"$ {command.line}\n{log.read_text()}"
            time.sleep(0.1)

    def _stop(self, line: str) -> None:
        terminal = self._terminals.pop(line)
        terminal.send_signal(signal.SIGINT)
        assert terminal.wait(PATIENCE_S) == 0, self._log(line).read_text()

    def _log(self, line: str) -> Path:
        return self.directory / (re.sub(r"\W+", "-", line)[:60] + ".terminal")

    def close(self) -> None:
        """End every terminal."""
        for terminal in self._terminals.values():
            terminal.terminate()
        for terminal in self._terminals.values():
            terminal.wait(PATIENCE_S)


def play(page: Path, directory: Path) -> None:
    """Take every step of a tutorial in a directory that is empty."""
    walk = Walk(directory)
    try:
        for step in steps(page.read_text()):
            walk.take(step)
    finally:
        walk.close()
