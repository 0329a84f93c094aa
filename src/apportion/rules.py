"""Rules that ask: generators which decide, and whose queries a driver answers.

A rule is the part of a client that decides over several requests, such as what one poll of a
consumer does. Like a machine it has no clock, socket or thread; unlike one it is written as
straight-line code: it yields a query, a value that says what it needs, and is sent the answer. The
same rule runs in a real process (`run_rule`) and in the simulator (`rule_script`).
"""

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

from apportion.errors import Refused, Unanswerable

T = TypeVar("T")

Rule = Generator[Any, Any, T]
"""A generator that yields queries, is sent their answers, and returns a T."""


class RuleQuery:
    """A query that a rule asks its driver. Each names its answer in its docstring.

    The only other values that rules yield are log lines (`Note`) and a SASL mechanism's bytes.
    """

    __slots__ = ()


class RunningRule(Generic[T]):
    """A rule that is paused at a query, for drivers that have the answer only later.

    query: waits for its answer. result: once `is_finished`.
    """

    def __init__(self, rule: Rule[T]) -> None:
        """Run the rule to its first query, or to its end."""
        self._rule = rule
        self.query: Any = None
        self.is_finished = False
        self.result: T
        self._advance(rule.send, None)

    def resume(self, answer: Any) -> None:
        """Send the answer to the query; run to the next query, or to the end."""
        self._advance(self._rule.send, answer)

    def fail(self, error: Exception) -> None:
        """Raise the error inside the rule, at its query; run to the next query, or to the end."""
        # Inside the rule, which knows what an error means at that step, such as a deleted topic in
        # a commit.
        self._advance(self._rule.throw, error)

    def _advance(self, step: Callable[[Any], Any], value: Any) -> None:
        # Nothing but the rule inside the try: a StopIteration of a driver is not the rule's end.
        try:
            self.query = step(value)
        except StopIteration as end:
            self.query, self.result, self.is_finished = None, end.value, True


def run_rule(rule: Rule[T], answer: Callable[[Any], Any]) -> T:
    """Run a rule to its end and return its result.

    answer: returns the answer to a query. A Refused or Unanswerable that it raises is raised inside
    the rule, at the query; any other exception ends the rule.
    """
    try:
        next(rule_script(rule, lambda query: _without_effect(answer(query))))
    except StopIteration as end:
        return cast("T", end.value)
    raise AssertionError("the answer to a query had an effect")


def rule_script(rule: Rule[T], answer: Callable[[Any], Generator[Any, Any, Any]]) -> Rule[T]:
    """Return a script that runs a rule to its end, for the simulator's runner of scripts.

    answer: as in `run_rule`, but a generator: what it yields are effects for the runner.
    """
    running = RunningRule(rule)
    while not running.is_finished:
        try:
            answered = yield from answer(running.query)
        except (Refused, Unanswerable) as error:
            running.fail(error)
        else:
            running.resume(answered)
    return running.result


def _without_effect(answer: Any) -> Rule[Any]:
    yield from ()
    return answer
