"""Bugs to be found in the rules by which a query ends: that of its failed attempts to plan a batch,
that of its wait for members of its group, and that of its first look at the cluster.

See `planted.py`.
"""

from apportion.member.batch import first_look, retry_limits
from apportion.member.batch.awaited_members import AwaitedMembers
from apportion.member.batch.retries import BatchRetries
from apportion.member.queries import MembershipSnapshot
from apportion.member.reactions import is_permanent
from tests.sim.bug import Planted

REMOVED_QUERIES = {
    # Two queries are paused again and again, at times for longer than their sessions. A slow
    # network leaves them a moment in which they commit, and have not heard of their removal.
    "workers": 2,
    "readers": 0,
    "topics": 1,
    "session_ms": 4_000,
    "heartbeat_ms": 500,
    "heartbeat_budget": 0,
    "batch_ms": 1_500,
    "delay_us": 100_000,
}

limit_s, observe = retry_limits.retry_limit_s, AwaitedMembers.observe
"""As they are, whatever stands in their place."""


def end_at_once_if_permanent(
    error: Exception, *, has_assignment: bool, must_end: bool, join_limit_s: float = 0.0
) -> float | None:
    if is_permanent(error):
        return 0.0
    return limit_s(
        error, has_assignment=has_assignment, must_end=must_end, join_limit_s=join_limit_s
    )


def end_at_once(
    error: Exception, *, has_assignment: bool, must_end: bool, join_limit_s: float = 0.0
) -> float | None:
    return 0.0


def anything_is_permanent(error: Exception) -> bool:
    return True


def keep_failures(self: BatchRetries) -> None:
    pass


def observe_through_restarts(
    self: AwaitedMembers, members: tuple[str, ...], snapshot: MembershipSnapshot
) -> AwaitedMembers:
    return observe(self._replace(interruptions=snapshot.interruptions), members, snapshot)


RETRIES = (
    Planted(
        "final-at-once",
        "Kafka does not call the error retriable, so another attempt ends with it, too.",
        ((retry_limits, "retry_limit_s", end_at_once_if_permanent),),
        sizes=REMOVED_QUERIES,
        kinds=("pause",),
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
        sizes=REMOVED_QUERIES | {"duration_ms": 300_000},
        kinds=("pause",),
    ),
    Planted(
        "interrupted-wait",
        "Members that the group has kept for a whole session are alive.",
        ((AwaitedMembers, "observe", observe_through_restarts),),
        # Of three queries, of which two are static, one begins while the group still has another's
        # lost member, and the coordinator starts again within each short session.
        sizes={
            "protocol": "classic",
            "workers": 3,
            "readers": 0,
            "statics": 2,
            "topics": 1,
            "partitions": 2,
            "session_ms": 4_000,
            "rebalance_ms": 20_000,
            "heartbeat_ms": 3_000,
            "batch_ms": 4_000,
            "produce_every_ms": 2_000,
            "delay_us": 200,
            "flush_us": 30_000,
            "duration_ms": 40_000,
        },
        kinds=("broker-crash", "replace"),
    ),
    Planted(
        "look-ends-at-once",
        "An error that load() can say in Python is better said now than a minute later.",
        ((first_look, "retry_limit_s", end_at_once),),
        # Queries begin while the broker is down.
        sizes={"looks": True, "readers": 0},
        kinds=("broker-crash", "restart"),
    ),
)
