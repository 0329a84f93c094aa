"""The topics that a simulated application knows, as a client caches the metadata of its cluster."""

from collections.abc import Iterable

from apportion.member.membership import MemberAssignment
from apportion.sim.actors.requests import Clocked, fetch_topics
from apportion.sim.kernel.clock import Script
from apportion.topics import TopicIdPartition, Topics


class TopicCache:
    """The topics that one process has fetched; a topic that was deleted may still be among them."""

    def __init__(self, process: Clocked) -> None:
        """Know no topic yet."""
        self._process = process
        self._known = Topics()

    def fetch(self, names: Iterable[str]) -> Script:
        """Fetch and return those of the named topics that exist, known or not."""
        topics = yield from fetch_topics(self._process, names)
        self._add(topics)
        return topics

    def named(self, names: Iterable[str]) -> Script:
        """Return those of the named topics that exist, fetched if one is unknown."""
        requested = tuple(dict.fromkeys(names))
        if any(self._known.named(name) is None for name in requested):
            return (yield from self.fetch(requested))
        known = (self._known.named(name) for name in requested)
        return Topics(topic for topic in known if topic is not None)

    def resolve(self, partitions: MemberAssignment) -> Script:
        """Return the partitions with topic names, those of deleted topics left out."""
        unknown = tuple(
            dict.fromkeys(
                partition.topic_id
                for partition in partitions
                if self._known.with_id(partition.topic_id) is None
            )
        )
        if unknown:
            self._add((yield from fetch_topics(self._process, unknown)))
        topics = (
            (self._known.with_id(partition.topic_id), partition.partition)
            for partition in partitions
        )
        return tuple(
            sorted(
                TopicIdPartition(topic.name, topic.id, number)
                for topic, number in topics
                if topic is not None
            )
        )

    def _add(self, topics: Topics) -> None:
        for topic in topics:
            self._known = self._known.adding(topic)
