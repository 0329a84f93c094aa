"""The rule that sends a query until it is accepted."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.groups import ListedGroupQuery, ListGroupsQuery
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.member.cluster_queries.retries import PauseBeforeRetry, Send, send_until_accepted
from apportion.rules import run_rule

LOADING = Refused(Code.COORDINATOR_LOAD_IN_PROGRESS, "loading")
MOVED = Refused(Code.NOT_COORDINATOR, "moved")
FORBIDDEN = Refused(Code.GROUP_AUTHORIZATION_FAILED, "no")
DOWN = Unanswerable("down")
OF_A_GROUP, OF_A_BROKER = ListedGroupQuery("g"), ListGroupsQuery()


def sent(query: BrokerQuery[Any], *answers: Any) -> tuple[Any, list[Exception]]:
    """The result or error of a query that is answered so, and the errors before its pauses."""
    paused: list[Exception] = []
    rest = iter(answers)

    def answer(asked: Any) -> Any:
        if isinstance(asked, PauseBeforeRetry):
            return paused.append(asked.error)
        assert asked == Send(query)
        if isinstance(answer := next(rest), Exception):
            raise answer
        return answer

    try:
        return run_rule(send_until_accepted(query), answer), paused
    except (Refused, Unanswerable) as error:
        return error, paused


@pytest.mark.parametrize("query", [OF_A_GROUP, OF_A_BROKER])
def test_a_query_is_sent_again_after_an_error_that_a_retry_mends(query: BrokerQuery[Any]) -> None:
    assert sent(query, LOADING, MOVED, "yes") == ("yes", [LOADING, MOVED])


@pytest.mark.parametrize("query", [OF_A_GROUP, OF_A_BROKER])
def test_any_other_error_is_raised_at_once(query: BrokerQuery[Any]) -> None:
    assert sent(query, LOADING, FORBIDDEN) == (FORBIDDEN, [LOADING])


def test_only_a_query_to_a_coordinator_outlasts_a_broker_that_is_down() -> None:
    assert sent(OF_A_GROUP, DOWN, "yes") == ("yes", [DOWN])
    assert sent(OF_A_BROKER, DOWN) == (DOWN, [])
