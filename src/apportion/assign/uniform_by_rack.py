"""Racks in the `uniform` assignor: the same shares, with partitions near their members.

Problem. `uniform` has said how many partitions each member gets. As many partitions as possible are
to have a replica in the rack of their member, and as few as possible are to move for that. Racks
come before stickiness: a read from another rack costs at each fetch, a move once. They come after
balance: no member gets one partition more or less than without racks.

Method. Topics with the same subscribers are one pool: whoever gets a partition of one of them may
get any, so members can exchange them and keep their loads. In a pool, partitions with replicas in
the same racks are one class; members in the same rack share the room of that rack. A member first
keeps what it has and is near to it, up to its share. That is a flow from classes to racks, and it
is augmented to a largest one (Dinic, `flow.py`): no other choice has more partitions near. Then the
flow becomes partitions: those kept come first, in order; free ones near a rack are dealt to its
members in turn; the rest stays with its owner, if that has room, or is dealt in turn. A member
without a rack is near to everything.

Where nothing has changed, nothing moves: what is near was a largest flow before, and all of it is
kept. Moves are not always the fewest, because an augmented flow may pass on a partition that was
near already. Cost: a sort of the partitions, and a flow over classes and racks, which are few.

Example. Partitions 0 and 1 have replicas in rack r, 2 and 3 in rack s; a is in s, b in r, and a has
0 and 2, b has 1 and 3. a keeps 2, b keeps 1; 0 goes to b and 3 to a.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apportion.assign.flow import (
    UNBOUNDED,
    UNREACHED,
    Arcs,
    Int64Vector,
    blocking_flow,
    on_shortest_paths,
    shortest_distances,
)
from apportion.assign.racks import RackMatches, Racks
from apportion.assign.subscriptions import Subscribers, Subscriptions, Vector, subscribers_of
from apportion.assign.uniform import members_in_rounds


def moved_near(
    owner: Vector, fair: Vector, starts: Vector, subscriptions: Subscriptions, racks: Racks
) -> Vector:
    """Return the shares of `fair` with as many partitions near their members as possible.

    owner: who has them now. fair: new owners by `uniform`; the same array is returned where racks
    make no difference.
    """
    result = fair
    for positions, members in _pools(starts, subscribers_of(subscriptions, len(starts) - 1)):
        if not _matters(racks, positions, members):
            continue
        if result is fair:
            result = fair.copy()
        result[positions] = _Pool(
            owner[positions], fair[positions], positions, members, racks
        ).deal()
    return result


def _pools(starts: Vector, subscribers: Subscribers) -> Iterator[tuple[Int64Vector, Vector]]:
    """Yield the partitions of all topics with the same subscribers, and these members."""
    topics_of: dict[bytes, list[int]] = {}
    rows = [
        subscribers.members[first:end]
        for first, end in zip(subscribers.topic_starts, subscribers.topic_starts[1:], strict=False)
    ]
    for topic, members in enumerate(rows):
        if len(members) > 1 and starts[topic] < starts[topic + 1]:
            topics_of.setdefault(members.tobytes(), []).append(topic)
    for topics in topics_of.values():
        slices = [np.arange(starts[topic], starts[topic + 1]) for topic in topics]
        yield np.concatenate(slices).astype(np.int64), rows[topics[0]]


def _matters(racks: Racks, positions: Int64Vector, members: Vector) -> bool:
    """Return whether racks can make a difference: members and replicas are in different ones."""
    rack_of = racks.members[members]
    near = racks.replicas[positions]
    return bool((rack_of >= 0).any() and (rack_of != rack_of[0]).any() and (near != near[0]).any())


class _Pool:
    """Partitions that the same members may have, while they are dealt to them by rack."""

    def __init__(
        self, owner: Vector, fair: Vector, positions: Int64Vector, members: Vector, racks: Racks
    ) -> None:
        """Begin with nothing dealt. owner: who has each of the partitions now; -1 for none."""
        self.members = members
        # Members by their place in the pool from here on; the last place is for strangers.
        place = np.full(len(racks.members) + 1, -1, np.int64)
        place[members] = np.arange(len(members))
        self.owner = place[owner]
        self.room = np.bincount(place[fair], minlength=len(members))
        _, rack_of = np.unique(racks.members[members], return_inverse=True)
        self.rack_of = rack_of.astype(np.int64)
        classes, class_of = np.unique(racks.replicas[positions], axis=0, return_inverse=True)
        self.class_of = class_of.reshape(-1).astype(np.int64)
        names = np.unique(racks.members[members])
        self.near: RackMatches = np.where(names < 0, True, classes[:, names])
        self.dealt = np.full(len(positions), -1, np.int64)

    def deal(self) -> Vector:
        """Return the owner of each partition of the pool."""
        kept = self._keepable()
        flow = largest_flow(
            self.near,
            np.bincount(self.class_of, minlength=len(self.near)),
            np.bincount(self.rack_of, weights=self.room, minlength=self.near.shape[1]).astype(
                np.int64
            ),
            self._counts(kept, self.owner[kept]),
        )
        self._give(kept[self._first_of_each(kept, flow)])
        flow = flow - self._counts(np.flatnonzero(self.dealt >= 0), self.dealt[self.dealt >= 0])
        for rack in np.flatnonzero(flow.any(axis=0)).tolist():
            self._deal_to_rack(rack, flow[:, rack])
        self._keep_the_rest()
        free = np.flatnonzero(self.dealt < 0)
        self.dealt[free] = members_in_rounds(self.room)
        return self.members[self.dealt]

    def _keepable(self) -> Int64Vector:
        """Return partitions near their owners, of each owner as many as it may keep."""
        owned = np.flatnonzero(self.owner >= 0)
        near = owned[self.near[self.class_of[owned], self.rack_of[self.owner[owned]]]]
        return near[rank_in_group(self.owner[near]) < self.room[self.owner[near]]]

    def _counts(self, partitions: Int64Vector, places: Int64Vector) -> Int64Vector:
        """Return how many of the partitions each rack has of each class."""
        counts = np.zeros(self.near.shape, np.int64)
        np.add.at(counts, (self.class_of[partitions], self.rack_of[places]), 1)
        return counts

    def _first_of_each(self, kept: Int64Vector, flow: Int64Vector) -> NDArray[np.bool_]:
        """Return which of the kept partitions the flow leaves to the rack of their owner."""
        classes, racks = self.class_of[kept], self.rack_of[self.owner[kept]]
        return rank_in_group(classes * self.near.shape[1] + racks) < flow[classes, racks]

    def _give(self, partitions: Int64Vector) -> None:
        """Leave these partitions to their owners."""
        self.dealt[partitions] = self.owner[partitions]
        self.room = self.room - np.bincount(self.owner[partitions], minlength=len(self.room))

    def _deal_to_rack(self, rack: int, amounts: Int64Vector) -> None:
        """Deal so many free partitions of each class to the members of a rack, in turn."""
        free = np.flatnonzero(self.dealt < 0)
        free = free[rank_in_group(self.class_of[free]) < amounts[self.class_of[free]]]
        takers = members_in_rounds(np.where(self.rack_of == rack, self.room, 0))[: len(free)]
        self.dealt[free] = takers
        self.room = self.room - np.bincount(takers, minlength=len(self.room))

    def _keep_the_rest(self) -> None:
        """Leave partitions that are near nobody with room to their owners, if these have room."""
        free = np.flatnonzero((self.dealt < 0) & (self.owner >= 0))
        self._give(free[rank_in_group(self.owner[free]) < self.room[self.owner[free]]])


def rank_in_group(groups: Int64Vector) -> Int64Vector:
    """Return how many elements of the same group stand before each, for dealing by rack."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups) if len(groups) else np.zeros(0, np.int64)
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks


def largest_flow(
    near: RackMatches, supply: Int64Vector, demand: Int64Vector, flow: Int64Vector
) -> Int64Vector:
    """Return a largest flow of partitions to racks near them, augmented from a given one.

    near: shape (classes, racks). supply: partitions of each class. demand: room of each rack.
    """
    classes, racks = np.nonzero(near)
    if not len(classes):
        return flow
    # Every node has an arc: a class near no rack, and a rack near no class, has no part in it.
    class_names, tails = np.unique(classes, return_inverse=True)
    rack_names, heads = np.unique(racks, return_inverse=True)
    heads = heads + len(class_names)
    order = np.argsort(np.concatenate((tails, heads)), kind="stable")
    arcs = Arcs(np.concatenate((tails, heads))[order], np.concatenate((heads, tails))[order])
    carried = flow[classes, racks]
    balance = np.concatenate(
        (
            supply[class_names] - flow.sum(axis=1)[class_names],
            (flow.sum(axis=0) - demand)[rack_names],
        )
    )
    no_cost = np.zeros(len(order), np.int64)
    while True:
        capacity = np.concatenate((np.full(len(carried), UNBOUNDED), carried))[order]
        is_open = capacity > 0
        distances = shortest_distances(arcs, no_cost, is_open, balance < 0)
        if not ((balance > 0) & (distances < UNREACHED)).any():
            break
        used = np.flatnonzero(on_shortest_paths(arcs, no_cost, is_open, distances))
        sent = np.zeros(len(order), np.int64)
        sent[used] = blocking_flow(Arcs(arcs.tail[used], arcs.head[used]), capacity[used], balance)
        balance = balance - np.bincount(arcs.tail, sent, len(balance)).astype(np.int64)
        balance = balance + np.bincount(arcs.head, sent, len(balance)).astype(np.int64)
        unsorted = np.zeros(len(order), np.int64)
        unsorted[order] = sent
        forth, back = np.split(unsorted, 2)
        carried = carried + forth - back
    result = np.zeros_like(flow)
    result[classes, racks] = carried
    return result
