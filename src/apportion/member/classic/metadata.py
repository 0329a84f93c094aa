"""Topic metadata of a classic member, and when to ask for it again.

The classic protocol names topics; ids tell a recreated topic from its predecessor. The cache is
only ever told, and keeps the name of every id it has seen: owned partitions must stay nameable.
"""

from collections.abc import Iterable
from typing import Any

from apportion.machine import Instant
from apportion.member.assignors.interface import TopicParts, TopicShape, by_topic
from apportion.member.membership import (
    Assignment,
    FetchMetadata,
    QueryCluster,
    TopicDescription,
    assignment,
)
from apportion.topics import IdPartition, TopicId


class TopicMetadataCache:
    """Names, ids and partition counts of topics, as of the last Metadata response."""

    def __init__(self) -> None:
        self._seen: dict[str, TopicDescription] = {}
        self._names: dict[TopicId, str] = {}

    def replace_topics(self, asked: Iterable[str], seen: Iterable[TopicDescription]) -> None:
        """Replace what is known of the `asked` topics: those not in `seen` do not exist."""
        for name in asked:
            self._seen.pop(name, None)
        for topic in seen:
            self._seen[topic.name] = topic
            self._names[topic.id] = topic.name

    def topic_name(self, partition: IdPartition) -> str:
        """Return the topic name of a partition that this cache made."""
        return self._names[partition.topic_id]

    def was_recreated(self, partition: IdPartition) -> bool:
        """Return whether the topic was deleted and another one now has its name."""
        seen = self._seen.get(self.topic_name(partition))
        return seen is not None and seen.id != partition.topic_id

    def to_assignment(self, parts: Iterable[TopicParts]) -> Assignment:
        """Return these partitions by their topics' current ids, without those that do not exist."""
        flat = ((topic, number) for topic, numbers in parts for number in numbers)
        return assignment(
            IdPartition(self._seen[topic].id, number)
            for topic, number in flat
            if self._has(topic, number)
        )

    def topic_ids(self) -> dict[str, TopicId]:
        """Return the id of every topic that exists, as last seen."""
        return {name: seen.id for name, seen in self._seen.items()}

    def topic_ids_of(self, parts: Iterable[TopicParts]) -> dict[str, TopicId]:
        """Return the current ids of these topics, as far as they exist."""
        return {topic: seen.id for topic, _ in parts if (seen := self._seen.get(topic)) is not None}

    def is_missing_any(self, parts: Iterable[TopicParts]) -> bool:
        """Return whether any of these partitions does not exist, or is not known to the broker that
        was asked.
        """
        return any(not self._has(topic, number) for topic, numbers in parts for number in numbers)

    def exceeds_any(self, parts: Iterable[TopicParts], names: Iterable[str]) -> bool:
        """Return whether a named topic that exists has fewer partitions than in `parts`."""
        shapes = self.topic_shapes(names)
        return any(
            number >= shapes[topic].partitions
            for topic, numbers in parts
            if topic in shapes
            for number in numbers
        )

    def to_topic_parts(self, held: Assignment) -> tuple[TopicParts, ...]:
        """Return the partitions by topic name, in order.

        A topic and its recreated namesake count as one.
        """
        return by_topic((self.topic_name(partition), partition.partition) for partition in held)

    def topic_shapes(self, names: Iterable[str]) -> dict[str, TopicShape]:
        """Return the named topics that exist, in the form that an assignor takes."""
        return {
            name: TopicShape(topic.partitions, topic.racks)
            for name in names
            if (topic := self._seen.get(name)) is not None
        }

    def _has(self, topic: str, number: int) -> bool:
        seen = self._seen.get(topic)
        return seen is not None and 0 <= number < seen.partitions


class MetadataRefresh:
    """The one metadata request or assignor's query that may be in flight.

    in_flight: the pending request; None if there is none. An answer to any other request is stale.
    not_before_ms: when the next one may be sent (monotonic).
    """

    def __init__(self) -> None:
        self.in_flight: FetchMetadata | QueryCluster | None = None
        self.not_before_ms = 0

    def take_answer(self, request_id: int) -> bool:
        """Return whether `request_id` is the one in flight, and clear it if so."""
        if self.in_flight is None or request_id != self.in_flight.request_id:
            return False
        self.in_flight = None
        return True

    def schedule(self, now: Instant, wait_ms: int) -> None:
        """Drop what is in flight, and send nothing for `wait_ms`."""
        self.in_flight, self.not_before_ms = None, now.mono_ms + wait_ms

    def start(
        self, request_id: int, names: tuple[str, ...], question: Any
    ) -> FetchMetadata | QueryCluster:
        """Return the next request: the assignor's query if there is one, since the generation waits
        for it.
        """
        self.in_flight = (
            FetchMetadata(request_id, names)
            if question is None
            else QueryCluster(request_id, question)
        )
        return self.in_flight
