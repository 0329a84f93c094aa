"""The driver of a member's rules, and its answers from the membership and the cluster.

The rules are those of `Consumer` and of a Spark query. The answers here are to the queries of both;
each has further queries of its own.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from apportion.client.group_membership import GroupMembership
from apportion.drive.notes import log_note
from apportion.machine import Note
from apportion.member.membership import Event
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.rules import Rule, run_rule

T = TypeVar("T")
Answers = Mapping[type, Callable[[Any, Any], Any]]
"""How each kind of query is answered: functions of the rule's driver and the query."""


class RuleDriver:
    """The driver of one member's rules, which has an answer to each of their queries."""

    _answers: ClassVar[Answers]
    _log: ClassVar[logging.Logger]
    _membership: GroupMembership[Event]
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
