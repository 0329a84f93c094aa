"""Assignments by names: what an assignor that is written outside the package takes and returns.

Topics go by name, as in the bytes that members of a classic group exchange. So one assignor can
serve on either side: on the leader of a classic group, and in the coordinator of a consumer group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from apportion.topics import grouped


class TopicParts(NamedTuple):
    """Some partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


def by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicParts, ...]:
    """Return the partitions of an assignment by topic, each once, in order of name and number."""
    # sorted and without repetitions: equal sets of partitions must give equal bytes
    pairs = sorted(dict.fromkeys(partitions))
    return tuple(TopicParts(*each) for each in grouped(pairs).items())


def each_once(parts: Iterable[TopicParts]) -> tuple[TopicParts, ...]:
    """Return the same partitions, each once, in order of name and number."""
    return by_topic((topic, number) for topic, numbers in parts for number in numbers)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription in JoinGroup, as the leader gets it.

    user_data: bytes from its assignor. owned: what it owned in `generation`; -1 if it does not know
    (KIP-792).
    instance_id: not in the bytes; the coordinator adds it.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicParts, ...] = ()
    generation: int = -1
    rack_id: str | None = None
    instance_id: str | None = None


class TopicShape(NamedTuple):
    """The number of partitions of a topic, and the racks of each partition's replicas if known."""

    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


ClusterTopics = Mapping[str, TopicShape]
"""The topics that exist, by name."""


@dataclass(frozen=True, slots=True)
class Given:
    """A member's assignment: partitions, and bytes from the leader's assignor to its own."""

    partitions: tuple[TopicParts, ...] = ()
    user_data: bytes | None = None
