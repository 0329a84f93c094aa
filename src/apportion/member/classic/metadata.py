"""What a classic member knows of topics: the classic protocol speaks of names, all else of ids.

An `TopicMetadataCache` is only ever told; it asks nobody and forgets no name of an id, for what is held must be told of by name.
"""

from collections.abc import Iterable
from typing import Any

from apportion.machine import Instant
from apportion.member.assignors.interface import TopicParts, TopicShape, by_topic
from apportion.member.membership import Assignment, FetchMetadata, QueryCluster, TopicDescription, assignment
from apportion.topics import IdPartition, TopicId


class TopicMetadataCache:
    """Names, ids and shapes of topics, as last heard."""

    def __init__(self) -> None:
        self._seen: dict[str, TopicDescription] = {}
        self._names: dict[TopicId, str] = {}

    def replace_topics(self, asked: Iterable[str], seen: Iterable[TopicDescription]) -> None:
        """Of the topics that were asked for, exactly those that were seen exist."""
        for name in asked:
            self._seen.pop(name, None)
        for topic in seen:
            self._seen[topic.name] = topic
            self._names[topic.id] = topic.name

    def topic_name(self, partition: IdPartition) -> str:
        """The name of the topic of a partition that came from here."""
        return self._names[partition.topic_id]

    def was_recreated(self, partition: IdPartition) -> bool:
        """Whether its topic's name is another topic's now."""
        seen = self._seen.get(self.topic_name(partition))
        return seen is not None and seen.id != partition.topic_id

    def to_assignment(self, parts: Iterable[TopicParts]) -> Assignment:
        """These partitions by the ids that their topics have now, without those that do not exist."""
        flat = ((topic, number) for topic, numbers in parts for number in numbers)
        return assignment(IdPartition(self._seen[topic].id, number) for topic, number in flat if self._has(topic, number))

    def topic_ids(self) -> dict[str, TopicId]:
        """The ids that all topics had when they were last seen."""
        return {name: seen.id for name, seen in self._seen.items()}

    def topic_ids_of(self, parts: Iterable[TopicParts]) -> dict[str, TopicId]:
        """The ids that the topics of these parts have now, of those that exist."""
        return {topic: seen.id for topic, _ in parts if (seen := self._seen.get(topic)) is not None}

    def is_missing_any(self, parts: Iterable[TopicParts]) -> bool:
        """Whether some of these do not exist, or not yet where the cluster was asked."""
        return any(not self._has(topic, number) for topic, numbers in parts for number in numbers)

    def to_topic_parts(self, held: Assignment) -> tuple[TopicParts, ...]:
        """These partitions by name, in order; a topic and its namesake that was made later are one."""
        return by_topic((self.topic_name(partition), partition.partition) for partition in held)

    def topic_shapes(self, names: Iterable[str]) -> dict[str, TopicShape]:
        """Those of the named topics that exist, as an assignor wants to see them."""
        return {name: TopicShape(topic.partitions, topic.racks) for name in names if (topic := self._seen.get(name)) is not None}

    def _has(self, topic: str, number: int) -> bool:
        seen = self._seen.get(topic)
        return seen is not None and 0 <= number < seen.partitions


class MetadataRefresh:
    """under_way: what is asked now; whatever is answered to something else comes too late. at_ms: when it may ask next."""

    def __init__(self) -> None:
        self.in_flight: FetchMetadata | QueryCluster | None = None
        self.not_before_ms = 0

    def take_answer(self, request_id: int) -> bool:
        """Whether this is the answer that is waited for; it is waited for no longer."""
        if self.in_flight is None or request_id != self.in_flight.request_id:
            return False
        self.in_flight = None
        return True

    def schedule(self, now: Instant, wait_ms: int) -> None:
        """What is asked now is of no use any more, and the next look waits that long."""
        self.in_flight, self.not_before_ms = None, now.mono_ms + wait_ms

    def start(self, request_id: int, names: tuple[str, ...], question: Any) -> FetchMetadata | QueryCluster:
        """An assignor's question goes first: until it is answered, nothing else can be done."""
        self.in_flight = FetchMetadata(request_id, names) if question is None else QueryCluster(request_id, question)
        return self.in_flight
