"""Answers to the queries of a Kafka Streams leader (`streams/queries.py`), fetched from the
cluster.
"""

from collections.abc import Iterable

from apportion.client.cluster import LATEST, Cluster
from apportion.errors import Code, Refused
from apportion.member.membership import MetadataFetched, QueryAnswered, QueryCluster
from apportion.streams.queries import CreateInternalTopics, FetchCommittedOffsets, ListEndOffsets
from apportion.streams.topology import InternalTopic
from apportion.topics import TopicIdPartition, TopicPartition

BROKERS_DEFAULT = -1
"""The replication factor of internal topics, as Kafka Streams leaves it since 3.0."""


def answer_query(
    cluster: Cluster, group_id: str, ask: QueryCluster
) -> MetadataFetched | QueryAnswered:
    """Return the answer to an assignor's query.

    Raises Refused or Disconnected where the cluster has none.
    """
    match ask.query:
        case CreateInternalTopics(topics):
            _make(cluster, topics)
            seen = cluster.look_up(topic.name for topic in topics)
            if len(seen) < len(topics):
                raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "internal topics do not show up yet")
            return MetadataFetched(ask.request_id, seen)
        case ListEndOffsets(places):
            ends = cluster.list_offsets(_placed(cluster, places), LATEST)
            return QueryAnswered(
                ask.request_id, {_named(place): offset for place, offset in ends.items()}
            )
        case FetchCommittedOffsets(places):
            stored = cluster.committed(group_id, _placed(cluster, places))
            return QueryAnswered(
                ask.request_id, {_named(place): offset or 0 for place, offset in stored.items()}
            )
    raise Refused(Code.INVALID_REQUEST, f"nobody here can answer {ask.query!r}")


def _make(cluster: Cluster, topics: Iterable[InternalTopic]) -> None:
    """Create the topics that do not exist.

    Another instance may create the same ones at the same time.
    """
    there = cluster.topics((topic.name for topic in topics), fresh=True)
    for topic in topics:
        if there.named(topic.name) is None:
            try:
                cluster.create_topic(
                    topic.name,
                    topic.partitions,
                    replication_factor=BROKERS_DEFAULT,
                    config=dict(topic.configs),
                )
            except Refused as refused:
                if refused.code is not Code.TOPIC_ALREADY_EXISTS:
                    raise


def _placed(cluster: Cluster, places: tuple[TopicPartition, ...]) -> tuple[TopicIdPartition, ...]:
    topics = cluster.topics(place.topic for place in places)
    missing = next((place.topic for place in places if topics.named(place.topic) is None), None)
    if missing is not None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {missing!r}")
    known = {topic.name: topic.id for topic in topics}
    return tuple(
        TopicIdPartition(place.topic, known[place.topic], place.partition) for place in places
    )


def _named(place: TopicIdPartition) -> TopicPartition:
    return place.topic_partition
