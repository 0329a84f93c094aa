"""Connections on which an answer may come late: a request is posted, and whatever has come is taken
up when somebody looks.
"""

import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.wire.table import decode_response, encode_request

QUIET_S = 0.02
"""So long after a request on both brokers an answer that is still lacking is taken for parked."""
PATIENCE_S = 2.0
"""So long one broker may be behind the other."""


@dataclass(slots=True, eq=False)
class Line:
    """One connection of one member, with at most one request that has no answer."""

    bootstrap: str
    client_id: str
    asked: tuple[type, int] | None = None
    _socket: socket.socket | None = None
    _bytes: bytearray = field(default_factory=bytearray)

    def post(self, request: Any, version: int) -> None:
        """The request is on its way."""
        assert self.asked is None, "one request at a time"
        if self._socket is None:
            host, _, port = self.bootstrap.rpartition(":")
            self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked = type(request), version
        self._socket.sendall(encode_request(request, version, 1, self.client_id))

    def fileno(self) -> int:
        """What `select` waits for."""
        assert self._socket is not None
        return self._socket.fileno()

    def take(self) -> Any:
        """The answer if all of it has come, None before; "closed" if the broker hung up."""
        assert self._socket is not None
        assert self.asked is not None
        got = self._socket.recv(1 << 16)
        self._bytes += got
        if not got:
            self.close()
            return "closed"
        size = struct.unpack_from(">i", self._bytes)[0] if len(self._bytes) >= 4 else 1 << 30
        if len(self._bytes) < 4 + size:
            return None
        frame, self._bytes = bytes(self._bytes[4 : 4 + size]), self._bytes[4 + size :]
        asked, self.asked = self.asked, None
        return decode_response(*asked, frame)[1]

    def close(self) -> None:
        """The connection is gone, and with it what was asked."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self.asked, self._bytes = None, None, bytearray()


def ready(lines: Iterable[Line], within_s: float) -> Iterator[Line]:
    """Those of these lines where something has come, in that time."""
    waiting = [line for line in lines if line.asked is not None]
    if waiting:
        yield from select.select(waiting, [], [], within_s)[0]


def gather(sides: Sequence[Any], quiet_s: float = QUIET_S) -> None:
    """Both sides have taken up what came: every answer, or the same ones and nothing more for a
    while.
    """
    started = time.monotonic()
    while True:
        lines = {
            line: side for side in sides for line in side.lines.values() if line.asked is not None
        }
        if not lines:
            return
        for line in ready(lines, 0.002):
            lines[line].take_up(line)
        waited = time.monotonic() - started
        parked = [
            sorted(member for member, line in side.lines.items() if line.asked is not None)
            for side in sides
        ]
        if waited > PATIENCE_S or (waited >= quiet_s and all(each == parked[0] for each in parked)):
            return
