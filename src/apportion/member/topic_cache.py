"""The topics that a client knows from Metadata responses."""

from collections.abc import Iterable

from apportion.errors import Code, Refused
from apportion.member.membership import MemberAssignment
from apportion.topics import TopicId, TopicIdPartition, TopicPartition, Topics


class TopicCache:
    """The topics that one client has seen; its driver fetches those that are unknown."""

    def __init__(self) -> None:
        """Know no topic yet."""
        self._topics = Topics()

    def has(self, names: Iterable[str]) -> bool:
        """Return whether all the named topics are known."""
        return all(self._topics.named(name) is not None for name in names)

    def named(self, names: Iterable[str]) -> Topics:
        """Return those of the named topics that are known."""
        known = (self._topics.named(name) for name in names)
        return Topics(topic for topic in known if topic is not None)

    def unknown_ids(self, partitions: MemberAssignment) -> tuple[TopicId, ...]:
        """Return the topic ids of an assignment that are unknown, each once."""
        ids = sorted({partition.topic_id for partition in partitions})
        return tuple(each for each in ids if self._topics.with_id(each) is None)

    def resolve(self, partitions: MemberAssignment) -> tuple[TopicIdPartition, ...]:
        """Return an assignment's partitions with their topics' names, in order.

        Those of unknown topics are left out.
        """
        named = ((self._topics.with_id(topic_id), number) for topic_id, number in partitions)
        return tuple(
            sorted(
                TopicIdPartition(topic.name, topic.id, number)
                for topic, number in named
                if topic is not None
            )
        )

    def add(self, topics: Topics) -> tuple[TopicId, ...]:
        """Remember topics that exist; return the ids of those that were created anew since."""
        gone = []
        for topic in topics:
            known = self._topics.named(topic.name)
            if known != topic:
                self._topics = self._topics.adding(topic)
            if known is not None and known.id != topic.id:
                gone.append(known.id)
        return tuple(gone)

    def forget_missing(
        self, requested: Iterable[str | TopicId], existing: Topics
    ) -> tuple[TopicId, ...]:
        """Forget those of the requested topics that do not exist; return their ids.

        A deleted topic's id would be used for ever otherwise.
        """
        gone = []
        for each in requested:
            topic = (
                self._topics.named(each) if isinstance(each, str) else self._topics.with_id(each)
            )
            if topic is not None and existing.named(topic.name) is None:
                self._topics = self._topics.without(topic.name)
                gone.append(topic.id)
        return tuple(gone)


def with_topic_ids(
    partitions: Iterable[TopicPartition], topics: Topics
) -> tuple[TopicIdPartition, ...]:
    """Return the partitions with their topics' ids; raise Refused for one of a missing topic."""
    found = []
    for name, number in partitions:
        topic = topics.named(name)
        if topic is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        found.append(TopicIdPartition(name, topic.id, number))
    return tuple(found)
