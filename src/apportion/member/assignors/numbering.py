"""Members and topics as the numbers that `apportion.assign` works with, and back.

Topics are those that exist and that a member subscribes to, by name. Members are in Kafka's order
for client-side assignors: static ones by instance id, then dynamic ones by member id. So an
assignment depends on names alone.
"""

from collections.abc import Callable, Mapping
from itertools import chain, pairwise

import numpy as np

from apportion.assign.by_name import ClusterTopics, Given, Subscription, TopicParts
from apportion.assign.claims import OwnershipClaims
from apportion.assign.racks import Racks, racks_of
from apportion.assign.subscriptions import Subscriptions, Vector, starts_of

OwnershipClaim = tuple[tuple[TopicParts, ...], int]
"""The partitions that a member claims to have owned, and the generation that assigned them."""


class Numbering:
    """The members and topics of one assignment.

    starts: topic t has the partitions numbered `starts[t]` up to `starts[t + 1]`.
    subscriptions: the topics of each member.
    """

    def __init__(self, cluster: ClusterTopics, members: Mapping[str, Subscription]) -> None:
        """Give members and topics of a classic group the indexes that `assign` works with.

        Topics that are missing or have no partitions are left out.
        """
        self.members = in_kafka_order(members)
        self._subscriptions = [members[member] for member in self.members]
        # each subscription once: many members share one
        distinct = dict.fromkeys(member.topics for member in self._subscriptions)
        names = dict.fromkeys(name for topics in distinct for name in topics)
        self.topics = sorted(
            (name for name in names if name in cluster and cluster[name].partitions > 0),
            key=java_string_order,
        )
        self.sizes = np.array([cluster[name].partitions for name in self.topics], np.int64)
        self.starts: Vector = starts_of(self.sizes)
        self.number_of = {name: number for number, name in enumerate(self.topics)}
        numbers = {topics: self._topic_numbers(topics) for topics in distinct}
        by_member = [numbers[member.topics] for member in self._subscriptions]
        self.subscriptions = Subscriptions(
            starts_of(np.array([*map(len, by_member)], np.int64)),
            np.concatenate([np.empty(0, np.int32), *by_member]),
        )

    def claims(self, claim_of: Callable[[Subscription], OwnershipClaim]) -> OwnershipClaims:
        """Return the existing partitions that each member claims to have owned.

        Topics that no member subscribes to are left out. claim_of: reads a member's claim.
        """
        parts: list[tuple[int, int, tuple[int, ...]]] = []  # member, topic, numbers
        generations = []
        for member, subscription in enumerate(self._subscriptions):
            claimed, generation = claim_of(subscription)
            generations.append(generation)
            parts += [
                (member, self.number_of[topic], numbers)
                for topic, numbers in claimed
                if topic in self.number_of
            ]
        lengths = [len(numbers) for _, _, numbers in parts]
        members = np.repeat(np.array([member for member, _, _ in parts], np.int64), lengths)
        topics = np.repeat(np.array([topic for _, topic, _ in parts], np.int64), lengths)
        numbers = np.fromiter(
            chain.from_iterable(numbers for _, _, numbers in parts), np.int64, len(topics)
        )
        # A claim may name partitions that are gone: its topic was recreated with fewer.
        exists = (numbers >= 0) & (numbers < self.sizes[topics])
        member_starts = starts_of(np.bincount(members[exists], minlength=len(self.members)))
        partitions = (self.starts[topics] + numbers)[exists].astype(np.int32)
        return OwnershipClaims(member_starts, partitions, np.array(generations, np.int32))

    def racks_or_none(self, cluster: ClusterTopics) -> Racks | None:
        """Return the racks of members and replicas (KIP-881); None if no member has one."""
        rack_ids = [member.rack_id for member in self._subscriptions]
        if not any(rack_ids):
            return None
        replicas = (
            (start + number, racks)
            for start, size, name in zip(
                self.starts.tolist(), self.sizes.tolist(), self.topics, strict=False
            )
            for number, racks in enumerate(cluster[name].racks[:size])
        )
        return racks_of(rack_ids, replicas, int(self.starts[-1]))

    def to_given(self, owner: Vector) -> dict[str, Given]:
        """Return the assignments of an owner vector: the member's number by partition, or -1.

        Topics are in order of name, partitions in order of number.
        """
        shares: dict[str, list[TopicParts]] = {member: [] for member in self.members}
        # Assigned partitions by owner; the stable sort keeps their order within an owner.
        assigned = np.flatnonzero(owner >= 0)
        assigned = assigned[np.argsort(owner[assigned], kind="stable")]
        owners = owner[assigned]
        topic_of = np.searchsorted(self.starts, assigned, side="right") - 1
        partitions = (assigned - self.starts[topic_of]).tolist()
        # A run is the partitions of one topic that have one owner; it becomes one TopicParts.
        firsts = np.flatnonzero(np.diff(owners, prepend=-1) | np.diff(topic_of, prepend=-1))
        runs = zip(
            owners[firsts].tolist(),
            topic_of[firsts].tolist(),
            pairwise([*firsts.tolist(), len(partitions)]),
            strict=True,
        )
        for member, topic, (first, last) in runs:
            shares[self.members[member]].append(
                TopicParts(self.topics[topic], tuple(partitions[first:last]))
            )
        return {member: Given(tuple(share)) for member, share in shares.items()}

    def _topic_numbers(self, topics: tuple[str, ...]) -> Vector:
        known = (self.number_of[name] for name in dict.fromkeys(topics) if name in self.number_of)
        return np.array(sorted(known), np.int32)


def in_kafka_order(members: Mapping[str, Subscription]) -> list[str]:
    """Return the member ids in the order of Kafka's client-side assignors.

    Static members by instance id, then dynamic ones by member id.
    """

    def rank(member: str) -> tuple[bool, bytes, bytes]:
        instance_id = members[member].instance_id
        return instance_id is None, java_string_order(instance_id or ""), java_string_order(member)

    return sorted(members, key=rank)


def java_string_order(name: str) -> bytes:
    """Return a key that sorts names as Java does, by UTF-16 units; differs beyond U+FFFF only."""
    return name.encode("utf-16-be", "surrogatepass")
