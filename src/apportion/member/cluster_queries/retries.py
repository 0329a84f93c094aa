"""The rule that sends a query until it is accepted, by the table of `member/reactions.py`.

How long it is sent again, and after which pauses, the driver decides.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

from apportion.errors import Refused, Unanswerable
from apportion.member.cluster_queries.query import BrokerQuery, GroupQuery
from apportion.member.reactions import retry_or_raise
from apportion.rules import Rule, RuleQuery

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Send(RuleQuery):
    """Send the query once, to its group's coordinator or to any broker. Answer: its result."""

    query: BrokerQuery[Any]


@dataclass(frozen=True, slots=True)
class PauseBeforeRetry(RuleQuery):
    """Wait a moment. Answer: None. Raises `error` if the request has no time left."""

    error: Exception


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
            retry_or_raise(query.api, refused)
            failure = refused
        except Unanswerable as error:
            # Another broker takes over the group of one that is down. No other query waits for a
            # broker: the driver has tried every one.
            if not isinstance(query, GroupQuery):
                raise
            failure = error
        yield PauseBeforeRetry(failure)
