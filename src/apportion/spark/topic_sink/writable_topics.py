"""Look-ups of the topics that a write names: a missing one is said at once, and none is created."""

from apportion.errors import Refused, Unanswerable
from apportion.member.batch.retry_limits import remedy
from apportion.member.cluster_queries.retries import PauseBeforeRetry
from apportion.member.metadata_cache import MetadataCache
from apportion.member.missing_topic import missing_topic_remedy
from apportion.rules import Rule
from apportion.spark.connections.clusters import cluster_of
from apportion.spark.connections.kept_open import KeptOpen
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.topic_sink.records import NotWritten
from apportion.spark.topic_sink.unwritten_records import topic_sentence
from apportion.topics import Topics

QUERIES_OF_A_PLANNER = 4
"""Of so many queries a process that plans writes keeps the connections."""


class WritableTopics:
    """The topics that exist, with their numbers of partitions. No look-up creates one."""

    def __init__(self, options: TopicWriterOptions) -> None:
        """Connect with the first look-up. Raises ValueError for certificates of no use."""
        self._timeout_ms = options.delivery_timeout_ms
        self._cluster = cluster_of(options)
        self._counts: dict[str, int] = {}

    def require(self, topic: str, partition: int = -1, *, is_patient: bool = True) -> None:
        """Raise NotWritten where there is no such topic, or it has no such partition.

        partition: negative if any will do. is_patient: whether to wait for brokers that do not
        answer, for as long as a record may.
        """
        known = self._counts.get(topic)
        if known is not None and partition < known:
            return
        # Anew for a partition that is not known: partitions may have been added.
        count = self._counts[topic] = self._partition_count(topic, is_patient=is_patient)
        if partition >= count:
            raise NotWritten(
                f"topic {topic}: column partition is {partition} in a row, and the topic has "
                f"partitions 0 to {count - 1}: choose one of these, or add partitions"
            )

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _partition_count(self, topic: str, *, is_patient: bool) -> int:
        rule = _topics(self._cluster.metadata, topic, is_patient=is_patient)
        at = self._cluster.bootstrap_servers
        try:
            found = self._cluster.run(rule, timeout_ms=self._timeout_ms).named(topic)
        except Refused as refusal:
            raise NotWritten(topic_sentence(topic, refusal)) from None
        except Unanswerable as outage:
            text = f"topic {topic}: no broker of {at} has answered: {outage}{remedy(outage)}"
            raise NotWritten(text) from None
        if found is None:
            raise NotWritten(
                f"topic {topic} does not exist at {at}, and a write creates none: "
                + missing_topic_remedy(topic, at)
            )
        return found.partitions


def _topics(metadata: MetadataCache, topic: str, *, is_patient: bool) -> Rule[Topics]:
    """Return the topic if it exists, as the brokers say now."""
    while True:
        try:
            return (yield from metadata.topics((topic,), fresh=True))
        except Unanswerable as outage:
            if not is_patient:
                raise
            yield PauseBeforeRetry(outage)


PLANNED_TOPICS = KeptOpen(QUERIES_OF_A_PLANNER, WritableTopics)
"""The look-ups of a process that plans writes, by the options of the write."""
