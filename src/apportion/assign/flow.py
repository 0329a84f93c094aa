"""The two steps of a flow of least cost through a network: the cheapest ways to nodes with room, and a flow along them."""

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


def shortest_distances(arcs: Arcs, cost: Int64Vector, is_open: NDArray[np.bool_], has_room: NDArray[np.bool_]) -> Int64Vector:
    """Of each node, the length of its way over open arcs to a node with room; UNREACHED where there is none.

    A way is the shorter the less it costs, and at equal cost the fewer arcs it has: so the ways form no cycle.
    cost: of each arc, small and possibly below 0, but not below 0 in all around any cycle.
    """
    nodes = len(has_room)
    length = np.where(is_open, cost * (2 * nodes) + 1, UNREACHED)
    first = np.flatnonzero(np.diff(arcs.tail, prepend=-1))
    reach = np.where(has_room, 0, UNREACHED)
    for _ in range(nodes + 1):
        nearer = np.minimum(reach, np.minimum.reduceat(reach[arcs.head] + length, first))
        nearer[nearer > UNREACHED // 2] = UNREACHED
        if np.array_equal(nearer, reach):
            return reach
        reach = nearer
    raise AssertionError("a cycle of negative cost")


def on_shortest_paths(arcs: Arcs, cost: Int64Vector, is_open: NDArray[np.bool_], reach: Int64Vector) -> NDArray[np.bool_]:
    """True for each open arc that begins a cheapest way of its tail."""
    length = cost * (2 * len(reach)) + 1
    chosen: NDArray[np.bool_] = is_open & (reach[arcs.tail] < UNREACHED) & (reach[arcs.tail] - reach[arcs.head] == length)
    return chosen


def blocking_flow(arcs: Arcs, capacity: Int64Vector, balance: Int64Vector) -> Int64Vector:
    """What each arc carries so that no path with capacity is left from a node with surplus to one with room.

    balance: of each node, its surplus, or below 0 its room; what is sent exceeds neither. The arcs must form no cycle. Each step
    passes an arc, drops one, or ends a path that empties an arc, a surplus or a room: at most nodes times arcs of them.
    """
    bounds = np.searchsorted(arcs.tail, np.arange(len(balance) + 1))
    following, end = bounds[:-1].tolist(), bounds[1:].tolist()
    tail, head, left = arcs.tail.tolist(), arcs.head.tolist(), capacity.tolist()
    room = np.maximum(-balance, 0).tolist()
    for source in np.flatnonzero(balance > 0).tolist():
        amount, node = int(balance[source]), source
        path: list[int] = []
        while amount:
            if room[node]:
                sent = min(amount, room[node], *(left[arc] for arc in path))
                room[node] -= sent
                amount -= sent
                for arc in path:
                    left[arc] -= sent
                path, node = [], source
            elif following[node] < end[node]:
                arc = following[node]
                if left[arc]:
                    path.append(arc)
                    node = head[arc]
                else:
                    following[node] += 1
            elif path:
                node = tail[path.pop()]
                following[node] += 1
            else:
                break
    return capacity - np.array(left, np.int64)
