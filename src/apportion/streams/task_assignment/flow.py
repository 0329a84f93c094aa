"""Min-cost flow: the cheapest change of a bipartite selection after which no surplus can move.

Problem. Nodes of two kinds (say tasks and clients), some edges selected. A node may have a surplus
(too many selected edges) or spare room. Find the cheapest change of the selection that brings as
much surplus as possible to spare room.

Method: min-cost flow with unit capacities, by successive shortest paths. In the residual graph an
unselected edge leads from left to right and costs its cost; a selected edge leads back and costs
the negative. Shortest distances to spare room come from Bellman-Ford (`assign/flow.py`), because
costs may be negative; each round sends a blocking flow along all shortest paths at once and flips
their edges.

Why it ends: each round takes at least one off the surplus, and only shortest paths are used, so no
negative cycle arises. Cost: a round is O(nodes * edges); in practice there are few rounds, as paths
of equal length go together.

Example. Left 0 is joined to right 1 and 2, and only 0-1 is selected. Right 1 has a surplus of 1,
right 2 has room for 1 (balance +1 and -1). The path 1 -> 0 -> 2 drops 0-1 and selects 0-2.
"""

from typing import NamedTuple

import numpy as np

from apportion.assign.flow import (
    UNREACHED,
    Arcs,
    blocking_flow,
    on_shortest_paths,
    shortest_distances,
)
from apportion.streams.task_assignment.client_states import Bools, Ints, Longs


class Edges(NamedTuple):
    """The edges of a bipartite graph: edge i joins nodes `left[i]` and `right[i]`.

    All nodes have one common numbering. cost: of selecting an edge.
    """

    left: Ints | Longs
    right: Ints | Longs
    cost: Longs


def min_cost_rebalance(edges: Edges, selected: Bools, balance: Longs) -> Bools:
    """Return the cheapest selection of edges in which no surplus can reach spare room any more.

    For Streams task assignment, whose tasks and clients are the nodes. balance: the surplus of each
    node, or below 0 its spare room. Edges selected at the start are free.
    """
    nodes, ends = np.unique(np.concatenate((edges.left, edges.right)), return_inverse=True)
    left, right = np.split(ends, 2)
    order = np.argsort(ends, kind="stable")
    # Every edge is two arcs of the residual graph; exactly one of them is open at a time.
    arcs = Arcs(ends[order], np.concatenate((right, left))[order])
    edge = order % max(len(left), 1)
    is_forward = order < len(left)
    cost = np.where(is_forward, edges.cost[edge], -edges.cost[edge])
    selected, balance = selected.copy(), balance[nodes]
    while (balance > 0).any() and (balance < 0).any():
        is_open = selected[edge] != is_forward
        distance = shortest_distances(arcs, cost, is_open, balance < 0)
        if not (distance[balance > 0] < UNREACHED).any():
            break
        chosen = np.flatnonzero(on_shortest_paths(arcs, cost, is_open, distance))
        path_arcs = Arcs(arcs.tail[chosen], arcs.head[chosen])
        carried = blocking_flow(path_arcs, np.ones(len(chosen), np.int64), balance)
        np.subtract.at(balance, path_arcs.tail, carried)
        np.add.at(balance, path_arcs.head, carried)
        flipped = edge[chosen[carried > 0]]
        selected[flipped] = ~selected[flipped]
    return selected
