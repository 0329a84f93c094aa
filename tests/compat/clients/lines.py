"""How a Python driver is told what to do and tells what happens: lines of JSON, orders on stdin,
facts on stdout.

Orders: {"do": "produce", "partitions": [one for each record]}, {"do": "join"}, {"do": "commit"},
{"do": "leave"}. Facts: {"produced": [[partition, offset], ...]}, {"owned": [partition, ...]} at
each assignment and revocation, {"read": [partition, offset]}, {"committed": [[partition, next
offset], ...]}, {"left": true}.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any

READ_S = 0.05
"""How long a client may wait for records before its driver looks for an order."""


def say(**fact: Any) -> None:
    """The test has been told `fact`."""
    print(json.dumps(fact), flush=True)


class Share:
    """What a member owns and how far it has read there; the test is told of every change."""

    def __init__(self) -> None:
        self.positions: dict[int, int | None] = {}

    def given(self, partitions: Iterable[int]) -> None:
        """The member owns these as well, and has read nothing of them."""
        self.positions |= dict.fromkeys(partitions)
        say(owned=sorted(self.positions))

    def taken(self, partitions: Iterable[int]) -> None:
        """The member does not own these any more."""
        for partition in partitions:
            self.positions.pop(partition, None)
        say(owned=sorted(self.positions))

    def read(self, partition: int, offset: int) -> None:
        """A record has reached the application."""
        if partition in self.positions:
            self.positions[partition] = offset + 1
        say(read=[partition, offset])

    def read_up_to(self) -> dict[int, int]:
        """{partition: next offset}, for the partitions of which something was read."""
        return {
            partition: position
            for partition, position in sorted(self.positions.items())
            if position is not None
        }


def listen(orders: SimpleQueue[dict[str, Any]]) -> None:
    """Orders are queued as they come. When nobody is left to give any, this process is gone."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(1)


def play(kind: Callable[[dict[str, Any], Share], Any]) -> None:
    """Run the client `kind(options, share)` up to its leave; the options are JSON, the
    program's argument.

    It has produce(partitions) -> positions, join(), read() -> positions,
    commit({partition: next offset}) and leave().
    """
    orders: SimpleQueue[dict[str, Any]]
    orders, share = SimpleQueue(), Share()
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    client = kind(json.loads(sys.argv[1]), share)
    joined = False
    while True:
        try:
            order = orders.get(block=not joined)
        except Empty:
            order = {"do": "read"}
        match order["do"]:
            case "read":
                for partition, offset in client.read():
                    share.read(partition, offset)
            case "produce":
                say(produced=client.produce(order["partitions"]))
            case "join":
                client.join()
                joined = True
            case "commit":
                positions = share.read_up_to()
                client.commit(positions)
                say(committed=sorted(positions.items()))
            case "leave":
                client.leave()
                say(left=True)
                return
