"""The interface of client-side assignors: their methods, and what those say beside an assignment.

Topics go by name (`assign/by_name.py`), as in the bytes that members exchange; `numbering.py` turns
names into numbers.
"""

from collections.abc import Generator, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from apportion.assign.by_name import ClusterTopics, Given, Subscription, TopicParts
from apportion.errors import Code
from apportion.machine import Instant
from apportion.topics import TopicPartition
from apportion.wire.records.consumer_protocol import ConsumerProtocolTopicPartition


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


AssignmentQueries = Generator[Any, Any, dict[str, Given]]
"""An assignor that has queries to the cluster: it yields one, and is sent the answer, or
`errors.Unanswerable` is thrown in.
"""


class FollowUp(NamedTuple):
    """A rebalance that the assignor needs later: the member asks for it at `at_ms`.

    at_ms: wall-clock time in ms; 0: at once. why: the reason, for logs and JoinGroup (KIP-800).
    reason: the assignor's own number of the reason, from 1 to 127, which a member of a consumer
    group sends instead (KIP-848).
    after_ms: how long after the assignment, for an assignor that knows no time; at_ms is 0 then.
    """

    at_ms: int
    why: str
    reason: int = 1
    after_ms: int = 0

    def due_ms(self, now: Instant) -> int:
        """Return when it is due (monotonic ms). now: when the member was assigned."""
        # The assignor names a wall-clock time; deadlines use the monotonic clock.
        return now.mono_ms + max(0, self.at_ms - now.wall_ms, self.after_ms)


class MemberFailure(NamedTuple):
    """An assignment that ends the membership, once the user has stopped using its partitions.

    code, why: the error with which it ends.
    """

    code: Code
    why: str


class Assignor(Protocol):
    """A strategy by which a member assigns a group's partitions.

    The leader of a classic group runs it, or the member of a consumer group that the coordinator
    has chosen (KIP-848). Subclass it, or write the same methods. An assignor that keeps state (see
    `on_assignment`) must be an object of its own for each member.
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

        Called on one member only: on the leader of a classic group, when all members have joined,
        and in a consumer group on a thread beside the member's own. An assignor that
        has to ask the cluster first (for offsets, or to create topics) returns a generator instead,
        which yields its queries, is sent the answers, and returns the assignments.
        """
        ...

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        """Take this member's assignment in a generation of its group (KIP-341).

        Called on every member, after SyncGroup, or when a heartbeat has brought it; generation:
        the member epoch then. Return None, or a `FollowUp`, which makes the
        member rejoin at that time unless the group rebalances before, or a `MemberFailure`, with
        which it gives up all partitions and ends. Members of apportion obey both; other clients,
        which use the assignor through an adapter, cannot.
        """
        return None


class VersionedAssignor(Assignor, Protocol):
    """An assignor whose user data have versions, of which a consumer group agrees on one (KIP-848).

    The group uses the highest version that all its members understand. An `Assignor` that is none
    has version 0 alone.
    """

    minimum_version: int
    """The oldest version of user data that it understands."""
    maximum_version: int
    """The newest version of user data that it understands."""

    def versioned_user_data(self, topics: tuple[str, ...], version: int) -> bytes | None:
        """Return the user data in this version: in the newest, unless the group needs an older."""
        ...


@runtime_checkable
class MeasuringAssignor(Assignor, Protocol):
    """An assignor that a `Consumer` tells how much it reads."""

    def record_fetched(self, fetched: Mapping[TopicPartition, int], at_ms: int) -> None:
        """Take the bytes that this member has fetched of each of its partitions.

        Called on the consumer's thread, while `user_data` may run on another. at_ms: monotonic.
        """
        ...
