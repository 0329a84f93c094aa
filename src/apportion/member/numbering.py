"""Names as the numbers that `apportion.assign` reckons with, and owner vectors as names again.

Topics are those that somebody wants and that exist, by name. Members are in Kafka's order for clients: static ones by instance id,
then dynamic ones by member id. So an assignment depends on names alone.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from apportion.assign.subscriptions import Subscriptions, Vector
from apportion.member.assigning import Cluster, Given, Subscription, TopicParts


class Numbering:
    """The members and topics of one assignment.

    starts: the partitions of topic t are numbered `starts[t]` up to `starts[t + 1]`. subscriptions: who wants which of the topics.
    """

    def __init__(self, cluster: Cluster, members: Mapping[str, Subscription]) -> None:
        self.members = in_order(members)
        wanted = dict.fromkeys(said.topics for said in members.values())
        names = dict.fromkeys(name for topics in wanted for name in topics)
        self.topics = sorted((name for name in names if name in cluster and cluster[name].partitions > 0), key=as_java)
        self.starts: Vector = np.cumsum([0, *(cluster[name].partitions for name in self.topics)]).astype(np.int32)
        self.number_of = {name: number for number, name in enumerate(self.topics)}
        rows = {topics: self._row(topics) for topics in wanted}  # members that want the same share one row
        chosen = [rows[members[member].topics] for member in self.members]
        ends = np.cumsum([0, *map(len, chosen)]).astype(np.int32)
        self.subscriptions = Subscriptions(ends, np.concatenate([np.empty(0, np.int32), *chosen]))

    def given(self, owner: Vector) -> dict[str, Given]:
        """The owner vector as what each member gets, topics by name and partitions ascending."""
        shares: dict[str, list[TopicParts]] = {member: [] for member in self.members}
        places = np.flatnonzero(owner >= 0)
        places = places[np.argsort(owner[places], kind="stable")]
        owners = owner[places]
        topic_of = np.searchsorted(self.starts, places, side="right") - 1
        partitions = (places - self.starts[topic_of]).tolist()
        firsts = np.flatnonzero(np.diff(owners, prepend=-1) | np.diff(topic_of, prepend=-1))
        runs = zip(owners[firsts].tolist(), topic_of[firsts].tolist(), pairwise([*firsts.tolist(), len(partitions)]), strict=True)
        for member, topic, (first, last) in runs:
            shares[self.members[member]].append(TopicParts(self.topics[topic], tuple(partitions[first:last])))
        return {member: Given(tuple(share)) for member, share in shares.items()}

    def _row(self, topics: tuple[str, ...]) -> Vector:
        known = (self.number_of[name] for name in dict.fromkeys(topics) if name in self.number_of)
        return np.array(sorted(known), np.int32)


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """The member ids in the order in which client assignors prefer them."""

    def rank(member: str) -> tuple[bool, bytes, bytes]:
        instance_id = members[member].instance_id
        return instance_id is None, as_java(instance_id or ""), as_java(member)

    return sorted(members, key=rank)


def as_java(name: str) -> bytes:
    """A key that sorts names as Java does: by UTF-16 units. It differs from ours only beyond the first 65,536 characters."""
    return name.encode("utf-16-be", "surrogatepass")
