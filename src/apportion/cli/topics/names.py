"""Names of topics for Tab's completions."""

from apportion.cli.groups.names import COMPLETION_TIMEOUT_MS
from apportion.cli.topics.report import read_topics
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused


def topic_names(bootstrap: str, prefix: str) -> list[str]:
    """Return the names of topics that begin with `prefix`, in order, for Tab's completions.

    There are none if the cluster does not reply at once, or with an error.
    """
    try:
        cluster = Cluster(bootstrap, timeout_ms=COMPLETION_TIMEOUT_MS)
    except ValueError:
        return []
    try:
        topics = read_topics(cluster, None)
    # An error message in the middle of a command line would be worse than no completions.
    except (Refused, Disconnected):
        return []
    finally:
        cluster.close()
    return [
        topic.name
        for topic in topics
        if topic.name.startswith(prefix) and (prefix or not topic.is_internal)
    ]
