"""The load of small requests: a Go program with one request outstanding on each connection."""

from collections.abc import Sequence
from typing import NamedTuple

from bench.peers.brokers import PeerBroker
from bench.peers.downloads import go_program
from bench.peers.programs import LineProgram

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
    """The running program."""

    def __init__(self, broker: PeerBroker, requests: Requests) -> None:
        """Start the program and wait until it has all its connections. Raises PeerMissing.

        If the broker has a TLS listener, the load uses that one.
        """
        self._broker = broker
        self._program = LineProgram(go_program("load"))
        frames = self._program.directory / "frames"
        frames.write_bytes(b"".join(requests.frames))
        words = [str(frames), str(requests.check_at), requests.check.hex()]
        address = [broker.bootstrap]
        if broker.tls is not None:
            authority = self._program.directory / "authority.pem"
            authority.write_text(broker.tls.authority_pem)
            address = ["--tls", str(authority), broker.tls.bootstrap]
        self._program.start([*address, *words, *map(str, requests.counters)])

    def close(self) -> None:
        """End the program."""
        self._program.close()

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
        return int(self._program.ask(f"{seconds}"))
