"""A query that adopts a group, whose offsets did not come from its table: when it may, and what it
waits for.
"""

import pytest

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.batch.awaited_members import CLAIM_GRACE_MS
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import NotReady
from apportion.member.batch.span import Span
from apportion.member.batch.writer_reports import WriterReport
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import AnotherSink, metadata_of
from apportion.member.queries import CommitOffsets
from tests.member.planner_host import (
    P0,
    P1,
    SESSION_MS,
    STARTING,
    TABLE,
    PlannerHost,
    asked,
    held,
    make_planner,
    read,
)

OTHERS = metadata_of(("/lake/other",))


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def adopting(host: PlannerHost) -> tuple[BatchPlanner, Span]:
    """A query that adopts the group, and its question to the writers, which they have answered."""
    planner = make_planner()
    question = asked(host, planner)
    host.report = WriterReport(TABLE, adopt=True)
    return planner, question


def test_a_group_without_members_can_be_adopted_as_a_whole(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 4, P1: 7}, {P0: OTHERS, P1: ""}
    planner, asking = adopting(host)
    host.sees(target=held(P0, P1))
    assert host.attempt(planner.plan_next(asking)) == read("c", {P0: (4, 10), P1: (7, 10)}, P0, P1)
    assert host.asked[2] == CommitOffsets({P0: 4, P1: 7}, 0, STARTING)


def test_a_group_that_has_members_cannot_be_adopted(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 4}, {P0: OTHERS}
    planner, asking = adopting(host)
    host.members = ("another",)
    for gap_ms in (0, 3_000, 3_000, 3_000, 1):
        host.now_ms += gap_ms
        host.obstacles = {2: Refused(Code.UNKNOWN_MEMBER_ID)}
        with pytest.raises(NotReady, match=r"adopted while it has members.*until they have left"):
            host.attempt(planner.plan_next(asking))
    host.obstacles = {2: Refused(Code.UNKNOWN_MEMBER_ID)}
    with pytest.raises(AnotherSink, match="cannot be adopted while it has members"):
        host.attempt(planner.plan_next(asking))
    assert (host.joins, host.stored(P0)) == (0, OffsetAndMetadata(4, OTHERS))


def test_an_adoption_with_a_long_trigger_interval_is_refused_after_twice_the_time(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P0: 4}, {P0: OTHERS}
    planner, asking = adopting(host)
    host.members = ("another",)
    for _ in range(3):
        host.obstacles = {2: Refused(Code.UNKNOWN_MEMBER_ID)}
        with pytest.raises(NotReady):
            host.attempt(planner.plan_next(asking))
        host.now_ms += 10_000
    host.obstacles = {2: Refused(Code.UNKNOWN_MEMBER_ID)}
    with pytest.raises(AnotherSink, match="stop them first"):
        host.attempt(planner.plan_next(asking))


def test_an_adoption_waits_for_members_that_are_leaving(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 4}, {P0: OTHERS}
    planner, asking = adopting(host)
    host.members = ("the-last-run",)
    for _ in range(4):
        host.now_ms += (SESSION_MS + CLAIM_GRACE_MS) // 3
        host.obstacles = {2: Refused(Code.UNKNOWN_MEMBER_ID)}
        with pytest.raises(NotReady):
            host.attempt(planner.plan_next(asking))
    host.members = ()
    host.sees(target=held(P0), last_accepted_ms=host.now_ms)
    assert host.attempt(planner.plan_next(asking)) == read("c", {P0: (4, 10)}, P0)


def test_an_adoption_gives_a_member_that_has_come_back_its_own_time(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 4}, {P0: OTHERS}
    planner, question = adopting(host)
    for _ in range(2):
        host.members = ("static",)
        host.obstacles = {2: Refused(Code.UNKNOWN_MEMBER_ID)}
        with pytest.raises(NotReady):
            host.attempt(planner.plan_next(question))
        # It goes, and this query leaves the group again, as a user changes its tables.
        host.now_ms += 10 * SESSION_MS
        host.sees(target=held(P0), last_accepted_ms=host.now_ms)
        host.metadata[P0] = OTHERS
        adopted = host.attempt(planner.plan_next(question))
        host.report = WriterReport(("/lake/third",), adopt=True)
        question = host.attempt(planner.plan_next(adopted))


def test_other_errors_of_an_adoption_are_reported_as_themselves(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P0: 4}, {P0: OTHERS}
    planner, asking = adopting(host)
    host.obstacles = {2: Refused(Code.GROUP_AUTHORIZATION_FAILED)}
    with pytest.raises(Refused, match="not allowed"):
        host.attempt(planner.plan_next(asking))
    assert host.joins == 0


def test_an_adoption_is_logged_with_the_old_sink_and_the_new_one(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 4, P1: 7}, {P0: OTHERS, P1: ""}
    planner, asking = adopting(host)
    host.sees(target=held(P0, P1))
    host.attempt(planner.plan_next(asking))
    note = "adopt=True: the group belonged to /lake/other, and belongs to /lake/t from now on"
    assert host.asked[3] == Note("warning", note)
