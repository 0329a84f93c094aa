"""The two steps of min-cost flow by successive shortest paths, for `fair.py`.

`shortest_distances` is Bellman-Ford, vectorised over all arcs, towards the nodes with room; costs
may be negative, cycles of negative cost may not. `blocking_flow` is Dinic's depth-first search
restricted to arcs on shortest paths. Sending a blocking flow along all shortest paths at once keeps
the flow of least cost for its amount, and afterwards every remaining path is longer.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64Vector = NDArray[np.int64]

UNREACHED = 1 << 60
UNBOUNDED = 1 << 40


class Arcs(NamedTuple):
    """Arc i leads from `tail[i]` to `head[i]`; the tails ascend and every node is one."""

    tail: Int64Vector
    head: Int64Vector


def shortest_distances(
    arcs: Arcs, cost: Int64Vector, is_open: NDArray[np.bool_], has_room: NDArray[np.bool_]
) -> Int64Vector:
    """Return each node's distance over open arcs to the nearest node with room, or UNREACHED.

    For the fair shares of the assignors (`fair.py`). Distances compare by cost first and by the
    number of arcs second: a length of cost * 2n + 1 for each arc. So no cycle has length 0, and the
    arcs on shortest paths form no cycle.
    cost: of each arc, small, possibly negative, but no cycle of open arcs may have a negative sum.
    """
    nodes = len(has_room)
    length = np.where(is_open, cost * (2 * nodes) + 1, UNREACHED)
    first_arcs = np.flatnonzero(np.diff(arcs.tail, prepend=-1))
    distances = np.where(has_room, 0, UNREACHED)
    # Shortest paths have fewer arcs than there are nodes, so one more round that changes something
    # proves a negative cycle.
    for _ in range(nodes + 1):
        nearer = np.minimum(
            distances, np.minimum.reduceat(distances[arcs.head] + length, first_arcs)
        )
        nearer[nearer > UNREACHED // 2] = UNREACHED
        if np.array_equal(nearer, distances):
            return distances
        distances = nearer
    raise AssertionError("a cycle of negative cost")


def on_shortest_paths(
    arcs: Arcs, cost: Int64Vector, is_open: NDArray[np.bool_], distances: Int64Vector
) -> NDArray[np.bool_]:
    """Return True for each open arc with which a shortest path of its tail begins.

    For the fair shares of the assignors (`fair.py`).
    """
    length = cost * (2 * len(distances)) + 1
    is_shortest: NDArray[np.bool_] = (
        is_open
        & (distances[arcs.tail] < UNREACHED)
        & (distances[arcs.tail] - distances[arcs.head] == length)
    )
    return is_shortest


def blocking_flow(arcs: Arcs, capacity: Int64Vector, balance: Int64Vector) -> Int64Vector:
    """Return what each arc carries so that every path from a surplus to room has a full arc.

    For the fair shares of the assignors (`fair.py`).
    balance: the surplus of each node, or below 0 its room; neither is exceeded. The arcs must form
    no cycle. Each step passes an arc, drops one for good, or ends a path that fills an arc, empties
    a surplus or uses up room: at most nodes * arcs steps.
    """
    bounds = np.searchsorted(arcs.tail, np.arange(len(balance) + 1))
    next_arc, end = bounds[:-1].tolist(), bounds[1:].tolist()
    tail, head, remaining = arcs.tail.tolist(), arcs.head.tolist(), capacity.tolist()
    room = np.maximum(-balance, 0).tolist()
    for source in np.flatnonzero(balance > 0).tolist():
        amount, node = int(balance[source]), source
        path: list[int] = []
        while amount:
            if room[node]:
                sent = min(amount, room[node], *(remaining[arc] for arc in path))
                room[node] -= sent
                amount -= sent
                for arc in path:
                    remaining[arc] -= sent
                path, node = [], source
            elif next_arc[node] < end[node]:
                arc = next_arc[node]
                if remaining[arc]:
                    path.append(arc)
                    node = head[arc]
                else:
                    next_arc[node] += 1
            elif path:
                node = tail[path.pop()]
                # Dropped for good: what lies behind it cannot take any more in this phase (Dinic).
                next_arc[node] += 1
            else:
                break
    return capacity - np.array(remaining, np.int64)
