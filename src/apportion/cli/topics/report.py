"""The queries of the commands of `apportion topics`."""

from collections.abc import Iterable

from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.topic_descriptions import TopicReplicas, TopicReplicasQuery


def read_topics(cluster: Cluster, names: Iterable[str] | None) -> tuple[TopicReplicas, ...]:
    """Return the named topics that exist, or every topic of the cluster, by name."""
    query = TopicReplicasQuery(None if names is None else tuple(names))
    return cluster.run(send_until_accepted(query))
