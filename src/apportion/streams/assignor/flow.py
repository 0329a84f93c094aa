"""Who gets the odd ones: a set of edges between two kinds of nodes, changed along the cheapest ways until nobody has too much."""

from typing import NamedTuple

import numpy as np

from apportion.assign.flow import UNREACHED, Arcs, blocking_flow, on_shortest_paths, shortest_distances
from apportion.streams.assignor.client_states import Bools, Ints, Longs


class Edges(NamedTuple):
    """Edge i joins `left[i]` and `right[i]`, numbers of one numbering; costs `cost[i]` when it is taken."""

    left: Ints | Longs
    right: Ints | Longs
    cost: Longs


def min_cost_rebalance(edges: Edges, taken: Bools, balance: Longs) -> Bools:
    """Which edges are taken once no surplus can reach a room any more; at the least cost.

    A way leads over an edge from left to right by taking it, and from right to left by giving it up. balance: of each node its
    surplus, or below 0 its room. Edges that are taken at the start cost nothing.
    """
    nodes, ends = np.unique(np.concatenate((edges.left, edges.right)), return_inverse=True)
    left, right = np.split(ends, 2)
    order = np.argsort(ends, kind="stable")
    arcs = Arcs(ends[order], np.concatenate((right, left))[order])
    edge = order % max(len(left), 1)
    forth = order < len(left)
    cost = np.where(forth, edges.cost[edge], -edges.cost[edge])
    taken, balance = taken.copy(), balance[nodes]
    while (balance > 0).any() and (balance < 0).any():
        is_open = taken[edge] != forth
        reach = shortest_distances(arcs, cost, is_open, balance < 0)
        if not (reach[balance > 0] < UNREACHED).any():
            break
        chosen = np.flatnonzero(on_shortest_paths(arcs, cost, is_open, reach))
        way = Arcs(arcs.tail[chosen], arcs.head[chosen])
        carried = blocking_flow(way, np.ones(len(chosen), np.int64), balance)
        np.subtract.at(balance, way.tail, carried)
        np.add.at(balance, way.head, carried)
        flipped = edge[chosen[carried > 0]]
        taken[flipped] = ~taken[flipped]
    return taken
