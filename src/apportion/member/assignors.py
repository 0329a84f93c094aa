"""The assignors of classic groups, by Kafka's names and contracts, and all that one needs to write another: docs/assignors.md."""

from collections.abc import Mapping

from apportion.assign.range import range_assignment
from apportion.assign.roundrobin import roundrobin_assignment
from apportion.member.assigning import Assignor, Cluster, Given, Rebalance, Subscription, TopicParts, TopicShape, by_topic
from apportion.member.numbering import Numbering

__all__ = [
    "CLIENT_ASSIGNORS",
    "Assignor",
    "Cluster",
    "Given",
    "Range",
    "Rebalance",
    "RoundRobin",
    "Subscription",
    "TopicParts",
    "TopicShape",
    "by_topic",
]


class Range(Assignor):
    """Of each topic, contiguous ranges of equal size; topics of equal size and subscribers are cut alike."""

    name = "range"

    def assign(self, cluster: Cluster, members: Mapping[str, Subscription]) -> dict[str, Given]:
        """Kafka's ranges."""
        group = Numbering(cluster, members)
        return group.given(range_assignment(group.starts, group.subscriptions))


class RoundRobin(Assignor):
    """One circle of members through all partitions of all topics."""

    name = "roundrobin"

    def assign(self, cluster: Cluster, members: Mapping[str, Subscription]) -> dict[str, Given]:
        """Kafka's circle."""
        group = Numbering(cluster, members)
        return group.given(roundrobin_assignment(group.starts, group.subscriptions))


CLIENT_ASSIGNORS: dict[str, type[Assignor]] = {assignor.name: assignor for assignor in (Range, RoundRobin)}
"""The built-in assignors by the names that members vote for."""
