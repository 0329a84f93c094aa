"""The time of an operation: timeouts of its queries, pauses before its retries, and its end."""

from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.groups import ListGroupsQuery
from apportion.member.cluster_queries.records import FetchQuery
from apportion.member.cluster_queries.retries import (
    PauseBeforeRetry,
    RecordInterruption,
    Send,
    send_until_accepted,
)
from apportion.member.partition_leaders import SendToLeader
from apportion.member.time_limits import (
    Pause,
    ReadClock,
    RetryDeadline,
    metadata_limit_ms,
    within,
)
from apportion.rules import Rule, run_rule

LOADING = Refused(Code.COORDINATOR_LOAD_IN_PROGRESS, "loading")
QUERY, FETCH = ListGroupsQuery(), FetchQuery({}, 0)
START_MS = 7_000


class Clock:
    """A clock that stands still but for pauses and requests, each of which takes `request_ms`.

    answers: to the requests, in order; then LOADING for ever. asked: all but looks at the clock.
    """

    def __init__(self, *answers: Any, request_ms: int = 0) -> None:
        self.now_ms, self.request_ms = START_MS, request_ms
        self.answers = list(answers)
        self.asked: list[Any] = []

    def run(self, rule: Rule[Any]) -> Any:
        return run_rule(rule, self._answer)

    @property
    def pauses(self) -> list[int]:
        return [query.pause_ms for query in self.asked if isinstance(query, Pause)]

    @property
    def timeouts(self) -> list[int | None]:
        return [query.timeout_ms for query in self.asked if isinstance(query, Send | SendToLeader)]

    def _answer(self, query: Any) -> Any:
        if isinstance(query, ReadClock):
            return self.now_ms
        self.asked.append(query)
        match query:
            case Pause(pause_ms):
                self.now_ms += pause_ms
                return None
            case Send() | SendToLeader():
                self.now_ms += self.request_ms
                answer = self.answers.pop(0) if self.answers else LOADING
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return None


def test_an_answer_in_time_is_the_result() -> None:
    clock = Clock("yes")
    assert clock.run(within(send_until_accepted(QUERY), 1_000)) == "yes"
    assert clock.asked == [Send(QUERY, 1_000)]


def test_each_request_has_what_is_left_of_the_time() -> None:
    clock = Clock(LOADING, LOADING, "yes", request_ms=300)
    assert clock.run(within(send_until_accepted(QUERY), 1_000)) == "yes"
    assert clock.asked == [
        Send(QUERY, 1_000),
        Pause(50),
        Send(QUERY, 650),
        Pause(100),
        Send(QUERY, 250),
    ]


def test_pauses_double_up_to_a_second() -> None:
    clock = Clock(*[LOADING] * 7, "yes")
    assert clock.run(within(send_until_accepted(QUERY), 60_000)) == "yes"
    assert clock.pauses == [50, 100, 200, 400, 800, 1_000, 1_000]


@pytest.mark.parametrize(
    ("limit_ms", "pauses"), [(50, []), (51, [50]), (150, [50]), (400, [50, 100, 200])]
)
def test_the_last_error_is_raised_instead_of_a_pause_that_would_outlast_the_time(
    limit_ms: int, pauses: list[int]
) -> None:
    clock = Clock()
    with pytest.raises(Refused) as raised:
        clock.run(within(send_until_accepted(QUERY), limit_ms))
    assert raised.value is LOADING
    assert clock.pauses == pauses


def test_a_request_that_outlasts_the_time_is_not_sent_again() -> None:
    clock = Clock(request_ms=5_000)
    with pytest.raises(Refused, match="loading"):
        clock.run(within(send_until_accepted(QUERY), 5_000))
    assert clock.asked == [Send(QUERY, 5_000)]


def test_a_query_keeps_a_timeout_of_its_own() -> None:
    def rule() -> Rule[None]:
        yield SendToLeader(1, FETCH, 8_000)
        yield SendToLeader(1, FETCH)
        yield Send(QUERY, 3)

    clock = Clock({}, {}, {})
    clock.run(within(rule(), 1_000))
    assert clock.timeouts == [8_000, 1_000, 3]


def test_of_two_limits_the_inner_one_holds() -> None:
    clock = Clock(LOADING, "yes")
    assert clock.run(within(within(send_until_accepted(QUERY), 9_000), 10)) == "yes"
    assert clock.asked == [Send(QUERY, 9_000), Pause(50), Send(QUERY, 8_950)]


def test_a_rule_may_go_on_after_the_end_of_its_time_and_asks_with_a_last_millisecond() -> None:
    def rule() -> Rule[str]:
        try:
            yield PauseBeforeRetry(LOADING)
        except Refused:
            yield Send(QUERY)
        return "went on"

    clock = Clock("yes")
    assert clock.run(within(rule(), 0)) == "went on"
    assert clock.timeouts == [1]


def test_other_queries_pass_with_their_answers() -> None:
    def rule() -> Rule[list[Any]]:
        first = yield ReadClock()
        second = yield RecordInterruption("g", has_moved=True)
        return [first, second]

    clock = Clock()
    assert clock.run(within(rule(), 0)) == [START_MS, None]
    assert clock.asked == [RecordInterruption("g", has_moved=True)]


def test_the_time_that_is_left_is_never_less_than_a_timeout_can_be() -> None:
    deadline = RetryDeadline(START_MS, 100)
    assert [deadline.left_ms(START_MS + passed) for passed in (0, 99, 100, 10_000)] == [
        100,
        1,
        1,
        1,
    ]


def test_metadata_have_the_timeout_of_requests_up_to_ten_seconds() -> None:
    assert [metadata_limit_ms(each) for each in (1, 10_000, 30_000)] == [1, 10_000, 10_000]
