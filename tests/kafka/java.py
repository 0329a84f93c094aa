"""Java programs for tests: one that answers lines while it runs, and Kafka's command-line tools."""

import subprocess
from pathlib import Path
from typing import Self

from apportion.testing.kafka import JVM_OPTIONS, java_program

QUICK_START = ("-XX:TieredStopAtLevel=1",)
"""Options of a JVM that does not run long."""


class JavaProgram:
    """A program of one Java file that reads and writes lines, from `with` to its end.

    jars: a directory with what it needs. options: for the JVM.
    """

    def __init__(self, program: Path, jars: Path, *options: str) -> None:
        command = [java_program(), "-Xshare:auto", *options, "-cp", f"{jars.resolve()}/*"]
        self._process = subprocess.Popen(
            [*command, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input is its end

    def tell(self, line: str) -> None:
        """Write a line, which it may get later."""
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")

    def answer(self) -> str:
        """The next line that it writes, once it has got all lines."""
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"Java ended: {self._process.stderr.read()}"
        return line


def tool_command(jars: Path, tool: str, *arguments: str) -> list[str]:
    """The command line of one of Kafka's tools, by the name of its class."""
    options = (*JVM_OPTIONS, "-Dfile.encoding=UTF-8", "-cp", f"{jars.resolve()}/*")
    return [java_program(), *options, tool, *arguments]


def tool_output(jars: Path, tool: str, *arguments: str, check: bool = True) -> str:
    """What a tool of Kafka prints."""
    done = subprocess.run(
        tool_command(jars, tool, *arguments),
        capture_output=True,
        text=True,
        timeout=120,
        check=check,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout
