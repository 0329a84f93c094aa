"""The runner of rules that ask (apportion/rules.py)."""

from collections.abc import Generator
from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.rules import Rule, rule_script, run_rule

LOST = Unanswerable("no broker")
REFUSED = Refused(Code.NOT_COORDINATOR)


def asks_twice() -> Rule[list[Any]]:
    """Yield two queries; keep an error in place of its answer."""
    answers: list[Any] = []
    for query in ("first", "second"):
        try:
            answers.append((yield query))
        except (Refused, Unanswerable) as error:
            answers.append(error)
    return answers


def test_a_rule_is_sent_the_answers_to_its_queries_in_order() -> None:
    assert run_rule(asks_twice(), str.upper) == ["FIRST", "SECOND"]


def test_a_rule_without_queries_returns_its_result() -> None:
    def rule() -> Rule[int]:
        yield from ()
        return 7

    assert run_rule(rule(), str.upper) == 7


@pytest.mark.parametrize("error", [LOST, REFUSED])
def test_an_error_of_the_cluster_is_raised_at_the_query(error: Exception) -> None:
    def answer(query: str) -> str:
        if query == "first":
            raise error
        return query

    assert run_rule(asks_twice(), answer) == [error, "second"]


@pytest.mark.parametrize("error", [LOST, REFUSED])
def test_an_error_that_the_rule_does_not_handle_reaches_the_caller(error: Exception) -> None:
    def rule() -> Rule[None]:
        yield "first"

    def answer(_query: Any) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run_rule(rule(), answer)
    assert raised.value is error


def test_any_other_error_ends_the_rule_and_reaches_the_caller() -> None:
    ended = []

    def rule() -> Rule[None]:
        try:
            yield "first"
        finally:
            ended.append(True)

    with pytest.raises(ZeroDivisionError):
        run_rule(rule(), lambda _query: 1 // 0)
    assert ended


def test_a_stop_iteration_in_an_answer_is_not_the_end_of_the_rule() -> None:
    with pytest.raises(RuntimeError):
        run_rule(asks_twice(), lambda _query: next(iter(())))


def test_a_script_passes_the_effects_of_its_answers_on() -> None:
    def answer(query: str) -> Generator[str, int, int]:
        slept = yield f"sleep for {query}"
        if query == "second":
            raise LOST
        return slept

    script = rule_script(asks_twice(), answer)
    assert next(script) == "sleep for first"
    assert script.send(3) == "sleep for second"
    with pytest.raises(StopIteration) as end:
        script.send(4)
    assert end.value.value == [3, LOST]
