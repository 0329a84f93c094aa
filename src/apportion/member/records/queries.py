"""The queries of `RecordConsumer` that no other rule asks.

Those that it shares with other rules are in `member.queries`. The drivers that answer are
`client.consumer`, `sim.actors.record_application`, and tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from apportion.rules import RuleQuery
from apportion.topics import TopicIdPartition

ListenerName = Literal["on_assigned", "on_revoked", "on_lost"]


@dataclass(frozen=True, slots=True)
class AwaitMembershipChange(RuleQuery):
    """Wait until the member's state changes, or the timeout is over. Answer: None."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class CheckForTopics(RuleQuery):
    """Warn of subscribed topics that do not exist, without waiting for a broker. Answer: None."""


@dataclass(frozen=True, slots=True)
class FetchRecords(RuleQuery):
    """Fetch from these positions, waiting up to `max_wait_ms` if there is nothing to read.

    Answer: dict[TopicIdPartition, PartitionFetch], where a partition's error is in its part;
    partitions whose leader did not answer, or whose topic was deleted, are left out.

    turn: counts the fetches; in each one another of a leader's partitions comes first.
    """

    positions: Mapping[TopicIdPartition, int]
    max_wait_ms: int
    turn: int = 0


@dataclass(frozen=True, slots=True)
class ReportFetch(RuleQuery):
    """Report how a fetch ended, for the log: `error` is None if it was answered. Answer: None."""

    error: Exception | None


@dataclass(frozen=True, slots=True)
class CallListener(RuleQuery):
    """Call the application's rebalance listener of that name.

    Answer: the exception that it raised; None without one. The rule completes the change of the
    partitions, and raises the exception to the caller of poll.
    """

    name: ListenerName
    partitions: tuple[TopicIdPartition, ...]
