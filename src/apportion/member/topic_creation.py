"""The rule that creates topics and waits until they can be used.

As Kafka Streams does for its internal topics (`InternalTopicManager.makeReady`).
"""

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.retries import PauseBeforeRetry, send_until_accepted
from apportion.member.cluster_queries.topic_changes import CreateTopicsQuery, NewTopic
from apportion.member.cluster_queries.topics import ClusterMetadata
from apportion.member.metadata_cache import MetadataCache
from apportion.rules import Rule

CREATE_TIMEOUT_MS = 10_000  # for the broker to answer CreateTopics


def create_missing_topics(
    topics: tuple[NewTopic, ...], cache: MetadataCache
) -> Rule[ClusterMetadata]:
    """Create those of the topics that do not exist; return the metadata of all.

    Waits until Metadata shows each topic, with a leader for every partition: CreateTopics answers
    before that. Raises Refused if a topic cannot be created.
    """
    while True:
        metadata = yield from cache.fetch(tuple(topic.name for topic in topics))
        existing = metadata.topics
        missing = tuple(topic for topic in topics if existing.named(topic.name) is None)
        waiting = [each.topic.name for each in metadata.existing if None in each.leaders.values()]
        if not missing and not waiting:
            return metadata
        try:
            if missing:
                yield from send_until_accepted(CreateTopicsQuery(missing, CREATE_TIMEOUT_MS))
        except Refused as refused:
            # Another client created it a moment ago, or this one, and Metadata does not show it.
            if refused.code is not Code.TOPIC_ALREADY_EXISTS:
                raise
        names = ", ".join([*(topic.name for topic in missing), *waiting])
        yield PauseBeforeRetry(
            Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"not shown with leaders yet: topics {names}")
        )
