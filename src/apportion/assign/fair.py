"""The fair shares of members with different subscriptions: exact, and with the fewest moves any fair answer can have.

Fair means min-max fair: the largest load is as small as it can be, then the second largest, and so on. For whole partitions this
holds exactly when no chain of hand-overs (a gives one of topic t to b, b one of topic u to c, ...) leads from a member to one
with two partitions less or fewer still.

`fair_counts` works on claims (one member that wants one topic) and on how many partitions each is granted; which ones they are
does not matter here. A `FairBlock` is a set of members and of topics that go to them alone. It tries to bring every load to its
mean, rounded down or up. If it can, all are fair. If some surplus can reach no member with room, that cuts the block in two:
members from which nothing can be passed on have at least the mean, all others at most, and no fair answer gives a topic of one part
to a member of the other (docs/assignors.md says why).
So each part is a block of its own, and n members are cut at most n - 1 times.

The chains start from what the members hold, and granting a claim more than it holds is one move. Chains of the least cost go
first (successive shortest paths, which yield flows of least cost), so the moves in a level block are the fewest that any fair
answer has.
"""

import numpy as np

from apportion.assign.flow import UNBOUNDED, UNREACHED, Arcs, Int64Vector, blocking_flow, on_shortest_paths, shortest_distances
from apportion.assign.subscriptions import Subscribers, Vector


def fair_counts(sizes: Int64Vector, subscribers: Subscribers, held: Int64Vector) -> Int64Vector:
    """How many partitions each claim is granted.

    sizes: partitions of each topic. held: partitions that each claim has now.
    """
    topics = subscribers.topics
    granted = np.zeros(len(held), np.int64)
    claims = np.flatnonzero(sizes[topics])
    unsettled = [claims] if len(claims) else []
    while unsettled:
        claims = unsettled.pop()
        block = FairBlock(topics[claims], subscribers.members[claims], held[claims], sizes)
        block.run_flow()
        if block.is_level:
            granted[claims] = block.granted
        else:
            unsettled += (claims[part] for part in block.split_at_cut())
    return granted


class FairBlock:
    """Members, the topics that go to them alone, and how far each is from its fair share of the block.

    The nodes are the topics, the members and the hub. `balance` is a topic's partitions without a member, a member's load above
    its share, or, below 0, the room it has. A share is `low` or one more, and `larger` says whose is larger. A member with the
    smaller share passes one partition to the hub by taking the larger; the hub's balance says how many have it too many.
    """

    def __init__(self, topics: Vector, members: Vector, held: Int64Vector, sizes: Int64Vector) -> None:
        names, self.topic = compress_indices(topics)
        self.member = compress_indices(members)[1]
        self.held = held
        self.granted = held.copy()
        sizes = sizes[names]
        loads = np.bincount(self.member, weights=held).astype(np.int64)
        self.smaller_share = int(sizes.sum()) // len(loads)
        self.has_larger_share = np.clip(loads - self.smaller_share, 0, 1)
        waiting = sizes - np.bincount(self.topic, weights=held).astype(np.int64)
        shares = self.smaller_share + self.has_larger_share
        self.balance = np.concatenate((waiting, loads - shares, [shares.sum() - sizes.sum()]))
        self.topics, self.hub = len(sizes), len(self.balance) - 1
        member, hub = self.topics + self.member, np.full(len(loads), self.hub)
        everyone = self.topics + np.arange(len(loads))
        tail = np.concatenate((self.topic, member, everyone, hub))
        head = np.concatenate((member, self.topic, hub, everyone))
        self.order = np.argsort(tail, kind="stable")
        self.arcs = Arcs(tail[self.order], head[self.order])
        self.reach = np.zeros(0, np.int64)

    @property
    def is_level(self) -> bool:
        """True where every partition has a member and every member its share."""
        return not self.balance.any()

    def run_flow(self) -> None:
        """The block is level, or no chain leads from a surplus to room. Each round takes at least one off the surplus."""
        self.fill_least_loaded()
        while self.augment():
            pass

    def fill_least_loaded(self) -> None:
        """No partition waits whose topic has a subscriber below `low`; each topic's went to the least loaded first.

        These are cheapest chains already: one move each. They are done first and at once because they spread a topic.
        """
        bounds = np.append(np.flatnonzero(np.diff(self.topic, prepend=-1)), len(self.topic))
        waiting = self.balance[: self.topics]
        per_subscriber = waiting / np.diff(bounds)
        for topic in np.argsort(-per_subscriber, kind="stable")[: np.count_nonzero(waiting)]:
            claims = slice(bounds[topic], bounds[topic + 1])
            members = self.topics + self.member[claims]
            poured = water_fill(-self.balance[members], int(self.balance[topic]))
            self.granted[claims] += poured
            self.balance[members] += poured
            self.balance[topic] -= poured.sum()

    def augment(self) -> bool:
        """Surplus has gone down cheapest chains to members with room; False, and nothing has, when no chain is left."""
        below = self.granted < self.held
        above = self.granted > self.held
        capacity = np.concatenate(
            (
                np.where(below, self.held - self.granted, UNBOUNDED),
                np.where(above, self.granted - self.held, self.granted),
                1 - self.has_larger_share,
                self.has_larger_share,
            )
        )[self.order]
        cost = np.concatenate((~below * 1, above * -1, 0 * self.has_larger_share, 0 * self.has_larger_share))[self.order]
        is_open = capacity > 0
        self.reach = shortest_distances(self.arcs, cost, is_open, self.balance < 0)
        if not ((self.balance > 0) & (self.reach < UNREACHED)).any():
            return False
        chosen = np.flatnonzero(on_shortest_paths(self.arcs, cost, is_open, self.reach))
        arcs = Arcs(self.arcs.tail[chosen], self.arcs.head[chosen])
        self._apply_flow(self.order[chosen], blocking_flow(arcs, capacity[chosen], self.balance))
        return True

    def _apply_flow(self, arcs: Int64Vector, amounts: Int64Vector) -> None:
        """Each of these arcs, numbered as they were before they were sorted, has carried its amount."""
        carried = np.zeros(len(self.order), np.int64)
        carried[arcs] = amounts
        claims, members = len(self.held), len(self.has_larger_share)
        given, taken, raised, lowered = np.split(carried, np.cumsum((claims, claims, members)))
        self.granted += given - taken
        self.has_larger_share += raised - lowered
        sorted_carried = carried[self.order]
        nodes = len(self.balance)
        self.balance -= np.bincount(self.arcs.tail, sorted_carried, nodes).astype(np.int64)
        self.balance += np.bincount(self.arcs.head, sorted_carried, nodes).astype(np.int64)

    def split_at_cut(self) -> tuple[Int64Vector, Int64Vector]:
        """The claims of the two blocks that this one falls into: those from which nothing more can be passed on, and the others.

        Claims between them are in neither: they are granted nothing.
        """
        reached = self.reach < UNREACHED
        topic, member = reached[self.topic], reached[self.topics + self.member]
        parts = np.flatnonzero(~topic & ~member), np.flatnonzero(topic & member)
        assert len(parts[0]), "a block that is not level has a side with too much and one with room"
        assert len(parts[1]), "a block that is not level has a side with too much and one with room"
        return parts


def compress_indices(names: Vector) -> tuple[Int64Vector, Int64Vector]:
    """The distinct names, ascending, and of each name its place among them."""
    present = np.zeros(int(names.max()) + 1, np.int64)
    present[names] = 1
    return np.flatnonzero(present), (np.cumsum(present) - 1)[names]


def water_fill(room: Int64Vector, amount: int) -> Int64Vector:
    """How much of `amount` each vessel takes when the one with the most room takes first; what no vessel has room for is left."""
    room = np.maximum(room, 0)
    if room.sum() <= amount:
        return room
    depths = -np.sort(-room)
    poured = np.cumsum(depths) - depths * np.arange(1, len(depths) + 1)  # brings the first i vessels down to the room of i
    vessels = int(np.searchsorted(poured, amount, side="right"))
    # Down to this much room in each of those vessels, rounded up; the rest goes to the first of them, one each.
    level = -((amount - int(depths[:vessels].sum())) // vessels)
    taken = np.maximum(room - level, 0)
    taken[np.flatnonzero(room >= level)[: amount - int(taken.sum())]] += 1
    return taken
