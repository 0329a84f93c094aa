"""Bugs to be found in the rule that judges a query's failed attempts to plan a batch.

See `planted.py`.
"""

from apportion.member.batch import retry_limits
from apportion.member.batch.retries import BatchRetries
from apportion.member.reactions import is_permanent
from tests.sim.bug import Planted

limit_s = retry_limits.retry_limit_s  # as it is, whatever stands in its place


def end_at_once_if_permanent(
    error: Exception, *, has_assignment: bool, must_end: bool, join_limit_s: float = 0.0
) -> float | None:
    if is_permanent(error):
        return 0.0
    return limit_s(
        error, has_assignment=has_assignment, must_end=must_end, join_limit_s=join_limit_s
    )


def anything_is_permanent(error: Exception) -> bool:
    return True


def keep_failures(self: BatchRetries) -> None:
    pass


RETRIES = (
    Planted(
        "final-at-once",
        "Kafka does not call the error retriable, so another attempt ends with it, too.",
        ((retry_limits, "retry_limit_s", end_at_once_if_permanent),),
    ),
    Planted(
        "outage-is-final",
        "The request was retried below, so its error is final here.",
        ((retry_limits, "is_permanent", anything_is_permanent),),
    ),
    Planted(
        "failures-add-up",
        "The limit is on the time since the first failure.",
        ((BatchRetries, "_forget_failures", keep_failures),),
        sizes={"duration_ms": 300_000, "heartbeat_budget": 0},
    ),
)
