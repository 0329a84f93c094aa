"""The interface of client-side assignors: what goes into one, what comes out, and what one is.

Topics go by name here, as in the bytes that members exchange; `numbering.py` turns names into
numbers.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from apportion.errors import Code
from apportion.wire.records.consumer_protocol import ConsumerProtocolTopicPartition


class TopicParts(NamedTuple):
    """Some partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


def by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicParts, ...]:
    """Return these partitions, each once, topics in order of name and numbers ascending."""
    pairs = sorted(dict.fromkeys(partitions))
    return tuple(
        TopicParts(topic, tuple(number for _, number in run))
        for topic, run in groupby(pairs, lambda pair: pair[0])
    )


def each_once(parts: Iterable[TopicParts]) -> tuple[TopicParts, ...]:
    """Return the same partitions, each once, topics in order of name and numbers ascending."""
    return by_topic((topic, number) for topic, numbers in parts for number in numbers)


def to_wire(parts: Iterable[TopicParts]) -> tuple[ConsumerProtocolTopicPartition, ...]:
    """Return the partitions as messages have them."""
    return tuple(
        ConsumerProtocolTopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in parts
    )


def from_wire(parts: Iterable[ConsumerProtocolTopicPartition]) -> tuple[TopicParts, ...]:
    """Return the partitions in a message."""
    return tuple(TopicParts(part.topic, part.partitions) for part in parts)


class Rebalance(IntEnum):
    """The rebalance protocol; a group uses the highest that all its members support."""

    EAGER = 0
    """Everybody gives back everything before it joins again."""
    COOPERATIVE = 1
    """Everybody keeps what it has until the assignment takes it away (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member tells the leader in JoinGroup.

    user_data: what its assignor wrote. owned: what it owned in `generation`; -1 if it does not know
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
    """The number of partitions of a topic, and the racks of each one's replicas where they are
    known.
    """

    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


Cluster = Mapping[str, TopicShape]
"""The topics that exist, by name."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a member is assigned: partitions, and bytes from the leader's assignor to its own."""

    partitions: tuple[TopicParts, ...] = ()
    user_data: bytes | None = None


AssignmentQueries = Generator[Any, Any, dict[str, Given]]
"""An assignment in the making: it yields what it must know, and is sent the answer or thrown
`errors.Unanswerable`.
"""


class FollowUp(NamedTuple):
    """The member rejoins at a wall-clock time in ms, 0 for at once. why: the reason, for people."""

    at_ms: int
    why: str


class Farewell(NamedTuple):
    """The member ends, as soon as its owner has let go of everything in order.

    Code, why: the error it ends with.
    """

    code: Code
    why: str


class Assignor(Protocol):
    """A strategy by which the leader of a classic group assigns partitions.

    Subclass it, or write the same methods.

    One that keeps state (see `on_assignment`) must be an object of its own for each member.
    """

    name: str
    """What members vote for: all that share a name must understand each other's user data."""
    rebalances: tuple[Rebalance, ...] = (Rebalance.EAGER,)
    """What its assignments are good for. COOPERATIVE: it never gives a member what another still
    has (see `check_cooperative`).
    """

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Return what a member that subscribes to these topics sends to the leader's assignor."""
        return None

    def assign(
        self, cluster: Cluster, members: Mapping[str, Subscription]
    ) -> dict[str, Given] | AssignmentQueries:
        """Return what each member gets, by member id; a member that is left out gets nothing.

        Runs on the leader only.
        """
        ...

    def on_assignment(self, given: Given, generation: int) -> FollowUp | Farewell | None:
        """Learn what this member was given, in that generation of its group (KIP-341).

        Called on every member.

        A `FollowUp` makes the member rejoin then, unless the group rebalances before. With a
        `Farewell` it holds nothing any more, whatever it was given, and ends. Our members heed
        both; other clients, by way of the adapters, cannot.
        """
        return None
