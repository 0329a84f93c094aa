"""Names of topics for Tab's completions."""

from apportion.cli.groups.names import names_of_cluster
from apportion.cli.topics.report import read_topics
from apportion.cli.typed_cluster import TypedCluster
from apportion.client.cluster import Cluster


def topic_names(typed: TypedCluster, prefix: str) -> list[str]:
    """Return the names of topics that begin with `prefix`, in order, for Tab's completions.

    There are none if the cluster does not reply at once, or with an error.
    """

    def read(cluster: Cluster) -> list[str]:
        return [
            topic.name for topic in read_topics(cluster, None) if prefix or not topic.is_internal
        ]

    return names_of_cluster(typed, prefix, read)
