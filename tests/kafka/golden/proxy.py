"""A TCP proxy that keeps every request and its response as bytes, in the order in which a
connection sent them.
"""

import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Exchange:
    """One request and its response, without their 4-byte lengths."""

    client: str
    key: int
    version: int
    request: bytes
    response: bytes


class Asked(NamedTuple):
    """A request that was passed on, without its 4-byte length, and when (by the wall clock)."""

    client: str
    at_s: float
    frame: bytes


@dataclass
class RecordingProxy:
    """Listens on `port` and stands before `upstream_port`; every exchange is in `exchanges`, under
    the name in `client`.

    A connection that the broker does not take is closed, and what it has not answered when a
    connection ends goes to `unanswered`.
    """

    upstream_port: int
    port: int
    client: str = ""
    exchanges: list[Exchange] = field(default_factory=list)

    def start(self) -> None:
        """Connections are taken from now on, until the process ends."""
        listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def answered(self, asked: Asked, response: bytes) -> None:
        """Keep one exchange."""
        self.exchanges.append(
            Exchange(asked.client, *struct.unpack_from(">hh", asked.frame), asked.frame, response)  # type: ignore[call-arg]
        )

    def passed_on(self, asked: Asked, response: bytes) -> bytes:
        """The response as the client gets it, without its length."""
        return response

    def unanswered(self, asked: Asked) -> None:
        """Drop a request whose connection ended before its answer."""

    def _accept(self, listener: socket.socket) -> None:
        while True:
            near, _ = listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self.upstream_port))
            except OSError:  # the broker is not there
                near.close()
                continue
            waiting: deque[Asked] = deque()
            responses = threading.Thread(
                target=self._responses, args=(far, near, waiting), daemon=True
            )
            responses.start()
            threading.Thread(
                target=self._requests, args=(near, far, waiting, responses), daemon=True
            ).start()

    def _requests(
        self,
        near: socket.socket,
        far: socket.socket,
        waiting: deque[Asked],
        responses: threading.Thread,
    ) -> None:
        with suppress(OSError):
            for frame in frames(near):
                # nobody here produces with acks=0, so each gets an answer
                waiting.append(Asked(self.client, time.time(), frame))
                far.sendall(struct.pack(">i", len(frame)) + frame)
        hang_up(far)
        responses.join()
        for asked in waiting:
            self.unanswered(asked)
        near.close()
        far.close()

    def _responses(self, far: socket.socket, near: socket.socket, waiting: deque[Asked]) -> None:
        for frame in frames(far):
            asked = waiting.popleft()
            assert asked.frame[4:8] == frame[:4], "responses come in the order of their requests"
            self.answered(asked, frame)
            passed_on = self.passed_on(asked, frame)
            with suppress(OSError):
                near.sendall(struct.pack(">i", len(passed_on)) + passed_on)
        hang_up(near)


def frames(connection: socket.socket) -> Iterator[bytes]:
    """The frames of one direction, until it ends."""
    with suppress(OSError, EOFError):
        while True:
            yield exactly(connection, struct.unpack(">i", exactly(connection, 4))[0])


def exactly(connection: socket.socket, count: int) -> bytes:
    """The next `count` bytes; EOFError when the connection ends before."""
    parts = []
    while count:
        part = connection.recv(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def hang_up(connection: socket.socket) -> None:
    """The connection is over for both sides, and for the thread that still reads it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
