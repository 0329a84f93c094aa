"""The responses of one step of the broker, which are written when they are encoded.

A client takes its response at once, on another processor, and then waits again. Were each response
written before the next is encoded, nearly every write would have to wake a client that waits, which
costs the broker as much as the write itself. Besides, the responses of a step to one client leave
in one write.
"""

from apportion.server.request_receiver import RespondingConnection

MOST_CONNECTIONS = 128
"""The responses to so many connections are written before another one is encoded."""


class WrittenTogether:
    """The connections whose responses wait until the actions of a step are carried out.

    A context manager: the actions are carried out in its block, and the responses are written at
    the end of the block at the latest, in the order of their connections' first ones.
    """

    __slots__ = ("_connections", "_is_open")

    def __init__(self) -> None:
        self._connections: dict[RespondingConnection, None] = {}
        self._is_open = False

    def __enter__(self) -> None:
        self._is_open = True

    def __exit__(self, *_error: object) -> None:
        self._is_open = False
        self._write_all()

    def write_soon(self, connection: RespondingConnection) -> None:
        """Write the responses of a connection with those of others; at once outside of a block."""
        if not self._is_open:
            connection.write_responses()
            return
        self._connections[connection] = None
        if len(self._connections) == MOST_CONNECTIONS:
            self._write_all()

    def _write_all(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections:
            connection.write_responses()
