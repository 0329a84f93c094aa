"""Answers for the queries of a Kafka Streams leader (`streams/queries.py`), from the cluster.

The leader's task assignor needs internal topics, the ends of changelogs and committed offsets.
"""

from collections.abc import Iterable

from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.membership import MetadataFetched, QueryAnswered, QueryCluster
from apportion.streams.queries import CreateInternalTopics, FetchCommittedOffsets, ListEndOffsets
from apportion.streams.topology import InternalTopic
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages.list_offsets import LATEST

BROKERS_DEFAULT = -1
"""The replication factor of internal topics, as Kafka Streams leaves it since 3.0."""


def answer_query(
    cluster: Cluster, group_id: str, action: QueryCluster
) -> MetadataFetched | QueryAnswered:
    """Return the answer to a query of a Streams leader's task assignor.

    Raises Refused or Disconnected where the cluster has none.
    """
    match action.query:
        case CreateInternalTopics(topics):
            _create_missing(cluster, topics)
            described = cluster.look_up(topic.name for topic in topics)
            # A topic that was just created is not known to every broker yet; the leader asks again.
            if len(described) < len(topics):
                raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "internal topics do not show up yet")
            return MetadataFetched(action.request_id, described)
        case ListEndOffsets(partitions):
            ends = cluster.list_offsets(_with_topic_ids(cluster, partitions), LATEST)
            return QueryAnswered(
                action.request_id, {each.topic_partition: offset for each, offset in ends.items()}
            )
        case FetchCommittedOffsets(partitions):
            committed = cluster.committed(group_id, _with_topic_ids(cluster, partitions))
            return QueryAnswered(
                action.request_id,
                {each.topic_partition: offset or 0 for each, offset in committed.items()},
            )
    raise Refused(Code.INVALID_REQUEST, f"nobody here can answer {action.query!r}")


def _create_missing(cluster: Cluster, topics: Iterable[InternalTopic]) -> None:
    """Create the internal topics of a Streams group that do not exist.

    Another instance may create the same ones at the same time.
    """
    existing = cluster.topics((topic.name for topic in topics), fresh=True)
    for topic in topics:
        if existing.named(topic.name) is None:
            try:
                cluster.create_topic(
                    topic.name,
                    topic.partitions,
                    replication_factor=BROKERS_DEFAULT,
                    config=dict(topic.configs),
                )
            except Refused as refused:
                # Another instance led the group a moment ago and has created it: as good as our
                # own.
                if refused.code is not Code.TOPIC_ALREADY_EXISTS:
                    raise


def _with_topic_ids(
    cluster: Cluster, partitions: tuple[TopicPartition, ...]
) -> tuple[TopicIdPartition, ...]:
    """Return the partitions with their topic ids; refuse those of a missing topic.

    A Streams leader names partitions without ids.
    """
    topics = cluster.topics(each.topic for each in partitions)
    missing = next((each.topic for each in partitions if topics.named(each.topic) is None), None)
    if missing is not None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {missing!r}")
    ids = {topic.name: topic.id for topic in topics}
    return tuple(
        TopicIdPartition(each.topic, ids[each.topic], each.partition) for each in partitions
    )
