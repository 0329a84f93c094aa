"""The queries of `RecordConsumer` that rules of micro-batches do not have.

Those that it shares with them are in `member.queries`. The drivers that answer are
`client.consumer`, `sim.actors.record_application`, and tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from apportion.topics import TopicIdPartition


@dataclass(frozen=True, slots=True)
class PollMembership:
    """Show the member that its application polls (max.poll.interval.ms). Answer: None."""


@dataclass(frozen=True, slots=True)
class AwaitMembershipChange:
    """Wait until the member's state changes, or the timeout is over. Answer: None."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """Look up those of the named topics that exist; cached metadata will do. Answer: Topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FetchRecords:
    """Fetch from these positions, waiting up to `max_wait_ms` if there is nothing to read.

    Answer: dict[TopicIdPartition, PartitionFetch]; partitions whose leader did not answer, or whose
    topic was deleted, are left out.
    """

    positions: Mapping[TopicIdPartition, int]
    max_wait_ms: int


@dataclass(frozen=True, slots=True)
class ReportFetch:
    """Report how a fetch ended, for the log: `error` is None if it was answered. Answer: None."""

    error: Exception | None


@dataclass(frozen=True, slots=True)
class CallListener:
    """Call the application's rebalance listener: on_assigned, on_revoked or on_lost.

    Answer: the exception that it raised; None without one. The rule completes the change of the
    partitions, and raises the exception to the caller of poll.
    """

    name: str
    partitions: tuple[TopicIdPartition, ...]
