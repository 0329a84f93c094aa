"""`range` where members and replicas are known to be in racks: members get what is near them as far as shares allow (KIP-881).

How many partitions each member gets is what the plain rule says. Of topics with the same subscribers and the same number of
partitions, each member gets the same numbers, so that what belongs together stays together.
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
    """Where everybody is. members: the rack of each member, -1 where it is unknown: such a member is near to everything."""

    members: Vector
    replicas: RackMatches


class TopicShares:
    """How one topic, or several alike, are shared out: who of its subscribers has which partition number."""

    def __init__(self, subscribers: Vector, partitions: int) -> None:
        self.subscribers = subscribers
        self.owner = np.full(partitions, -1, np.int32)
        self._share, self._larger = divmod(partitions, len(subscribers))  # so many may still have one more than the share
        self._taken = dict.fromkeys(subscribers.tolist(), 0)

    def spare(self, member: int) -> int:
        """How many more the member may take. It never grows."""
        return max(0, self._share + (self._larger > 0) - self._taken[member])

    def assign(self, member: int, numbers: NDArray[np.int64]) -> None:
        """These numbers, no more than there is room for, are the member's."""
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
    """Kafka's ranges, near their members where shares allow; the plain ones where no topic has a nearer and a farther choice."""
    plain = range_assignment(starts, subscriptions)
    subscribers = subscribers_of(subscriptions, len(starts) - 1)
    chosen = [_is_rack_aware(topic, starts, subscribers, racks) for topic in range(len(starts) - 1)]
    if not any(chosen):
        return plain
    for topics in _copartitioned_topics(starts, subscribers):
        theirs = subscribers.members[subscribers.topic_starts[topics[0]] : subscribers.topic_starts[topics[0] + 1]]
        cut = TopicShares(theirs, int(starts[topics[0] + 1] - starts[topics[0]]))
        near: RackMatches = np.asarray(
            np.stack([racks.replicas[starts[topic] : starts[topic + 1]] for topic in topics]).all(axis=0)
        )
        if len(topics) > 1 and (racks.members[theirs] >= 0).any():
            _match_by_partition(cut, near, racks.members)
        elif chosen[topics[0]]:
            _match_by_member(cut, near, racks.members)
        cut.assign_rest()
        for topic in topics:
            plain[starts[topic] : starts[topic + 1]] = cut.owner
    return plain


def _is_rack_aware(topic: int, starts: Vector, subscribers: Subscribers, racks: Racks) -> bool:
    """Some subscriber is near to some replica of the topic, and not every partition is in all of the topic's racks."""
    near = racks.replicas[starts[topic] : starts[topic + 1]]
    of_members = racks.members[subscribers.members[subscribers.topic_starts[topic] : subscribers.topic_starts[topic + 1]]]
    anywhere: RackMatches = np.asarray(near.any(axis=0))
    return bool(anywhere[of_members[of_members >= 0]].any() and (near != anywhere).any())


def _copartitioned_topics(starts: Vector, subscribers: Subscribers) -> Iterator[list[int]]:
    """The topics that somebody wants, those with the same subscribers and size together."""
    groups: dict[tuple[int, bytes], list[int]] = {}
    for topic in range(len(starts) - 1):
        theirs = subscribers.members[subscribers.topic_starts[topic] : subscribers.topic_starts[topic + 1]]
        if len(theirs):
            groups.setdefault((int(starts[topic + 1] - starts[topic]), theirs.tobytes()), []).append(topic)
    yield from groups.values()


def _match_by_member(cut: TopicShares, near: RackMatches, rack_of: Vector) -> None:
    """Member by member: each has taken the first free partitions near it, as many as it has room for."""
    for member in cut.subscribers.tolist():
        free = cut.owner < 0
        if rack_of[member] >= 0:
            free &= near[:, rack_of[member]]
        cut.assign(member, np.flatnonzero(free)[: cut.spare(member)])


def _match_by_partition(cut: TopicShares, near: RackMatches, rack_of: Vector) -> None:
    """Partition by partition: each has gone to the first member near it that has room, if there is one."""
    waiting: dict[int, list[int]] = {}  # rack -> its members, the last of which is the next to take one
    for member in cut.subscribers[::-1].tolist():
        waiting.setdefault(int(rack_of[member]), []).append(member)
    everywhere = waiting.pop(-1, [])
    for number in range(len(near)):
        lines = [everywhere, *(line for rack, line in waiting.items() if near[number, rack])]
        for line in lines:
            while line and not cut.spare(line[-1]):
                line.pop()
        member = min((line[-1] for line in lines if line), default=-1)
        if member >= 0:
            cut.assign(member, np.array([number]))
