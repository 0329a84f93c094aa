"""The words of an assignment that a group's leader makes: what goes into an assignor, what comes out, and what an assignor is.

Topics are named here, as in the bytes that members exchange; `numbering.py` makes numbers of the names.
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
    """These partitions, each once, topics in order of name and numbers ascending."""
    pairs = sorted(dict.fromkeys(partitions))
    return tuple(TopicParts(topic, tuple(number for _, number in run)) for topic, run in groupby(pairs, lambda pair: pair[0]))


def each_once(parts: Iterable[TopicParts]) -> tuple[TopicParts, ...]:
    """The same partitions, each once, topics in order of name and numbers ascending."""
    return by_topic((topic, number) for topic, numbers in parts for number in numbers)


def to_wire(parts: Iterable[TopicParts]) -> tuple[ConsumerProtocolTopicPartition, ...]:
    """The partitions as a message has them."""
    return tuple(ConsumerProtocolTopicPartition(topic=topic, partitions=partitions) for topic, partitions in parts)


def from_wire(parts: Iterable[ConsumerProtocolTopicPartition]) -> tuple[TopicParts, ...]:
    """The partitions that a message has."""
    return tuple(TopicParts(part.topic, part.partitions) for part in parts)


class Rebalance(IntEnum):
    """How members of a group change hands; the higher of two that all can is taken."""

    EAGER = 0
    """Everybody gives back everything before it joins again."""
    COOPERATIVE = 1
    """Everybody keeps what it has until the assignment takes it away (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member says to the leader when it joins.

    user_data: what its assignor wrote. owned: what it had, in `generation`; -1 when it does not know (KIP-792).
    instance_id: not in the bytes; the coordinator adds it.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicParts, ...] = ()
    generation: int = -1
    rack_id: str | None = None
    instance_id: str | None = None


class TopicShape(NamedTuple):
    """How many partitions a topic has, and the racks of each one's replicas where they are known."""

    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


Cluster = Mapping[str, TopicShape]
"""The topics that exist, by name."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a member gets: partitions, and bytes from its leader's assignor to its own."""

    partitions: tuple[TopicParts, ...] = ()
    user_data: bytes | None = None


AssignmentQueries = Generator[Any, Any, dict[str, Given]]
"""An assignment in the making: it yields what it must know, and is sent the answer or thrown `errors.Unanswerable`."""


class FollowUp(NamedTuple):
    """A member shall join again at a time of the wall clock in ms, 0 for at once. why: the reason, for people."""

    at_ms: int
    why: str


class Farewell(NamedTuple):
    """A member shall end, as soon as its owner has let go of everything in order. code, why: what it ends with."""

    code: Code
    why: str


class Assignor(Protocol):
    """A strategy by which the leader of a classic group shares out partitions. Subclass it, or write the same methods.

    One that has a memory (see `on_assignment`) must be an object of its own for each member.
    """

    name: str
    """What members vote for: all that share a name must understand each other's user data."""
    rebalances: tuple[Rebalance, ...] = (Rebalance.EAGER,)
    """What its assignments are good for. COOPERATIVE: it never gives a member what another still has (see `check_cooperative`)."""

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """What a member that wants these topics tells the leader's assignor beside its subscription."""
        return None

    def assign(self, cluster: Cluster, members: Mapping[str, Subscription]) -> dict[str, Given] | AssignmentQueries:
        """Who gets what, by member id; a member that is left out gets nothing. Asked of the leader's assignor only."""
        ...

    def on_assignment(self, given: Given, generation: int) -> FollowUp | Farewell | None:
        """The member has been given this, in that generation of its group (KIP-341). Called on every member.

        A `FollowUp` makes the member join again then, unless the group rebalances before. With a `Farewell` it holds nothing any
        more, whatever it was given, and ends. Our members heed both; other clients, by way of the adapters, cannot.
        """
        return None
