"""The responses of one step of the broker, which are written when all of them are encoded.

A client whose response is written runs at once, on another processor. If the broker encoded the
next response in between, each write would have to wake a client that has nothing to do again, which
costs the broker as much as the write. And the responses to one client leave in one write.
"""

from apportion.server.request_receiver import RespondingConnection


class WrittenTogether:
    """The connections with responses that wait until a step's actions are carried out.

    A context manager: the actions are carried out in its block, at whose end they are written, in
    the order of their connections' first ones.
    """

    __slots__ = ("_connections", "_is_open")

    def __init__(self) -> None:
        self._connections: dict[RespondingConnection, None] = {}
        self._is_open = False

    def __enter__(self) -> None:
        self._is_open = True

    def __exit__(self, *_error: object) -> None:
        self._is_open = False
        connections, self._connections = self._connections, {}
        for connection in connections:
            connection.write_responses()

    def write_soon(self, connection: RespondingConnection) -> None:
        """Write the responses of a connection at the end of the block; at once outside of one."""
        if self._is_open:
            self._connections[connection] = None
        else:
            connection.write_responses()
