"""Racks of members and replicas, and the rack-aware `range` assignor (KIP-881).

Each member gets as many partitions as by the plain rule of `range.py`. Which ones is chosen so that
they have a replica in the member's rack, as far as the shares allow. Topics with the same
subscribers and the same number of partitions are shared out alike, so that co-partitioned topics
stay together.

Method: greedy, as Kafka's RangeAssignor. A single topic is matched member by member, co-partitioned
topics partition by partition with the racks that all of them share; the rest is filled in order.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.assign.range import range_assignment
from apportion.assign.subscriptions import Subscribers, Subscriptions, Vector, subscribers_of

RackMatches = NDArray[np.bool_]
"""Shape (partitions, racks): True where the partition has a replica in the rack."""


class Racks(NamedTuple):
    """The racks of members and replicas.

    members: the rack of each member, -1 where it is unknown; such a member is near to everything.
    """

    members: Vector
    replicas: RackMatches


def racks_of(
    rack_ids: Sequence[str | None], replicas: Iterable[tuple[int, Iterable[str]]], partitions: int
) -> Racks:
    """Return the racks of members and replicas by numbers.

    All racks without a replica have one number, which matches no partition.
    rack_ids: of the members. replicas: partitions, each with the racks that have a replica of it.
    """
    number_of: dict[str, int] = {}
    found = [
        (partition, number_of.setdefault(rack, len(number_of)))
        for partition, racks in replicas
        for rack in racks
    ]
    elsewhere = len(number_of)
    rack_of = [number_of.get(rack, elsewhere) if rack else -1 for rack in rack_ids]
    matches = np.zeros((partitions, elsewhere + 1), np.bool_)
    if found:
        matches[tuple(np.array(found).T)] = True
    return Racks(np.array(rack_of, np.int32), matches)


class TopicShares:
    """The owners of one topic, or of several co-partitioned ones, while they are shared out."""

    def __init__(self, subscribers: Vector, partitions: int) -> None:
        """Begin with no partition assigned, for `range` with racks (KIP-881)."""
        self.subscribers = subscribers
        self.owner = np.full(partitions, -1, np.int32)
        # The second number: how many members may still get one partition more than the share.
        self._share, self._larger_left = divmod(partitions, len(subscribers))
        self._counts = dict.fromkeys(subscribers.tolist(), 0)

    def spare(self, member: int) -> int:
        """Return how many more partitions the member may take; this never grows."""
        return max(0, self._share + (self._larger_left > 0) - self._counts[member])

    def assign(self, member: int, numbers: NDArray[np.int64]) -> None:
        """Assign these partition numbers to the member, at most `spare` of them."""
        self.owner[numbers] = member
        self._counts[member] += len(numbers)
        self._larger_left -= bool(len(numbers)) and self._counts[member] > self._share

    def assign_rest(self) -> None:
        """Assign the partitions that `range` with racks (KIP-881) has left to members in order."""
        unowned = np.flatnonzero(self.owner < 0)
        for member in self.subscribers.tolist():
            assigned, unowned = np.split(unowned, [self.spare(member)])
            self.assign(member, assigned)


def range_by_rack(starts: Vector, subscriptions: Subscriptions, racks: Racks) -> Vector:
    """Return Kafka's rack-aware ranges; the plain ranges where racks make no difference."""
    owner = range_assignment(starts, subscriptions)
    subscribers = subscribers_of(subscriptions, len(starts) - 1)
    # KIP-881: for each topic alone, since racks of one topic's replicas say nothing about
    # another's.
    is_rack_aware = [
        _is_rack_aware(topic, starts, subscribers, racks) for topic in range(len(starts) - 1)
    ]
    if not any(is_rack_aware):
        return owner
    # Co-partitioned topics share one assignment of partition numbers, so that a member gets the
    # same numbers of each.
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
        # Partition by partition, so that one number of all these topics goes to one member.
        if len(topics) > 1 and (racks.members[members] >= 0).any():
            _match_by_partition(shares, near, racks.members)
        elif is_rack_aware[topics[0]]:
            _match_by_member(shares, near, racks.members)
        # Racks decide which partitions and never how many: the quotas are those of the plain rule.
        shares.assign_rest()
        for topic in topics:
            owner[starts[topic] : starts[topic + 1]] = shares.owner
    return owner


def _is_rack_aware(topic: int, starts: Vector, subscribers: Subscribers, racks: Racks) -> bool:
    """Return True if racks can make a difference for this topic, for `range` (KIP-881).

    Racks can if a subscriber's rack has a replica, and not all partitions are in the same racks.
    """
    near = racks.replicas[starts[topic] : starts[topic + 1]]
    member_racks = racks.members[
        subscribers.members[subscribers.topic_starts[topic] : subscribers.topic_starts[topic + 1]]
    ]
    has_replica: RackMatches = np.asarray(near.any(axis=0))
    return bool(has_replica[member_racks[member_racks >= 0]].any() and (near != has_replica).any())


def _copartitioned_topics(starts: Vector, subscribers: Subscribers) -> Iterator[list[int]]:
    """Yield lists of topics that have the same subscribers and the same number of partitions.

    The rack-aware `range` assignor (KIP-881) assigns them alike, so that a member gets the same
    partition numbers of each. starts: topic i has partitions starts[i] to starts[i + 1]. Topics
    without subscribers are left out.
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
    """Assign to each member in order the first free partitions near it, as many as it may take.

    For co-partitioned topics, in the rack-aware `range` assignor (KIP-881).
    """
    for member in shares.subscribers.tolist():
        free = shares.owner < 0
        if rack_of[member] >= 0:
            free &= near[:, rack_of[member]]
        shares.assign(member, np.flatnonzero(free)[: shares.spare(member)])


def _match_by_partition(shares: TopicShares, near: RackMatches, rack_of: Vector) -> None:
    """Assign each partition in order to the first member near it that may take one.

    For the rack-aware `range` assignor (KIP-881).
    """
    # By rack: its members in reverse order, so that the next one is popped from the end.
    queue_by_rack: dict[int, list[int]] = {}
    for member in shares.subscribers[::-1].tolist():
        queue_by_rack.setdefault(int(rack_of[member]), []).append(member)
    rackless_queue = queue_by_rack.pop(-1, [])
    for number in range(len(near)):
        queues = [
            rackless_queue,
            *(queue for rack, queue in queue_by_rack.items() if near[number, rack]),
        ]
        for queue in queues:
            # `spare` never grows, so a member that is full is dropped for good.
            while queue and not shares.spare(queue[-1]):
                queue.pop()
        member = min((queue[-1] for queue in queues if queue), default=-1)
        if member >= 0:
            shares.assign(member, np.array([number]))
