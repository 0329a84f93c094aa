"""A small example for each bug of `planted_retries.py`, which ends otherwise with the bug."""

from collections.abc import Callable
from typing import Any

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.awaited_members import AwaitedMembers
from apportion.member.batch.first_look import FirstLook
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.queries import ExistingTopics, MembershipSnapshot
from tests.member.looked_at import LookedAt
from tests.member.planner_host import BEGUN, PlannerHost
from tests.member.query_host import QueryHost

FENCED = Refused(Code.FENCED_MEMBER_EPOCH)
HOUR_MS = 3_600_000


def plan_after(error: Exception, time_ms: int) -> str:
    """Whether a query that begins can still plan when the error has lasted for that time."""
    host = QueryHost()
    host.fails(error, time_ms)
    try:
        while host.next_span() is BEGUN:
            pass
    except MembershipFailed:
        return "ends"
    return "plans"


def two_errors_an_hour_apart() -> str:
    host = QueryHost()
    batch = host.next_span()
    for _ in range(2):
        host.fails(FENCED, 100)
        try:
            host.next_span(batch)
        except MembershipFailed:
            return "ends"
        assert host.next_span(batch) is batch
        host.passes(HOUR_MS)
    return "plans"


def members_count_as_alive() -> bool:
    """Whether they do to a query that has looked every second, also when the coordinator started
    again.
    """
    view, awaited = PlannerHost().view, AwaitedMembers()
    for second in range(10):
        snapshot = MembershipSnapshot(view, 1_000 * second, interruptions=second // 5)
        awaited = awaited.observe(("m",), snapshot)
    return awaited.have_stayed(session_timeout_ms=1_000)


def look_in_an_outage() -> str:
    """Whether a query may begin whose broker comes after ten seconds."""
    cluster = LookedAt()
    cluster.fails(ExistingTopics, Unanswerable("no broker"), 10_000)
    try:
        cluster.look(FirstLook("g", "b:9092", TopicChoice(("t",))))
    except MembershipFailed:
        return "ends"
    return "begins"


RETRY_EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "final-at-once": (lambda: plan_after(FENCED, 5_000), "plans", "ends"),
    "outage-is-final": (lambda: plan_after(Unanswerable("no broker"), 30_000), "plans", "ends"),
    "failures-add-up": (two_errors_an_hour_apart, "plans", "ends"),
    "interrupted-wait": (members_count_as_alive, False, True),
    "look-ends-at-once": (look_in_an_outage, "begins", "ends"),
}
