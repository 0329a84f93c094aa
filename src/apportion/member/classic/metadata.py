"""Topic metadata of a classic member.

The classic protocol names topics; ids tell a recreated topic from its predecessor. The cache asks
for nothing itself. It keeps the name of every id it has seen, since the partitions of a deleted
topic may be owned still, and JoinGroup has to name them.
"""

from collections.abc import Iterable

from apportion.assign.by_name import TopicParts, TopicShape, by_topic
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import MemberAssignment, assignment
from apportion.topics import IdPartition, TopicId


class TopicMetadataCache:
    """Names, ids and partition counts of topics, as of the last Metadata response."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicDescription] = {}
        self._names: dict[TopicId, str] = {}

    def replace_topics(self, requested: Iterable[str], topics: Iterable[TopicDescription]) -> None:
        """Replace the metadata of `requested` topics; those not in `topics` do not exist."""
        # First remove, then add: a requested topic without an answer was deleted.
        for name in requested:
            self._topics.pop(name, None)
        for topic in topics:
            self._topics[topic.name] = topic
            self._names[topic.id] = topic.name  # never removed: see the module

    def topic_name(self, partition: IdPartition) -> str:
        """Return the topic name of a partition from `to_assignment`; the topic may be deleted."""
        return self._names[partition.topic_id]

    def was_recreated(self, partition: IdPartition) -> bool:
        """Return whether the topic was deleted and another one now has its name."""
        topic = self._topics.get(self.topic_name(partition))
        return topic is not None and topic.id != partition.topic_id

    def to_assignment(self, parts: Iterable[TopicParts]) -> MemberAssignment:
        """Return these partitions by their topics' current ids, without those that do not exist."""
        pairs = ((topic, number) for topic, numbers in parts for number in numbers)
        return assignment(
            IdPartition(self._topics[topic].id, number)
            for topic, number in pairs
            if self._has_partition(topic, number)
        )

    def topic_ids(self) -> dict[str, TopicId]:
        """Return the ids of all topics that exist, by name."""
        return {name: topic.id for name, topic in self._topics.items()}

    def topic_ids_of(self, parts: Iterable[TopicParts]) -> dict[str, TopicId]:
        """Return the current ids of the topics in `parts` that exist, by name."""
        return {
            name: topic.id for name, _ in parts if (topic := self._topics.get(name)) is not None
        }

    def is_missing_any(self, parts: Iterable[TopicParts]) -> bool:
        """Return whether one of these partitions is not in the metadata.

        Such a partition does not exist, or the broker that was asked does not know it yet.
        """
        return any(
            not self._has_partition(topic, number) for topic, numbers in parts for number in numbers
        )

    def exceeds_any(self, parts: Iterable[TopicParts], names: Iterable[str]) -> bool:
        """Return whether an existing topic has fewer partitions than `parts` names of it."""
        shapes = self.topic_shapes(names)
        return any(
            number >= shapes[topic].partitions
            for topic, numbers in parts
            if topic in shapes
            for number in numbers
        )

    def to_topic_parts(self, owned: MemberAssignment) -> tuple[TopicParts, ...]:
        """Return the partitions by topic name, in order, as JoinGroup claims them.

        A deleted topic and the one recreated under its name count as one.
        """
        return by_topic((self.topic_name(partition), partition.partition) for partition in owned)

    def topic_shapes(self, names: Iterable[str]) -> dict[str, TopicShape]:
        """Return the named topics that exist, as an assignor gets them."""
        return {
            name: TopicShape(topic.partitions, topic.racks)
            for name in names
            if (topic := self._topics.get(name)) is not None
        }

    def _has_partition(self, topic: str, number: int) -> bool:
        description = self._topics.get(topic)
        return description is not None and 0 <= number < description.partitions
