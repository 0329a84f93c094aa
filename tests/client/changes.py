"""Changes of a cluster and its groups that tests make, and that the package's code does not."""

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.client.cluster import Cluster
from apportion.client.network_client import RetryTimer
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.offsets import OffsetCommitQuery
from apportion.member.cluster_queries.topic_changes import CreatePartitionsQuery, DeleteTopicsQuery
from apportion.member.queries import CommitOffsets, FetchCommitted
from apportion.topics import Topic, TopicIdPartition


def commit(
    cluster: Cluster, group: str, offsets: Mapping[TopicIdPartition, int], *, metadata: str = ""
) -> None:
    """Commit offsets of a group without members."""
    cluster.ask_coordinator(OffsetCommitQuery(group, offsets, metadata=metadata))


def commit_as(session: Any, offsets: Mapping[TopicIdPartition, int], *, metadata: str = "") -> None:
    """Commit offsets as the member of a session."""
    session.request_offsets(CommitOffsets(offsets, session.status().incarnation, metadata))


def committed_as(
    session: Any, partitions: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, int | None]:
    """Fetch the committed offset of each partition as the member of a session."""
    request = FetchCommitted(tuple(partitions), session.status().incarnation)
    return {partition: each.offset for partition, each in session.request_offsets(request).items()}


def grow_topic(cluster: Cluster, name: str, partitions: int) -> Topic:
    """Increase the topic to so many partitions, and wait until Metadata shows them."""
    query = CreatePartitionsQuery(name, partitions, cluster.timeout_ms)
    query.parse(cluster.call(query.request()))
    retry_timer = RetryTimer(cluster.timeout_ms)
    while True:
        topic = cluster.topics([name], fresh=True).named(name)
        if topic is not None and topic.partitions == partitions:
            return topic
        retry_timer.pause(Refused(Code.REQUEST_TIMED_OUT, f"topic {name!r} does not grow"))


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete the topic, and wait until Metadata no longer shows it."""
    query = DeleteTopicsQuery(name, cluster.timeout_ms)
    query.parse(cluster.call(query.request()))
    retry_timer = RetryTimer(cluster.timeout_ms)
    while cluster.topics([name], fresh=True):
        retry_timer.pause(Refused(Code.REQUEST_TIMED_OUT, f"topic {name!r} is still shown"))
