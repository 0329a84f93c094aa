"""The driver of a member's rules, and its answers from the membership and the cluster.

The rules are those of `Consumer` and of a Spark query. The answers here are to the queries of both;
each has further queries of its own.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from apportion.client.cluster import Cluster
from apportion.client.cluster_answers import matching_topics
from apportion.drive.notes import log_note
from apportion.machine import Note
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import View
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MatchingTopics,
    MembershipSnapshot,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.rules import Rule, run_rule
from apportion.topics import IdPartition, TopicIdPartition

T = TypeVar("T")
Answers = Mapping[type, Callable[[Any, Any], Any]]
"""How each kind of query is answered: functions of the rule's driver and the query."""


class MembershipCalls(Protocol):
    """The calls that the driver of a member's rules makes to its membership.

    `GroupMembership` has these calls, and so has a reader whose partitions nobody balances.
    """

    @property
    def cluster(self) -> Cluster:
        """The connections to the brokers."""

    @property
    def settings(self) -> ConsumerSettings | ClassicSettings:
        """The settings of the member."""

    def start(self) -> None:
        """Begin to be a member."""

    def status(self) -> View:
        """Return the present status."""

    def snapshot(self) -> MembershipSnapshot:
        """Return the status and the time at which it was read."""

    def wait(self, ready: Callable[[View], bool], timeout_ms: int, /) -> View:
        """Wait until `ready` holds for the status, at most that long; return the status."""

    def wait_for_change(self, timeout_ms: int, /) -> View:
        """Wait for another status, at most that long; return the status."""

    def adopt(self, incarnation: int, owned: Iterable[IdPartition | TopicIdPartition], /) -> View:
        """Own these partitions from now on; return the status after that."""

    def touch(self) -> None:
        """Show that the member's owner polls."""

    def request_offsets(
        self, request: CommitOffsets | FetchCommitted, timeout_ms: int | None = None, /
    ) -> Any:
        """Commit or fetch offsets; return the answer."""

    def leave(self, timeout_ms: int, /, *, for_good: bool = False) -> bool:
        """Leave the group; return whether that is confirmed."""


class RuleDriver:
    """The driver of one member's rules, which has an answer to each of their queries."""

    _answers: ClassVar[Answers]
    _log: ClassVar[logging.Logger]
    _membership: MembershipCalls
    _request_timeout_ms: int

    def _run(self, rule: Rule[T]) -> T:
        """Run a rule to its end, with this driver's answers."""
        return run_rule(rule, lambda query: self._answers[type(query)](self, query))


ANSWERS: Answers = {
    Note: lambda driver, note: log_note(driver._log, note, driver._membership.settings.group_id),
    ReadMembership: lambda driver, _query: driver._membership.snapshot(),
    ExistingTopics: lambda driver, query: driver._membership.cluster.topics(
        query.names, fresh=True, timeout_ms=driver._request_timeout_ms
    ),
    MatchingTopics: lambda driver, query: matching_topics(
        driver._membership.cluster, query.expression
    ),
    ResolveTopicNames: lambda driver, query: driver._membership.cluster.resolve_names(
        query.partitions, driver._request_timeout_ms
    ),
    AdoptAssignment: lambda driver, query: driver._membership.adopt(
        query.incarnation, query.target
    ),
    FetchCommitted: lambda driver, query: driver._membership.request_offsets(
        query, driver._request_timeout_ms
    ),
    CommitOffsets: lambda driver, query: driver._membership.request_offsets(
        query, query.timeout_ms or driver._request_timeout_ms
    ),
    ListOffsets: lambda driver, query: driver._membership.cluster.list_offsets(
        query.partitions, query.timestamp, timeout_ms=driver._request_timeout_ms
    ),
}
