"""Changes of a cluster and its groups that tests make, and that the package's code does not."""

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.offsets import OffsetCommitQuery
from apportion.member.cluster_queries.retries import PauseBeforeRetry
from apportion.member.cluster_queries.topic_changes import CreatePartitionsQuery, DeleteTopicsQuery
from apportion.member.queries import CommitOffsets, FetchCommitted
from apportion.rules import Rule
from apportion.topics import Topic, TopicIdPartition
from apportion.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


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


def delete_records(cluster: Cluster, partition: TopicIdPartition, offset: int) -> None:
    """Delete the records below an offset, at which the partition's log begins then."""
    partitions = (DeleteRecordsPartition(partition_index=partition.partition, offset=offset),)
    topics = (DeleteRecordsTopic(name=partition.topic, partitions=partitions),)
    request = DeleteRecordsRequest(topics=topics, timeout_ms=cluster.timeout_ms)
    cluster.call(request, node=cluster.leader(partition).node_id)


def grow_topic(cluster: Cluster, name: str, partitions: int) -> Topic:
    """Increase the topic to so many partitions, and wait until Metadata shows them."""
    query = CreatePartitionsQuery(name, partitions, cluster.timeout_ms)
    query.parse(cluster.call(query.request()))

    def grown() -> Rule[Topic]:
        while True:
            topics = yield from cluster.metadata.topics([name], fresh=True)
            topic = topics.named(name)
            if topic is not None and topic.partitions == partitions:
                return topic
            yield PauseBeforeRetry(Refused(Code.REQUEST_TIMED_OUT, f"{name!r} does not grow"))

    return cluster.run(grown())


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete the topic, and wait until Metadata no longer shows it."""
    query = DeleteTopicsQuery(name, cluster.timeout_ms)
    query.parse(cluster.call(query.request()))

    def deleted() -> Rule[None]:
        while (yield from cluster.metadata.topics([name], fresh=True)):
            yield PauseBeforeRetry(Refused(Code.REQUEST_TIMED_OUT, f"{name!r} is still shown"))

    cluster.run(deleted())
