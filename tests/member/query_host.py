"""What the whole batch rule of a query asks, answered at once: as `planner_host`, with a clock that
the rule's waits move, and a cluster that can fail.
"""

from typing import Any

from apportion.machine import Note
from apportion.member.batch.queries import (
    AwaitNewTarget,
    AwaitNextAttempt,
    DeleteOldReports,
)
from apportion.member.batch.retries import BatchRetries, QuerySettings
from apportion.member.batch.span import Span
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.queries import ListOffsets, MatchingTopics, PollMembership
from tests.member.planner_host import BEGUN, P0, PlannerHost, held, make_planner

POLL_INTERVAL_MS = 300_000


class QueryHost(PlannerHost):
    """The member and the cluster of one query, and its log.

    retries: the query's rule, of a member that is assigned P0. failure: what ListOffsets ends with
    while the clock is below `failing_until_ms`. waits: how long the rule waited, each time.
    """

    def __init__(
        self,
        *,
        classic: bool = False,
        poll_interval_ms: int | None = POLL_INTERVAL_MS,
        expression: str = "",
        **settings: int,
    ) -> None:
        super().__init__()
        self.sees(target=held(P0))
        topics = TopicChoice(expression=expression) if expression else TopicChoice(("t",))
        made = QuerySettings(
            "g",
            "b:9092",
            topics,
            classic=classic,
            max_poll_interval_ms=poll_interval_ms,
            **settings,  # type: ignore[arg-type]  # the pauses are none of them
        )
        self.retries = BatchRetries(make_planner(topics=topics), made)
        self.failure: Exception = AssertionError("no failure")
        self.failing_until_ms = 0
        self.waits: list[int] = []
        self.logged: list[str] = []

    def fails(self, failure: Exception, for_ms: int) -> None:
        self.failure, self.failing_until_ms = failure, self.now_ms + for_ms

    def passes(self, time_ms: int) -> None:
        """Let time pass, in which heartbeats are accepted."""
        self.now_ms += time_ms
        self.sees(last_accepted_ms=self.now_ms)

    def next_span(self, previous: Span = BEGUN) -> Span:
        """The query's next span; `waits` and `logged` are those of this call."""
        self.waits, self.logged = [], []
        span: Span = self.attempt(self.retries.next_span(previous, None))
        return span

    def answer(self, ask: Any) -> Any:
        match ask:
            case AwaitNewTarget(timeout_ms) | AwaitNextAttempt(timeout_ms):
                self.waits.append(timeout_ms)
                return self.passes(timeout_ms)
            case PollMembership() | DeleteOldReports():
                return None
            case Note(_, text, hint):
                self.logged.append(text + hint)
                return None
            case MatchingTopics():
                return tuple(topic.name for topic in self.topics)
            case ListOffsets() if self.now_ms < self.failing_until_ms:
                raise self.failure
        return super().answer(ask)
