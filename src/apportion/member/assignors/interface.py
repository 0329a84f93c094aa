"""The interface of client-side assignors: their input, their output, and their methods.

Topics go by name here, as in the bytes that members exchange; `numbering.py` turns names into
numbers.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from apportion.errors import Code
from apportion.topics import grouped
from apportion.wire.records.consumer_protocol import ConsumerProtocolTopicPartition


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


def to_named_parts(parts: Iterable[TopicParts]) -> tuple[ConsumerProtocolTopicPartition, ...]:
    """Return the partitions as the consumer protocol's messages have them."""
    return tuple(
        ConsumerProtocolTopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in parts
    )


def from_named_parts(parts: Iterable[ConsumerProtocolTopicPartition]) -> tuple[TopicParts, ...]:
    """Return the partitions in a message of the consumer protocol."""
    return tuple(TopicParts(part.topic, part.partitions) for part in parts)


class Rebalance(IntEnum):
    """The rebalance protocol; a group uses the highest that all its members support."""

    EAGER = 0
    """A member revokes all its partitions before it rejoins."""
    COOPERATIVE = 1
    """A member keeps its partitions until the assignment revokes them (KIP-429)."""


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


AssignmentQueries = Generator[Any, Any, dict[str, Given]]
"""An assignor that has queries to the cluster: it yields one, and is sent the answer, or
`errors.Unanswerable` is thrown in.
"""


class FollowUp(NamedTuple):
    """A rebalance that the assignor needs later: the member rejoins at `at_ms`.

    at_ms: wall-clock time in ms; 0: at once. why: the reason, for logs and JoinGroup (KIP-800).
    """

    at_ms: int
    why: str


class MemberFailure(NamedTuple):
    """An assignment that ends the membership, once the user has stopped using its partitions.

    code, why: the error with which it ends.
    """

    code: Code
    why: str


class Assignor(Protocol):
    """A strategy by which the leader of a classic group assigns partitions.

    Subclass it, or write the same methods. An assignor that keeps state (see `on_assignment`) must
    be an object of its own for each member.
    """

    name: str
    """The protocol name in JoinGroup, for which members vote.

    Assignors of one name must understand each other's user data.
    """
    rebalances: tuple[Rebalance, ...] = (Rebalance.EAGER,)
    """The rebalance protocols that it supports.

    COOPERATIVE: it never assigns a partition that another member still owns (`check_cooperative`).
    """

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Return the bytes that JoinGroup carries to the leader's assignor; None for none.

        topics: the member's subscription.
        """
        return None

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> dict[str, Given] | AssignmentQueries:
        """Return the assignments by member id; a member that is left out is assigned nothing.

        Called on the leader of a classic group only, when all members have joined. An assignor that
        has to ask the cluster first (for offsets, or to create topics) returns a generator instead,
        which yields its queries, is sent the answers, and returns the assignments.
        """
        ...

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        """Take this member's assignment in a generation of its group (KIP-341).

        Called on every member, after SyncGroup. Return None, or a `FollowUp`, which makes the
        member rejoin at that time unless the group rebalances before, or a `MemberFailure`, with
        which it gives up all partitions and ends. Members of apportion obey both; other clients,
        which use the assignor through an adapter, cannot.
        """
        return None
