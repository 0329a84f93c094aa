"""Owners of partitions by weight: the largest share is to be small, and little is to move.

The problem. A partition has a weight, such as its lag, and a member's share is the sum of the
weights of its partitions. The group is done when the member with the largest share is. Scheduling
jobs on machines is the same problem ("makespan"), and NP-hard, so this is an approximation. And a
partition that moves costs something, too, which the weights do not show.

The method. Three assignments are compared, each with more moves than the one before:

1. Every partition stays with its owner. Those without one are dealt out, the heaviest first, each
   to the subscriber with the smallest share: Graham's rule, longest processing time first (LPT).
2. From there single partitions move, away from the member with the largest share, and to a
   subscriber where the larger of the two shares becomes as small as possible. A partition moves
   only if the larger of the two shares falls by a tenth or more.
3. All partitions are dealt out anew by LPT, whoever owns them. That is taken only if the largest
   share is a tenth or more below that of the second assignment.

So nothing moves when nothing changed: the second begins where it ended, and the third gives what it
gave before. Each move lowers the sum of the squares of the shares, so the moves end. If all members
subscribe to all topics, LPT's largest share is less than 4/3 of the best possible (Graham 1969),
and the result's is at most a ninth above LPT's.

The cost: P log P for P partitions, and for each move the number of members, and the partitions of
those with the largest share.

An example: partitions weigh 6, 2, 2, 2 and one member owns them all (12); a second one joins. The
6 moves (6 and 6), which halves the larger share. Had the shares been 6.2 and 5.8, nothing would.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from apportion.assign.subscriptions import (
    Subscriptions,
    Vector,
    check_owner,
    check_starts,
    subscribers_of,
)

Load = tuple[int, int]
"""A member's share, and the number of its partitions, which decides between equal shares."""


def weighted(
    owner: Vector, starts: Vector, subscriptions: Subscriptions, weights: Sequence[int]
) -> Vector:
    """Return owners whose largest share of the weights is small, with few moves.

    weights: of each partition, 0 or more. A partition has owner -1 in the result only if no member
    subscribes to its topic. Raises ValueError as the other assignors do.
    """
    check_starts(starts, len(owner), "starts", "partitions")
    check_owner(owner, subscriptions.members)
    shares = _Shares(starts, subscriptions, weights)
    shares.keep(owner)
    shares.improve()
    fresh = _Shares(starts, subscriptions, weights)
    fresh.keep(np.full(len(owner), -1, np.int32))
    fresh.improve()
    if not is_worth_it(shares.largest, fresh.largest):
        return np.array(shares.owner, np.int32)
    owners = fresh.renamed(owner) if subscriptions.is_homogeneous else fresh.owner
    return np.array(owners, np.int32)


def is_worth_it(before: int, after: int) -> bool:
    """Return whether a share falls by a tenth or more: less is not worth a move."""
    return after < before and 10 * after <= 9 * before


class _Shares:
    """The owners of all partitions, and the members' shares, while they are decided."""

    def __init__(self, starts: Vector, subscriptions: Subscriptions, weights: Sequence[int]):
        self.owner = [-1] * int(starts[-1])
        self.loads: list[Load] = [(0, 0)] * subscriptions.members
        self._weights = weights
        topics = len(starts) - 1
        topic_starts, members = subscribers_of(subscriptions, topics)
        # Topics with the same subscribers share one tuple, and one heap when they are dealt out.
        self._subscribers = [
            tuple(members[first:end].tolist()) for first, end in pairwise(topic_starts.tolist())
        ]
        self._is_subscribed = {
            (topic, member): None for topic, each in enumerate(self._subscribers) for member in each
        }
        self._partitions: list[dict[int, None]] = [{} for _ in range(subscriptions.members)]
        self._topic_of = np.repeat(np.arange(topics), np.diff(starts)).tolist()

    @property
    def largest(self) -> int:
        """The largest share of a member; 0 without members."""
        return max((weight for weight, _ in self.loads), default=0)

    def keep(self, owner: Vector) -> None:
        """Leave partitions with their owners; deal out the others by LPT."""
        free = []
        for partition, member in enumerate(owner.tolist()):
            if (self._topic_of[partition], member) in self._is_subscribed:
                self._give(partition, member)
            else:
                free.append(partition)
        heaps: dict[tuple[int, ...], list[tuple[Load, int]]] = {}
        for partition in sorted(free, key=lambda each: (-self._weights[each], each)):
            subscribers = self._subscribers_of(partition)
            if not subscribers:
                continue
            if (heap := heaps.get(subscribers)) is None:
                heap = heaps[subscribers] = [(self.loads[each], each) for each in subscribers]
                heapify(heap)
            self._give(partition, self._pop_smallest(heap))
            heappush(heap, (self.loads[self.owner[partition]], self.owner[partition]))

    def _pop_smallest(self, heap: list[tuple[Load, int]]) -> int:
        """Take the member with the smallest share off a heap; its entry there may be outdated."""
        while True:
            load, member = heappop(heap)
            if load == self.loads[member]:
                return member
            # Shares only grow while partitions are dealt out: a smaller one may be behind it.
            heappush(heap, (self.loads[member], member))

    def improve(self) -> None:
        """Move single partitions while that is worth it."""
        while self.largest:
            largest = self.largest
            # All of them, or the result would depend on who comes first.
            heaviest = [member for member, load in enumerate(self.loads) if load[0] == largest]
            moves = [move for member in heaviest for move in self._moves_from(member)]
            if not moves:
                return
            larger, _, partition, member = min(moves)
            if not is_worth_it(largest, larger):
                return
            self._take(partition)
            self._give(partition, member)

    def _moves_from(self, giver: int) -> list[tuple[int, int, int, int]]:
        """Return each partition of `giver` with its best new owner, as something to sort by.

        The larger of the two shares after the move comes first, and then the weight, negative: so
        the heavier of two partitions moves. The new owner is the subscriber with the smallest
        share.
        """
        takers: dict[tuple[int, ...], int] = {}
        moves = []
        for partition in self._partitions[giver]:
            subscribers = self._subscribers_of(partition)
            if len(subscribers) < 2:
                continue
            if subscribers not in takers:
                others = (each for each in subscribers if each != giver)
                takers[subscribers] = min(others, key=lambda each: (self.loads[each], each))
            weight, taker = self._weights[partition], takers[subscribers]
            larger = max(self.loads[giver][0] - weight, self.loads[taker][0] + weight)
            moves.append((larger, -weight, partition, taker))
        return moves

    def renamed(self, owner: Vector) -> list[int]:
        """Return the owners if each member gets the share that has most of what it owned.

        Only where all members subscribe to the same topics: there any may have any share.
        """
        overlaps: dict[tuple[int, int], int] = {}
        for now, before in zip(self.owner, owner.tolist(), strict=True):
            if now >= 0 and before >= 0:
                overlaps[now, before] = overlaps.get((now, before), 0) + 1
        names: dict[int, int] = {}
        taken: dict[int, None] = {}
        for now, before in sorted(overlaps, key=lambda pair: (-overlaps[pair], pair)):
            if now not in names and before not in taken:
                names[now], taken[before] = before, None
        free = (each for each in range(len(self.loads)) if each not in taken)
        for now in range(len(self.loads)):
            if now not in names:
                names[now] = next(free)
        return [names[each] if each >= 0 else -1 for each in self.owner]

    def _subscribers_of(self, partition: int) -> tuple[int, ...]:
        return self._subscribers[self._topic_of[partition]]

    def _give(self, partition: int, member: int) -> None:
        self.owner[partition] = member
        self._partitions[member][partition] = None
        weight, count = self.loads[member]
        self.loads[member] = weight + self._weights[partition], count + 1

    def _take(self, partition: int) -> None:
        member = self.owner[partition]
        del self._partitions[member][partition]
        weight, count = self.loads[member]
        self.loads[member] = weight - self._weights[partition], count - 1
