"""Answers to the queries of rules that run without a membership, from the cluster.

Such rules are the first look and the batch reads of Spark. `member_answers.py` is for members.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.client.cluster import Cluster
from apportion.member.queries import (
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MatchingTopics,
)

ClusterAnswers = Mapping[type, Callable[[Cluster, str, Any], Any]]
"""How each kind of query is answered: functions of the cluster, the group's id and the query."""


def matching_topics(cluster: Cluster, expression: str) -> tuple[str, ...]:
    """Return the names of the cluster's topics that the expression of RE2 matches, in order."""
    # RE2 is imported here alone: most readers name their topics.
    from apportion.coord.consumer.expressions import matching
    from apportion.member.cluster_queries.retries import send_until_accepted
    from apportion.member.cluster_queries.topic_descriptions import TopicReplicasQuery

    topics = cluster.run(send_until_accepted(TopicReplicasQuery(None)))
    return matching(expression, sorted(topic.name for topic in topics))


ANSWERS: ClusterAnswers = {
    ExistingTopics: lambda cluster, _group, query: cluster.topics(query.names, fresh=True),
    ListOffsets: lambda cluster, _group, query: cluster.list_offsets(
        query.partitions, query.timestamp
    ),
    FetchCommitted: lambda cluster, group, query: cluster.committed_offsets(
        group, query.partitions
    ),
    MatchingTopics: lambda cluster, _group, query: matching_topics(cluster, query.expression),
}
