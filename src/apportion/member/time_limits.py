"""The time of a client's operation: how long its requests may take, and when they are sent again.

Most rules that send queries know no time: they yield `Send`, `SendToLeader` and `PauseBeforeRetry`.
`within` runs such a rule for a limited time. It gives each query its timeout and each retry its
pause, which doubles, and ends the rule with its last error when the time is up. The time comes from
the driver, as the answer to `ReadClock`.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from apportion.member.cluster_queries.retries import PauseBeforeRetry, Send
from apportion.member.partition_leaders import SendToLeader
from apportion.rules import Rule, RuleQuery, rule_script

V = TypeVar("V")

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 1_000
METADATA_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class ReadClock(RuleQuery):
    """Read the monotonic clock. Answer: its milliseconds."""


@dataclass(frozen=True, slots=True)
class Pause(RuleQuery):
    """Wait for so many milliseconds. Answer: None."""

    pause_ms: int


class RetryDeadline:
    """Exponential backoff within a total time: the pauses of one operation's retries."""

    def __init__(self, now_ms: int, limit_ms: int) -> None:
        """Begin an operation now that may take `limit_ms` (monotonic)."""
        self._until_ms = now_ms + limit_ms
        self._pause_ms = FIRST_PAUSE_MS

    def left_ms(self, now_ms: int) -> int:
        """Return the time that is left, at least 1 ms, so that it can be a timeout."""
        return max(1, self._until_ms - now_ms)

    def next_pause_ms(self, now_ms: int, error: Exception) -> int:
        """Return the pause before the next try; raise `error` instead if the time is up."""
        pause_ms = self._pause_ms
        # Raised before the last pause and not after it: sleeping only to fail would tell the caller
        # nothing more.
        if now_ms + pause_ms >= self._until_ms:
            raise error
        self._pause_ms = min(pause_ms * 2, LONGEST_PAUSE_MS)
        return pause_ms

    def pause(self, error: Exception) -> Rule[None]:
        """Wait before the next try; raise `error` instead if the time is up."""
        now_ms: int = yield ReadClock()
        yield Pause(self.next_pause_ms(now_ms, error))


def within(rule: Rule[V], limit_ms: int) -> Rule[V]:
    """Run a rule that sends queries for `limit_ms` at most; return its result.

    A query that has a timeout of its own keeps it.
    """
    started_ms: int = yield ReadClock()
    deadline = RetryDeadline(started_ms, limit_ms)

    def answer(query: Any) -> Rule[Any]:
        match query:
            case PauseBeforeRetry(error):
                return (yield from deadline.pause(error))
            case Send(timeout_ms=None) | SendToLeader(timeout_ms=None):
                now_ms: int = yield ReadClock()
                return (yield replace(query, timeout_ms=deadline.left_ms(now_ms)))
        return (yield query)

    return (yield from rule_script(rule, answer))


def metadata_limit_ms(timeout_ms: int) -> int:
    """Return how long a client asks for metadata, which any broker answers soon.

    timeout_ms: its timeout for other requests.
    """
    return min(timeout_ms, METADATA_TIMEOUT_MS)
