"""The rack-aware client-side `range` assignor (KIP-881): the plain shares, near to the members.

How many partitions each member gets is what the plain rule says. Which ones is chosen so that
members get partitions with a replica in their rack, as far as shares allow. Topics with the same
subscribers and the same number of partitions are shared out alike, so that co-partitioned topics
stay together.

Method: greedy, as Kafka's RangeAssignor. A single topic is matched member by member, co-partitioned
topics partition by partition with the racks that all of them share; the rest is filled in order.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.assign.range import range_assignment
from apportion.assign.subscriptions import Subscribers, Subscriptions, Vector, subscribers_of

RackMatches = NDArray[np.bool_]
"""(partitions, racks): True where the partition has a replica in the rack."""


class Racks(NamedTuple):
    """The racks of members and replicas.

    members: the rack of each member, -1 where it is unknown; such a member is near to everything.
    """

    members: Vector
    replicas: RackMatches


class TopicShares:
    """The owners of one topic, or of several co-partitioned ones, while they are shared out."""

    def __init__(self, subscribers: Vector, partitions: int) -> None:
        self.subscribers = subscribers
        self.owner = np.full(partitions, -1, np.int32)
        # how many may still get one more than the share
        self._share, self._larger = divmod(partitions, len(subscribers))
        self._taken = dict.fromkeys(subscribers.tolist(), 0)

    def spare(self, member: int) -> int:
        """Return how many more partitions the member may take; this never grows."""
        return max(0, self._share + (self._larger > 0) - self._taken[member])

    def assign(self, member: int, numbers: NDArray[np.int64]) -> None:
        """Assign these partition numbers to the member, at most `spare` of them."""
        self.owner[numbers] = member
        self._taken[member] += len(numbers)
        self._larger -= bool(len(numbers)) and self._taken[member] > self._share

    def assign_rest(self) -> None:
        """What nobody has goes to the members in order."""
        left = np.flatnonzero(self.owner < 0)
        for member in self.subscribers.tolist():
            taken, left = np.split(left, [self.spare(member)])
            self.assign(member, taken)


def range_by_rack(starts: Vector, subscriptions: Subscriptions, racks: Racks) -> Vector:
    """Return Kafka's rack-aware ranges; the plain ones where no topic has a nearer and a farther
    choice.
    """
    plain = range_assignment(starts, subscriptions)
    subscribers = subscribers_of(subscriptions, len(starts) - 1)
    chosen = [_is_rack_aware(topic, starts, subscribers, racks) for topic in range(len(starts) - 1)]
    if not any(chosen):
        return plain
    for topics in _copartitioned_topics(starts, subscribers):
        members = subscribers.members[
            subscribers.topic_starts[topics[0]] : subscribers.topic_starts[topics[0] + 1]
        ]
        shares = TopicShares(members, int(starts[topics[0] + 1] - starts[topics[0]]))
        near: RackMatches = np.asarray(
            np.stack([racks.replicas[starts[topic] : starts[topic + 1]] for topic in topics]).all(
                axis=0
            )
        )
        if len(topics) > 1 and (racks.members[members] >= 0).any():
            _match_by_partition(shares, near, racks.members)
        elif chosen[topics[0]]:
            _match_by_member(shares, near, racks.members)
        shares.assign_rest()
        for topic in topics:
            plain[starts[topic] : starts[topic + 1]] = shares.owner
    return plain


def _is_rack_aware(topic: int, starts: Vector, subscribers: Subscribers, racks: Racks) -> bool:
    """Return True if racks can matter: a subscriber is near some replica, and partitions differ in
    their racks.
    """
    near = racks.replicas[starts[topic] : starts[topic + 1]]
    of_members = racks.members[
        subscribers.members[subscribers.topic_starts[topic] : subscribers.topic_starts[topic + 1]]
    ]
    anywhere: RackMatches = np.asarray(near.any(axis=0))
    return bool(anywhere[of_members[of_members >= 0]].any() and (near != anywhere).any())


def _copartitioned_topics(starts: Vector, subscribers: Subscribers) -> Iterator[list[int]]:
    """Yield the topics with subscribers, those with the same subscribers and partition count
    together.
    """
    groups: dict[tuple[int, bytes], list[int]] = {}
    for topic in range(len(starts) - 1):
        members = subscribers.members[
            subscribers.topic_starts[topic] : subscribers.topic_starts[topic + 1]
        ]
        if len(members):
            groups.setdefault(
                (int(starts[topic + 1] - starts[topic]), members.tobytes()), []
            ).append(topic)
    yield from groups.values()


def _match_by_member(shares: TopicShares, near: RackMatches, rack_of: Vector) -> None:
    """Assign to each member in order the first free partitions near it, as many as it may take."""
    for member in shares.subscribers.tolist():
        free = shares.owner < 0
        if rack_of[member] >= 0:
            free &= near[:, rack_of[member]]
        shares.assign(member, np.flatnonzero(free)[: shares.spare(member)])


def _match_by_partition(shares: TopicShares, near: RackMatches, rack_of: Vector) -> None:
    """Assign each partition in order to the first member near it that may take one."""
    # rack -> its members, the last of which is the next to take one
    waiting: dict[int, list[int]] = {}
    for member in shares.subscribers[::-1].tolist():
        waiting.setdefault(int(rack_of[member]), []).append(member)
    everywhere = waiting.pop(-1, [])
    for number in range(len(near)):
        queues = [everywhere, *(queue for rack, queue in waiting.items() if near[number, rack])]
        for queue in queues:
            while queue and not shares.spare(queue[-1]):
                queue.pop()
        member = min((queue[-1] for queue in queues if queue), default=-1)
        if member >= 0:
            shares.assign(member, np.array([number]))
