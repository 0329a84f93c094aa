"""The load of small requests: a Go program with one request outstanding on each connection."""

import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.peers.brokers import PeerBroker
from bench.peers.downloads import go_program
from bench.peers.rows import PeerMissing

from apportion.testing.kafka import last_lines

WARM_STEP_S = 0.5


class Requests(NamedTuple):
    """Frames, one for each connection, and what makes a response a good one.

    check_at, check: bytes that each response must hold, at a position from its length prefix.
    counters: where in a frame an int64 grows with each request.
    """

    frames: Sequence[bytes]
    check_at: int
    check: bytes
    counters: Sequence[int] = ()


class Load:
    """The running program; a context manager."""

    def __init__(self, broker: PeerBroker, requests: Requests) -> None:
        """Start the program and wait until it has all its connections. Raises PeerMissing."""
        self._broker = broker
        self._directory = tempfile.TemporaryDirectory(prefix="peers-load-")
        frames = Path(self._directory.name) / "frames"
        frames.write_bytes(b"".join(requests.frames))
        self._errors = Path(self._directory.name) / "errors"
        words = [broker.bootstrap, str(frames), str(requests.check_at), requests.check.hex()]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(go_program("load")), *words, *map(str, requests.counters)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._line()

    def close(self) -> None:
        """End the program."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()
        self._directory.cleanup()

    def warm_up(self, responses: int) -> None:
        """Send until so many were answered, which is longer on a busy machine."""
        while responses > 0:
            responses -= self._run(WARM_STEP_S)

    def per_cpu_second(self, seconds: float) -> float:
        """Return the responses of so many seconds, for each second of the broker's processor time.

        Raises PeerMissing when a request was refused.
        """
        before = self._broker.cpu_seconds()
        return self._run(seconds) / (self._broker.cpu_seconds() - before)

    def _run(self, seconds: float) -> int:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{seconds}\n")
            self._process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise PeerMissing(last_lines(self._errors.read_text(), 3))
        return line
