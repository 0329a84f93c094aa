"""Answers to the queries of a simulated Streams leader (`member.leader_queries`)."""

from typing import Any

from apportion.errors import Unanswerable
from apportion.member.cluster_queries.topic_changes import CreateTopicsQuery, NewTopic
from apportion.member.leader_queries import CreateTopics, DescribeTopics
from apportion.member.membership import TopicDescription
from apportion.member.metadata_cache import MetadataCache
from apportion.member.queries import ExistingTopics, KnownTopics, ListOffsets
from apportion.sim.actors.requests import Clocked, list_offsets, run_requests, sending
from apportion.sim.kernel.client import Sleep
from apportion.sim.kernel.clock import Script

CREATE_TOPICS_TIMEOUT_MS = 10_000
RETRY_MS = 100


def answer_leader(process: Clocked, cache: MetadataCache, query: Any) -> Script:
    """Answer a query of the leader's rule. cache: the topics that the process knows."""
    match query:
        case ListOffsets(partitions, timestamp):
            return (yield from list_offsets(process, partitions, timestamp))
        case CreateTopics(topics):
            return (yield from _create_topics(process, cache, topics))
    # FetchCommitted is for source topics that serve as changelogs: word count has none.
    assert isinstance(query, ExistingTopics | KnownTopics | DescribeTopics), query
    is_fresh = isinstance(query, ExistingTopics)
    topics = yield from run_requests(process, cache.topics(query.names, fresh=is_fresh))
    if isinstance(query, DescribeTopics):
        return tuple(TopicDescription(*topic) for topic in topics)
    return topics


def _create_topics(process: Clocked, cache: MetadataCache, topics: tuple[NewTopic, ...]) -> Script:
    """Create the topics; raise Unanswerable if some are missing at the timeout."""
    until_ms = process.mono_ms() + CREATE_TOPICS_TIMEOUT_MS
    # The answer to CreateTopics is not read: another leader may have created the topic meanwhile,
    # or the answer may be lost, so Metadata alone says what exists.
    while topics:
        if process.mono_ms() >= until_ms:
            raise Unanswerable("CreateTopics")
        yield sending(CreateTopicsQuery(topics, CREATE_TOPICS_TIMEOUT_MS))
        yield Sleep(RETRY_MS)
        names = [topic.name for topic in topics]
        existing = yield from run_requests(process, cache.topics(names, fresh=True))
        topics = tuple(topic for topic in topics if existing.named(topic.name) is None)
