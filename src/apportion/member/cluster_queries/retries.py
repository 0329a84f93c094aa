"""The rule that sends a query until it is accepted, by the table of `member/reactions.py`.

How long it is sent again, and after which pauses, the driver decides.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

from apportion.errors import Refused, Unanswerable
from apportion.member.cluster_queries.query import BrokerQuery, GroupQuery
from apportion.member.reactions import Reaction, is_coordinator_away, retry_or_raise
from apportion.rules import Rule, RuleQuery

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Send(RuleQuery):
    """Send the query once, to its group's coordinator or to any broker. Answer: its result.

    timeout_ms: None: what the operation has left (`member/time_limits.py`).
    """

    query: BrokerQuery[Any]
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PauseBeforeRetry(RuleQuery):
    """Wait a moment. Answer: None. Raises `error` if the request has no time left."""

    error: Exception


@dataclass(frozen=True, slots=True)
class RecordInterruption(RuleQuery):
    """Count an answer after which a group's coordinator may have started again. Answer: None.

    has_moved: the next query to the coordinator has to find it again. The driver itself counts
    broken connections to it (`MembershipSnapshot`): any request may be the first to meet one.
    """

    group_id: str
    has_moved: bool


def send_until_accepted(query: BrokerQuery[V]) -> Rule[V]:
    """Send the query until a response without an error comes; return its result.

    Raises Refused for an error that no retry mends, Unanswerable if no broker answers.
    """
    while True:
        failure: Exception
        try:
            result: V = yield Send(query)
            return result
        except Refused as refused:
            needed = retry_or_raise(query.api, refused)
            if isinstance(query, GroupQuery) and is_coordinator_away(refused.code):
                yield RecordInterruption(query.group_id, needed is Reaction.FIND_COORDINATOR)
            failure = refused
        except Unanswerable as error:
            # Another broker takes over the group of one that is down. No other query waits for a
            # broker: the driver has tried every one.
            if not isinstance(query, GroupQuery):
                raise
            failure = error
        yield PauseBeforeRetry(failure)
