"""Topics and partitions as values. `Topics` is an immutable snapshot, never a live view."""

from collections.abc import Iterable, Iterator, Mapping
from re import fullmatch
from typing import NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

TopicId = bytes
"""16 bytes, as on the wire."""

NO_TOPIC_ID: TopicId = bytes(16)
NAME_LENGTH = 249


def is_topic_name(name: object) -> bool:
    """Return whether a topic may have this name."""
    is_legal = (
        isinstance(name, str) and fullmatch(f"[a-zA-Z0-9._-]{{1,{NAME_LENGTH}}}", name) is not None
    )
    # A topic's name becomes a directory's, where these two mean something else.
    return is_legal and name not in (".", "..")


class TopicPartition(NamedTuple):
    """One partition, by its topic's name."""

    topic: str
    partition: int


class IdPartition(NamedTuple):
    """One partition, by its topic's id alone, as the consumer group protocol (KIP-848) names it."""

    topic_id: TopicId
    partition: int


class TopicIdPartition(NamedTuple):
    """One partition, by its topic's name and id.

    A topic that is deleted and created again under its old name has a new id, so its partitions are
    different values.
    """

    topic: str
    topic_id: TopicId
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition without its topic's id."""
        return TopicPartition(self.topic, self.partition)

    @property
    def id_partition(self) -> IdPartition:
        """The partition without its topic's name."""
        return IdPartition(self.topic_id, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Topic(NamedTuple):
    """One topic at one moment.

    racks: of each partition's replicas, in order of name; () where they are not known. The broker
    of the package knows none, because it has one node, and no rack.
    """

    name: str
    id: TopicId
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


def partitions_of(topic: Topic) -> tuple[TopicIdPartition, ...]:
    """Return every partition of the topic."""
    return tuple(
        TopicIdPartition(topic.name, topic.id, number) for number in range(topic.partitions)
    )


def values_by_topic(
    values: Mapping[TopicIdPartition, V],
) -> dict[tuple[str, TopicId], tuple[tuple[int, V], ...]]:
    """Group values by their partition's topic, its name and id, as requests are laid out."""
    return grouped(
        ((topic, topic_id), (number, value)) for (topic, topic_id, number), value in values.items()
    )


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, tuple[V, ...]]:
    """Group values by their keys, in the order given; as a rule, partition numbers by topic.

    Sorted partitions give sorted topics and numbers, so equal assignments give equal bytes.
    """
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}


def ranges(numbers: Iterable[int]) -> str:
    """Return the numbers of partitions in order, as `0-19,23`."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _runs(sorted(numbers))
    )


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Return the first and the last of each run of consecutive numbers, for `ranges`."""
    firsts = [
        number
        for before, number in zip([None, *numbers], numbers, strict=False)
        if before is None or number > before + 1
    ]
    lasts = [
        number
        for number, after in zip(numbers, [*numbers[1:], None], strict=True)
        if after is None or after > number + 1
    ]
    return zip(firsts, lasts, strict=True)


class Topics:
    """An immutable snapshot of topics, looked up by name or by id.

    Snapshots are equal if they hold the same topics.
    """

    __slots__ = ("_by_id", "_by_name")

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        ordered = sorted(topics)
        self._by_name = {topic.name: topic for topic in ordered}
        self._by_id = {topic.id: topic for topic in ordered}

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over the topics in order of name."""
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topics) and self._by_name == other._by_name

    __hash__ = None  # type: ignore[assignment]

    def named(self, name: str) -> Topic | None:
        """Return the topic with that name; None if there is none."""
        return self._by_name.get(name)

    def with_id(self, topic_id: TopicId) -> Topic | None:
        """Return the topic with that id; None if there is none, as after its deletion."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, number: int) -> TopicIdPartition | None:
        """Return a partition with its topic's id; None if the snapshot does not have it."""
        topic = self.named(name)
        if topic is None or not 0 <= number < topic.partitions:
            return None
        return TopicIdPartition(name, topic.id, number)
