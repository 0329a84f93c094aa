"""The interface to which the actors of a simulation report.

Actors know this interface only. The checker of invariants (`apportion.sim.checks.checker`)
implements it, so imports go one way: kernel, actors, checks.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from apportion.errors import Code
from apportion.machine import Reply
from apportion.member.queries import MembershipSnapshot
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.topics import TopicIdPartition


class InUse(NamedTuple):
    """The partitions that an owner uses.

    incarnation: of the member to which they were assigned.
    """

    incarnation: int
    partitions: Mapping[TopicIdPartition, None]


# Incarnation 0 is that of no member: incarnations count from 1.
NOTHING_IN_USE = InUse(0, {})


class PartitionOwner(Protocol):
    """A member of a group together with the application that reads its partitions.

    in_use: what the application reads now. It may differ from what the member reports as owned
    while a rebalance is under way.
    """

    name: str
    group: str
    instance_id: str | None
    in_use: InUse
    is_up: bool
    member: Any
    interruptions: int

    @property
    def uses_classic_protocol(self) -> bool:
        """Return whether the member speaks JoinGroup and SyncGroup, not ConsumerGroupHeartbeat."""
        ...

    def mono_ms(self) -> int:
        """Return the monotonic clock of the owner's process."""
        ...

    def snapshot(self) -> MembershipSnapshot:
        """Return the member's state as its last step left it, and the time of its process."""
        ...


class DeliveryObserver(Protocol):
    """Sees the records that plain consumers deliver, their commits, and what queries read."""

    def records_delivered(self, owner: PartitionOwner, records: Iterable[ConsumerRecord]) -> None:
        """Note that the owner's application was handed these records."""
        ...

    def committed_requested(
        self, owner: PartitionOwner, incarnation: int, partitions: Iterable[TopicIdPartition]
    ) -> None:
        """Note that the owner asks for the committed offsets of these partitions."""
        ...

    def committed_fetched(
        self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int | None]
    ) -> None:
        """Note the committed offsets that the coordinator has shown to the owner."""
        ...

    def commit_failed(self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]) -> None:
        """Note that the owner's commit of these offsets was refused, or had no answer."""
        ...

    def poll_failed(self, owner: PartitionOwner, error: Exception) -> None:
        """Note that a poll of the owner's application raised this error."""
        ...

    def commit_sent(self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]) -> None:
        """Note that the owner is about to commit these offsets."""
        ...

    def commit_acknowledged(
        self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]
    ) -> None:
        """Note that the coordinator has acknowledged a commit of these offsets."""
        ...

    def range_read(
        self,
        owner: PartitionOwner,
        partition: TopicIdPartition,
        bounds: tuple[int, int],
        offsets: list[int],
    ) -> None:
        """Note which records a task of the owner's query has read of its range."""
        ...


class Observer(Protocol):
    """Sees every step of the broker and every change of an owner. It changes nothing that it sees.

    shard_rebuilds: how often coordinator shards were rebuilt from their logs.
    """

    shard_rebuilds: int

    @property
    def deliveries(self) -> DeliveryObserver:
        """The observer of records and commits."""
        ...

    def before_step(self, event: Any) -> None:
        """Note the state of the broker's node before it steps over `event`."""
        ...

    def after_step(self, event: Any) -> None:
        """Check the node after it stepped over `event`; None stands for its start."""
        ...

    def after_actions(self) -> None:
        """Check which requests wait once the actions of a step have been performed."""
        ...

    def reply_sent(self, request: Any, body: Any, since_ms: int) -> None:
        """Note a reply that leaves the broker. since_ms: when the request came, on its clock."""
        ...

    def reply_without_request(self, reply: Reply) -> None:
        """Note a reply to a ticket that was never given, or that has had its reply."""
        ...

    def answer_received(self, owner: PartitionOwner, epoch: int, code: Code) -> None:
        """Note that the member received an epoch, or generation, or an error."""
        ...

    def member_joined(self, owner: PartitionOwner) -> None:
        """Note that a classic member received a successful JoinGroup response."""
        ...

    def ownership_changed(self, owner: PartitionOwner) -> None:
        """Note that the owner's application uses other partitions than before."""
        ...
