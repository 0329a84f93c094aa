"""A Go program that answers each line it reads with a line."""

import select
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from bench.peers.rows import PeerMissing

from apportion.testing.kafka import last_lines

READY = "ready"
LIMIT_S = 400.0
"""How long a line may take: longer than the programs' own limits, whose sentences say more."""


class LineProgram:
    """The program, once started, with a directory of its own for its files."""

    def __init__(self, path: Path, limit_s: float = LIMIT_S) -> None:
        """Make the directory.

        path: of the program, as `go_program` returns it. limit_s: how long each line may take.
        """
        self._path, self._limit_s = path, limit_s
        self._stack = ExitStack()
        made = tempfile.TemporaryDirectory(prefix=f"peers-{path.name}-")
        self.directory = Path(self._stack.enter_context(made))
        self._process: subprocess.Popen[str]

    def start(self, words: Sequence[str]) -> None:
        """Start it with these arguments, and wait for the line "ready". Raises PeerMissing."""
        try:
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    [str(self._path), *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
            self._stack.callback(self._end)
            line = self._line()
            if line != READY:
                raise PeerMissing(f'{self._path.name} said "{line}" instead of "{READY}"')
        except PeerMissing:
            self.close()
            raise

    def ask(self, line: str) -> str:
        """Return its answer to a line.

        Raises PeerMissing: with its last words if it has ended, or if it does not answer.
        """
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
        self._process.kill()  # it has nothing to keep, and may be waiting for a broker
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

    def _line(self) -> str:
        """Return the next line, without its end. Raises PeerMissing."""
        assert self._process.stdout is not None
        # It prints one line at a time and each whole, so that none waits in the buffer of stdout.
        if not select.select([self._process.stdout], [], [], self._limit_s)[0]:
            raise PeerMissing(f"{self._path.name} gave no answer within {self._limit_s:g} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            words = last_lines(self._errors.read_text(), 3)
            raise PeerMissing(words or f"{self._path.name} ended without a word")
        return line.removesuffix("\n")
