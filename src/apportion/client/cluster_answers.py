"""Answers to the queries of rules that run without a membership, from the cluster.

Such rules are the first look and the batch reads of Spark. `member_answers.py` is for members.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.client.cluster import Cluster
from apportion.member.queries import ExistingTopics, FetchCommitted, ListOffsets

ClusterAnswers = Mapping[type, Callable[[Cluster, str, Any], Any]]
"""How each kind of query is answered: functions of the cluster, the group's id and the query."""

ANSWERS: ClusterAnswers = {
    ExistingTopics: lambda cluster, _group, query: cluster.topics(query.names, fresh=True),
    ListOffsets: lambda cluster, _group, query: cluster.list_offsets(
        query.partitions, query.timestamp
    ),
    FetchCommitted: lambda cluster, group, query: cluster.committed_offsets(
        group, query.partitions
    ),
}
