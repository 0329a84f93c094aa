"""A Go program that answers each line it reads with a line."""

import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from bench.peers.downloads import go_program
from bench.peers.rows import PeerMissing

from apportion.testing.kafka import last_lines


class LineProgram:
    """The program, once started, with a directory of its own for its files."""

    def __init__(self, name: str) -> None:
        """Make the directory. name: that of the program below `go/`."""
        self._name = name
        self._stack = ExitStack()
        made = tempfile.TemporaryDirectory(prefix=f"peers-{name}-")
        self.directory = Path(self._stack.enter_context(made))
        self._process: subprocess.Popen[str]

    def start(self, words: Sequence[str]) -> None:
        """Start it with these arguments, and wait for the line "ready". Raises PeerMissing."""
        try:
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    [str(go_program(self._name)), *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
            self._stack.callback(self._end)
            self._line()
        except PeerMissing:
            self.close()
            raise

    def ask(self, line: str) -> str:
        """Return its answer to a line. Raises PeerMissing with its last words if it has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        """End the program, if it was started, and delete its files."""
        self._stack.close()

    @property
    def _errors(self) -> Path:
        return self.directory / "errors"

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise PeerMissing(last_lines(self._errors.read_text(), 3))
        return line
