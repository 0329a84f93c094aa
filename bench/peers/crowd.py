"""Members of many groups at once: a Go program that lets them join, rest and leave."""

from typing import NamedTuple

from bench.peers.brokers import PeerBroker
from bench.peers.downloads import go_program
from bench.peers.programs import LineProgram

LIMIT_S = 300


class CrowdShape(NamedTuple):
    """How many groups of how many members, on how many connections, join within how long.

    partitions: of the one topic of all groups.
    """

    groups: int
    members: int
    partitions: int
    connections: int
    join_s: float


class Joined(NamedTuple):
    """How long the members took to join, and the 99th percentile of their responses meanwhile."""

    seconds: float
    p99_ms: float


class Rest(NamedTuple):
    """The responses of members at rest, and the 99th percentile of how long they took."""

    responses: int
    p99_ms: float


class Crowd:
    """The running program: the members of one round. Each method raises PeerMissing."""

    def __init__(self, broker: PeerBroker, topic: str, prefix: str, shape: CrowdShape) -> None:
        """Start the program and wait until it has all its connections.

        prefix: what the names of its groups begin with.
        """
        self._program = LineProgram(go_program("groups"))
        counts = (shape.groups, shape.members, shape.connections, shape.join_s, LIMIT_S)
        words = [broker.bootstrap, topic, str(shape.partitions), prefix, *map(str, counts)]
        self._program.start(words)

    def join(self) -> Joined:
        """Let all members join, and wait until all groups have settled."""
        return Joined(*map(float, self._program.ask("join").split()))

    def spread(self) -> None:
        """Let each member rest for one interval, so that their heartbeats come evenly then."""
        self._program.ask("spread")

    def rest(self, seconds: float) -> Rest:
        """Let all members rest for so long."""
        responses, p99_ms = self._program.ask(f"rest {seconds}").split()
        return Rest(int(responses), float(p99_ms))

    def leave(self) -> None:
        """Let all members leave."""
        self._program.ask("leave")

    def close(self) -> None:
        """End the program."""
        self._program.close()
