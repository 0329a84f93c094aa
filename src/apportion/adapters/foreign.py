"""What both foreign clients have in common: a view of the cluster that says which partitions a topic has."""

from collections.abc import Iterable
from typing import Protocol

from apportion.member.assigning import Cluster, TopicShape


class ForeignCluster(Protocol):
    """The metadata of a client."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of that topic; None for one that is not known."""
        ...


def cluster_of(foreign: ForeignCluster, topics: Iterable[str]) -> Cluster:
    """Those of these topics that exist. Racks of replicas are not told by these clients."""
    counts = {topic: foreign.partitions_for_topic(topic) for topic in sorted(dict.fromkeys(topics))}
    return {topic: TopicShape(len(partitions)) for topic, partitions in counts.items() if partitions}
