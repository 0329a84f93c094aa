"""Min-max fair shares of members with different subscriptions, with the fewest moves.

Problem. Members subscribe to different topics. Loads are to be min-max fair: the largest load is as
small as it can be, then the second largest, and so on. Among all fair answers, as few partitions as
possible are to move from a member that owns them and still subscribes to their topic. For whole
partitions an answer is fair exactly when no chain of exchanges (a gives one partition of topic t to
b, b one of topic u to c, ...) leads from a member to one with at least two partitions less.

Method. Count partitions by pair (one member, one topic it subscribes to); which partition is which
does not matter until the end. A `FairBlock` is a set of members and of topics that only they get.
1. Each member's share is the mean load of the block, rounded down (`smaller_share`) or up. The
   current counts are a flow from topics to members; unowned partitions go to the least loaded
   first.
2. Surplus above a share flows along cheapest chains to members with room: min-cost flow by
   successive shortest paths, one blocking flow along all shortest chains in each round (`flow.py`).
   Giving a pair more than it held is a move and costs 1; giving back what it held costs nothing or
   refunds a move.
3. If every member has its share, the block is fair, and by the theory of min-cost flow its moves
   are the fewest. If some surplus can reach no member with room, the nodes from which none can be
   reached are one side of a minimum cut: their members have at least the mean, all others at most,
   and no fair answer gives a topic of one side to a member of the other (docs/assignors.md has the
   proof). The two sides become blocks of their own.

Why it ends: each round takes at least one partition off the surplus, and a block of n members is
cut at most n - 1 times. Cost: a round is a Bellman-Ford over the pairs; few rounds are needed
because all chains of equal cost go together.

Words. Pair: a member and a topic it subscribes to. Level: of a block in which every partition has a
member and every member its share. Room: how many partitions a member lacks to its share. Surplus: a
member's partitions above its share, or a topic's partitions without a member. Chain: a path along
which surplus can reach room, by giving up partitions of some pairs for others. `granted`: what the
flow gives each pair now; `owned`: what it had before.

Example. Topic t (4 partitions) has the subscribers a and b, topic u (2) has b alone; nothing is
owned. The mean is 3: u gives 2 to b, t gives 3 to a and 1 to b. If u had 6 partitions, the mean
would be 5, but b has 6 of u alone and nothing of b can pass to a: the cut separates {b, u} from
{a, t}, and a gets all of t.
"""

import numpy as np

from apportion.assign.flow import (
    UNBOUNDED,
    UNREACHED,
    Arcs,
    Int64Vector,
    blocking_flow,
    on_shortest_paths,
    shortest_distances,
)
from apportion.assign.subscriptions import Subscribers, Vector


def fair_counts(sizes: Int64Vector, subscribers: Subscribers, owned: Int64Vector) -> Int64Vector:
    """Return how many partitions each pair (member, topic) is granted, for the sticky assignors.

    sizes: the partitions of each topic. owned: the partitions that each pair has now.
    """
    topics = subscribers.topics
    granted = np.zeros(len(owned), np.int64)
    pairs = np.flatnonzero(sizes[topics])
    blocks = [pairs] if len(pairs) else []
    # A stack and no recursion: a block of n members may be cut n - 1 times.
    while blocks:
        pairs = blocks.pop()
        block = FairBlock(topics[pairs], subscribers.members[pairs], owned[pairs], sizes)
        block.run_flow()
        if block.is_level:
            granted[pairs] = block.granted
        else:
            blocks += (pairs[part] for part in block.split_at_cut())
    return granted


class FairBlock:
    """The flow network of some members and of topics that only they get.

    Nodes: the topics, the members and a hub. `balance` of a topic: its partitions without a member;
    of a member: its load above its share, or, below 0, its room. Which members have the larger
    share (`has_larger_share`) is part of the flow: a member with the smaller share passes one
    partition to the hub by taking the larger one, and the balance of the hub counts how many more
    larger shares there are than the sum of partitions allows.
    """

    def __init__(
        self, topics: Vector, members: Vector, owned: Int64Vector, sizes: Int64Vector
    ) -> None:
        """Build the flow network of a block from its (topic, member) pairs.

        topics, members: of each pair, in step. owned: how many partitions of the topic the member
        owns now.
        sizes: the partition counts of all topics.
        """
        names, self.topic = compress_indices(topics)
        self.member = compress_indices(members)[1]
        self.owned = owned
        self.granted = owned.copy()
        sizes = sizes[names]
        loads = np.bincount(self.member, weights=owned).astype(np.int64)
        self.smaller_share = int(sizes.sum()) // len(loads)
        self.has_larger_share = np.clip(loads - self.smaller_share, 0, 1)
        unowned = sizes - np.bincount(self.topic, weights=owned).astype(np.int64)
        shares = self.smaller_share + self.has_larger_share
        self.balance = np.concatenate((unowned, loads - shares, [shares.sum() - sizes.sum()]))
        self.topics, self.hub = len(sizes), len(self.balance) - 1
        member, hub = self.topics + self.member, np.full(len(loads), self.hub)
        all_members = self.topics + np.arange(len(loads))
        tail = np.concatenate((self.topic, member, all_members, hub))
        head = np.concatenate((member, self.topic, hub, all_members))
        self.order = np.argsort(tail, kind="stable")
        self.arcs = Arcs(tail[self.order], head[self.order])
        self.distances = np.zeros(0, np.int64)

    @property
    def is_level(self) -> bool:
        """True if every partition of the block has a member and every member its share."""
        return not self.balance.any()

    def run_flow(self) -> None:
        """Solve the block's min-cost flow: level it as far as chains lead from surplus to room.

        The flow ends, since each round lowers the surplus.
        """
        self.fill_least_loaded()
        while self.augment():
            pass

    def fill_least_loaded(self) -> None:
        """Give unowned partitions to subscribers of their topic with room, least loaded first.

        Such moves are cheapest chains already, of one move each. Doing them first, topic by topic,
        spreads each topic over its members and saves most rounds of `augment`.
        """
        bounds = np.append(np.flatnonzero(np.diff(self.topic, prepend=-1)), len(self.topic))
        unowned = self.balance[: self.topics]
        per_subscriber = unowned / np.diff(bounds)
        for topic in np.argsort(-per_subscriber, kind="stable")[: np.count_nonzero(unowned)]:
            pairs = slice(bounds[topic], bounds[topic + 1])
            members = self.topics + self.member[pairs]
            filled = water_fill(-self.balance[members], int(self.balance[topic]))
            self.granted[pairs] += filled
            self.balance[members] += filled
            self.balance[topic] -= filled.sum()

    def augment(self) -> bool:
        """Send surplus along cheapest chains to members with room; return False if there is none.

        This is one round of successive shortest paths. It leaves `distances`, each node's distance
        to room, for `split_at_cut`.
        """
        # The residual graph, arcs in this order: topic -> member (give the pair one more), member
        # -> topic (take one back), member -> hub (take the larger share), hub -> member (take that
        # away again). What a pair gets beyond what it owned costs a move, and refunds it if taken
        # back.
        below = self.granted < self.owned
        above = self.granted > self.owned
        capacity = np.concatenate(
            (
                np.where(below, self.owned - self.granted, UNBOUNDED),
                np.where(above, self.granted - self.owned, self.granted),
                1 - self.has_larger_share,
                self.has_larger_share,
            )
        )[self.order]
        cost = np.concatenate(
            (~below * 1, above * -1, 0 * self.has_larger_share, 0 * self.has_larger_share)
        )[self.order]
        is_open = capacity > 0
        self.distances = shortest_distances(self.arcs, cost, is_open, self.balance < 0)
        # No surplus reaches room any more: these distances are the minimum cut that `split_at_cut`
        # uses.
        if not ((self.balance > 0) & (self.distances < UNREACHED)).any():
            return False
        shortest = np.flatnonzero(on_shortest_paths(self.arcs, cost, is_open, self.distances))
        arcs = Arcs(self.arcs.tail[shortest], self.arcs.head[shortest])
        self._apply_flow(
            self.order[shortest], blocking_flow(arcs, capacity[shortest], self.balance)
        )
        return True

    def _apply_flow(self, arcs: Int64Vector, amounts: Int64Vector) -> None:
        """Add a round's flow to the block, in the search for fair shares of the partitions.

        arcs: numbers from before the sort by tail.
        """
        carried = np.zeros(len(self.order), np.int64)
        carried[arcs] = amounts
        pairs, members = len(self.owned), len(self.has_larger_share)
        added, removed, enlarged, reduced = np.split(carried, np.cumsum((pairs, pairs, members)))
        self.granted += added - removed
        self.has_larger_share += enlarged - reduced
        sorted_carried = carried[self.order]
        nodes = len(self.balance)
        self.balance -= np.bincount(self.arcs.tail, sorted_carried, nodes).astype(np.int64)
        self.balance += np.bincount(self.arcs.head, sorted_carried, nodes).astype(np.int64)

    def split_at_cut(self) -> tuple[Int64Vector, Int64Vector]:
        """Return the pairs of the two smaller blocks at the minimum cut: surplus side, room side.

        Called when `augment` finds no further chain though the block is not level. The first side
        has no chain to a member with room (`distances` is UNREACHED), the second has. Pairs that
        join the two sides are in neither: no fair answer grants them anything (see the method's
        third step above).
        """
        reached = self.distances < UNREACHED
        topic, member = reached[self.topic], reached[self.topics + self.member]
        sides = np.flatnonzero(~topic & ~member), np.flatnonzero(topic & member)
        assert len(sides[0]), "a block that is not level has a side with a surplus"
        assert len(sides[1]), "a block that is not level has a side with room"
        return sides


def compress_indices(names: Vector) -> tuple[Int64Vector, Int64Vector]:
    """Return the distinct values, ascending, and the index of each value among them."""
    present = np.zeros(int(names.max()) + 1, np.int64)
    present[names] = 1
    return np.flatnonzero(present), (np.cumsum(present) - 1)[names]


def water_fill(room: Int64Vector, amount: int) -> Int64Vector:
    """Return how many of `amount` partitions each member gets: the one with most room is next.

    room: how many each member may take. This is water filling: afterwards all members that got some
    have the same room left, or one less; of these the first get one more. An amount above the sum
    of all room is cut to it.
    """
    room = np.maximum(room, 0)
    if room.sum() <= amount:
        return room
    # From here on amount < sum of room, so that at least one member has room and is used.
    depths = -np.sort(-room)
    # Element i: the amount that brings all members before i down to the room of member i.
    filled_before = np.cumsum(depths) - depths * np.arange(1, len(depths) + 1)
    members_used = int(np.searchsorted(filled_before, amount, side="right"))
    # Down to this much room in each of those members, rounded up; the rest goes to the first of
    # them.
    level = -((amount - int(depths[:members_used].sum())) // members_used)
    added = np.maximum(room - level, 0)
    added[np.flatnonzero(room >= level)[: amount - int(added.sum())]] += 1
    return added
