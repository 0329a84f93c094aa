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
    """A member's subscription, as the leader of a classic group gets it in JoinGroup.

    user_data: bytes from its assignor. owned: what it owned in `generation`; -1 if it does not know
    (KIP-792).
    instance_id: not in the bytes; the coordinator adds it.
    version, reason: in a consumer group (KIP-848), the version of `user_data`, and why the member's
    assignor asks for a new assignment, 0 for none; `owned` is its older target there.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicParts, ...] = ()
    generation: int = -1
    rack_id: str | None = None
    instance_id: str | None = None
    version: int = 0
    reason: int = 0


class TopicShape(NamedTuple):
    """The number of partitions of a topic, and the racks of each partition's replicas if known."""

    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


ClusterTopics = Mapping[str, TopicShape]
"""The topics that exist, by name."""


@dataclass(frozen=True, slots=True)
class Given:
    """A member's assignment: partitions, and bytes from the leader's assignor to its own.

    error: the assignor's own number of an error, 0 for none. Every member of a consumer group
    (KIP-848) is told that of any of them; a classic group has no place for it.
    version: of `user_data`, where a member of a consumer group is given it.
    """

    partitions: tuple[TopicParts, ...] = ()
    user_data: bytes | None = None
    error: int = 0
    version: int = 0
