"""Queries of a simulated Streams leader to the broker, as parts of a script.

The leader asks them before it assigns tasks. `client.leader_queries` does the same over sockets.
Each function returns the event for the member.
"""

from apportion.errors import Refused, Unanswerable
from apportion.member.cluster_queries.topic_changes import CreateTopicsQuery, NewTopic
from apportion.member.membership import (
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    TopicDescription,
    Unanswered,
)
from apportion.sim.actors.requests import Clocked, fetch_topics, list_offsets, sending
from apportion.sim.kernel.client import Sleep
from apportion.sim.kernel.clock import Script
from apportion.streams.queries import CreateInternalTopics, ListEndOffsets
from apportion.streams.topology import InternalTopic
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import LATEST

CREATE_TOPICS_TIMEOUT_MS = 10_000
RETRY_MS = 100


def answer_query(process: Clocked, action: QueryCluster) -> Script:
    """Answer a Streams leader's query: MetadataFetched, QueryAnswered or Unanswered."""
    query = action.query
    try:
        if isinstance(query, CreateInternalTopics):
            topics = yield from _create_topics(process, query.topics)
            return MetadataFetched(action.request_id, topics)
        # FetchCommittedOffsets is for source topics that serve as changelogs: word count has none.
        assert isinstance(query, ListEndOffsets), "no source of this topology is a changelog"
        partitions = {
            partition: TopicIdPartition(partition.topic, b"", partition.partition)
            for partition in query.partitions
        }
        ends = yield from list_offsets(process, partitions.values(), LATEST)
        offsets = {partition: ends[with_id] for partition, with_id in partitions.items()}
        return QueryAnswered(action.request_id, offsets)
    except (Refused, Unanswerable) as problem:
        return Unanswered(action.request_id, str(problem))


def _create_topics(process: Clocked, topics: tuple[InternalTopic, ...]) -> Script:
    """Create the Streams leader's internal topics that do not exist.

    Raises Unanswerable if they do not all exist after CREATE_TOPICS_TIMEOUT_MS.
    """
    creatable = tuple(
        NewTopic(topic.name, topic.partitions, config=dict(topic.configs)) for topic in topics
    )
    until_ms = process.mono_ms() + CREATE_TOPICS_TIMEOUT_MS
    names = [topic.name for topic in creatable]
    existing = yield from fetch_topics(process, names)
    # The answer to CreateTopics is not read: another leader may have created the topic meanwhile,
    # or the answer may be lost, so Metadata alone says what exists.
    while any(existing.named(name) is None for name in names):
        if process.mono_ms() >= until_ms:
            raise Unanswerable("CreateTopics")
        missing = tuple(topic for topic in creatable if existing.named(topic.name) is None)
        yield sending(CreateTopicsQuery(missing, CREATE_TOPICS_TIMEOUT_MS))
        yield Sleep(RETRY_MS)
        existing = yield from fetch_topics(process, names)
    return tuple(TopicDescription(topic.name, topic.id, topic.partitions) for topic in existing)
