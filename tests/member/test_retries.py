"""The rule that sends a query until it is accepted."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.groups import ListedGroupQuery, ListGroupsQuery
from apportion.member.cluster_queries.offsets import NO_MEMBER, OffsetCommitQuery
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.member.cluster_queries.retries import (
    PauseBeforeRetry,
    RecordInterruption,
    Send,
    send_until_accepted,
)
from apportion.rules import run_rule

LOADING = Refused(Code.COORDINATOR_LOAD_IN_PROGRESS, "loading")
MOVED = Refused(Code.NOT_COORDINATOR, "moved")
FORBIDDEN = Refused(Code.GROUP_AUTHORIZATION_FAILED, "no")
AWAY = Refused(Code.COORDINATOR_NOT_AVAILABLE, "away")
SLOW = Refused(Code.REQUEST_TIMED_OUT, "slow")
DOWN = Unanswerable("down")
OF_A_GROUP, OF_A_BROKER = ListedGroupQuery("g"), ListGroupsQuery()


def sent(query: BrokerQuery[Any], *answers: Any) -> tuple[Any, list[Exception]]:
    """The result or error of a query that is answered so, and the errors before its pauses."""
    result, asked = run(query, *answers)
    return result, [each.error for each in asked if isinstance(each, PauseBeforeRetry)]


def run(query: BrokerQuery[Any], *answers: Any) -> tuple[Any, list[Any]]:
    """The result or error of a query that is answered so, and what the rule asks for beside it."""
    others: list[Any] = []
    rest = iter(answers)

    def answer(asked: Any) -> Any:
        if isinstance(asked, PauseBeforeRetry | RecordInterruption):
            return others.append(asked)
        assert asked == Send(query)
        if isinstance(answer := next(rest), Exception):
            raise answer
        return answer

    try:
        return run_rule(send_until_accepted(query), answer), others
    except (Refused, Unanswerable) as error:
        return error, others


@pytest.mark.parametrize("query", [OF_A_GROUP, OF_A_BROKER])
def test_a_query_is_sent_again_after_an_error_that_a_retry_mends(query: BrokerQuery[Any]) -> None:
    assert sent(query, LOADING, MOVED, "yes") == ("yes", [LOADING, MOVED])


@pytest.mark.parametrize("query", [OF_A_GROUP, OF_A_BROKER])
def test_any_other_error_is_raised_at_once(query: BrokerQuery[Any]) -> None:
    assert sent(query, LOADING, FORBIDDEN) == (FORBIDDEN, [LOADING])


def test_only_a_query_to_a_coordinator_outlasts_a_broker_that_is_down() -> None:
    assert sent(OF_A_GROUP, DOWN, "yes") == ("yes", [DOWN])
    assert sent(OF_A_BROKER, DOWN) == (DOWN, [])


@pytest.mark.parametrize(("failure", "has_moved"), [(LOADING, False), (AWAY, True), (MOVED, True)])
def test_the_answer_of_a_coordinator_that_may_have_started_again_is_an_interruption(
    failure: Exception, has_moved: bool
) -> None:
    interruption = RecordInterruption("g", has_moved=has_moved)
    assert run(OF_A_GROUP, failure, failure, "yes") == (
        "yes",
        [interruption, PauseBeforeRetry(failure)] * 2,
    )


def test_other_errors_of_a_coordinator_are_no_interruption() -> None:
    commit = OffsetCommitQuery("g", {}, NO_MEMBER, "")
    assert run(commit, SLOW, FORBIDDEN) == (FORBIDDEN, [PauseBeforeRetry(SLOW)])


@pytest.mark.parametrize("failure", [LOADING, MOVED])
def test_an_error_of_any_broker_says_nothing_about_a_group(failure: Exception) -> None:
    assert run(OF_A_BROKER, failure, DOWN) == (DOWN, [PauseBeforeRetry(failure)])
