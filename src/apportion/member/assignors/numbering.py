"""Member and topic names as the numbers that `apportion.assign` works with, and owner vectors as
names again.

Topics are those that exist and somebody subscribes to, by name. Members are in Kafka's order for
client-side assignors: static ones by instance id, then dynamic ones by member id. So an assignment
depends on names alone.
"""

from collections.abc import Callable, Mapping
from itertools import chain, pairwise

import numpy as np

from apportion.assign.claims import OwnershipClaims
from apportion.assign.racks import Racks
from apportion.assign.subscriptions import Subscriptions, Vector, starts_of
from apportion.member.assignors.interface import Cluster, Given, Subscription, TopicParts

OwnershipClaim = tuple[tuple[TopicParts, ...], int]
"""What a member says to have had, and since which generation."""


class Numbering:
    """The members and topics of one assignment.

    starts: topic t has the partitions numbered `starts[t]` up to `starts[t + 1]`. subscriptions:
    which member wants which topics.
    """

    def __init__(self, cluster: Cluster, members: Mapping[str, Subscription]) -> None:
        self.members = in_kafka_order(members)
        self._said = [members[member] for member in self.members]
        wanted = dict.fromkeys(said.topics for said in self._said)
        names = dict.fromkeys(name for topics in wanted for name in topics)
        self.topics = sorted(
            (name for name in names if name in cluster and cluster[name].partitions > 0),
            key=java_string_order,
        )
        self.sizes = np.array([cluster[name].partitions for name in self.topics], np.int64)
        self.starts: Vector = starts_of(self.sizes)
        self.number_of = {name: number for number, name in enumerate(self.topics)}
        # members that want the same share one row
        rows = {topics: self._row(topics) for topics in wanted}
        chosen = [rows[said.topics] for said in self._said]
        self.subscriptions = Subscriptions(
            starts_of(np.array([*map(len, chosen)], np.int64)),
            np.concatenate([np.empty(0, np.int32), *chosen]),
        )

    def claims(self, past: Callable[[Subscription], OwnershipClaim]) -> OwnershipClaims:
        """Return what each member claims to have owned, by `past`, as far as it exists and is
        subscribed to.
        """
        parts: list[tuple[int, int, tuple[int, ...]]] = []  # member, topic, numbers
        generations = []
        for member, said in enumerate(self._said):
            theirs, generation = past(said)
            generations.append(generation)
            parts += [
                (member, self.number_of[topic], numbers)
                for topic, numbers in theirs
                if topic in self.number_of
            ]
        lengths = [len(numbers) for _, _, numbers in parts]
        members = np.repeat(np.array([member for member, _, _ in parts], np.int64), lengths)
        topics = np.repeat(np.array([topic for _, topic, _ in parts], np.int64), lengths)
        numbers = np.fromiter(
            chain.from_iterable(numbers for _, _, numbers in parts), np.int64, len(topics)
        )
        exists = (numbers >= 0) & (numbers < self.sizes[topics])
        member_starts = starts_of(np.bincount(members[exists], minlength=len(self.members)))
        partitions = (self.starts[topics] + numbers)[exists].astype(np.int32)
        return OwnershipClaims(member_starts, partitions, np.array(generations, np.int32))

    def racks_or_none(self, cluster: Cluster) -> Racks | None:
        """Return the racks of members and replicas; None where no member has one.

        Racks without a replica count as one.
        """
        if not any(said.rack_id for said in self._said):
            return None
        number_of: dict[str, int] = {}
        replicas = [
            (start + number, number_of.setdefault(rack, len(number_of)))
            for start, size, name in zip(
                self.starts.tolist(), self.sizes.tolist(), self.topics, strict=False
            )
            for number, racks in enumerate(cluster[name].racks[:size])
            for rack in racks
        ]
        elsewhere = len(number_of)
        rack_of = [
            number_of.get(said.rack_id, elsewhere) if said.rack_id else -1 for said in self._said
        ]
        matches = np.zeros((int(self.starts[-1]), elsewhere + 1), np.bool_)
        for place, rack in replicas:
            matches[place, rack] = True
        return Racks(np.array(rack_of, np.int32), matches)

    def given(self, owner: Vector) -> dict[str, Given]:
        """Return an owner vector as each member's partitions, topics by name and numbers
        ascending.
        """
        shares: dict[str, list[TopicParts]] = {member: [] for member in self.members}
        places = np.flatnonzero(owner >= 0)
        places = places[np.argsort(owner[places], kind="stable")]
        owners = owner[places]
        topic_of = np.searchsorted(self.starts, places, side="right") - 1
        partitions = (places - self.starts[topic_of]).tolist()
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

    def _row(self, topics: tuple[str, ...]) -> Vector:
        known = (self.number_of[name] for name in dict.fromkeys(topics) if name in self.number_of)
        return np.array(sorted(known), np.int32)


def in_kafka_order(members: Mapping[str, Subscription]) -> list[str]:
    """Return the member ids in the order in which client-side assignors prefer them."""

    def rank(member: str) -> tuple[bool, bytes, bytes]:
        instance_id = members[member].instance_id
        return instance_id is None, java_string_order(instance_id or ""), java_string_order(member)

    return sorted(members, key=rank)


def java_string_order(name: str) -> bytes:
    """Return a key that sorts names as Java does, by UTF-16 units; differs beyond U+FFFF only."""
    return name.encode("utf-16-be", "surrogatepass")
