"""Who comes to a group beside members that claim nothing: a newcomer waits, and of two that begin
at once one sees the other.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import GroupSetting, NotReady, StartMembership
from apportion.member.batch.span import EMPTY_SPAN, Span, sorted_span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import UNREAD_METADATA, AnotherSink, metadata_of
from apportion.member.queries import CommitOffsets, FetchCommitted
from apportion.topics import Topics
from tests.member.planner_host import (
    ALL,
    CLAIM,
    LOOK_AT_GROUP,
    P0,
    P1,
    P2,
    SESSION_MS,
    TABLE,
    PlannerHost,
    held,
    make_planner,
    read,
)

GRACE_MS = 5_000
OTHERS = metadata_of(("/lake/other",))
MINE = WriterReport(TABLE)


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def asked(host: PlannerHost, planner: BatchPlanner, report: WriterReport = MINE) -> Any:
    """The question of a new query, which its writers have answered so."""
    question = host.attempt(planner.plan_next(EMPTY_SPAN))
    host.report = report
    return question


def waits(host: PlannerHost, planner: BatchPlanner, question: Span) -> None:
    with pytest.raises(NotReady, match="have not reported which sink they write to"):
        host.attempt(planner.plan_next(question))
    assert host.joins == 0


def waits_for_a_session(host: PlannerHost, planner: BatchPlanner, question: Span) -> None:
    """It looks now and then, for as long as a lost member may stay. Its next look begins later."""
    for gap_ms in ((SESSION_MS + GRACE_MS) // 3,) * 3 + (1,):
        host.now_ms += gap_ms
        waits(host, planner, question)


def stands_still(host: PlannerHost, patcher: pytest.MonkeyPatch) -> None:
    """From now on each look takes longer than a lost member may stay, and its answers are old."""

    def answer(query: Any, asked: Callable[..., Any] = host.answer) -> Any:
        answered = asked(query)
        if query == LOOK_AT_GROUP:
            host.now_ms += SESSION_MS + GRACE_MS + 1
        return answered

    patcher.setattr(host, "answer", answer)


def test_a_newcomer_waits_until_a_member_of_its_own_sink_has_claimed_the_group(
    host: PlannerHost,
) -> None:
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    waits(host, planner, question)
    host.offsets = {P1: 0}
    host.sees(target=held(P0))
    assert host.attempt(planner.plan_next(question)) == read("c", {P0: (0, 10)})
    assert LOOK_AT_GROUP not in host.asked


def test_a_newcomer_waits_until_the_members_are_gone(host: PlannerHost) -> None:
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    waits(host, planner, question)
    host.members = ()
    host.sees(target=held(P0))
    assert host.attempt(planner.plan_next(question)) == read("c", {P0: (0, 10)})


def test_a_newcomer_waits_on_for_members_that_are_assigned_nothing(host: PlannerHost) -> None:
    host.members = host.unassigned = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    for _ in range(2):
        waits_for_a_session(host, planner, question)
    host.unassigned = ()  # its time begins
    waits(host, planner, question)
    waits_for_a_session(host, planner, question)
    with pytest.raises(AnotherSink, match="have not reported"):
        host.attempt(planner.plan_next(question))


def test_a_newcomer_is_refused_if_members_claim_nothing_for_a_session_and_its_grace(
    host: PlannerHost,
) -> None:
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    waits(host, planner, question)
    waits_for_a_session(host, planner, question)
    with pytest.raises(
        AnotherSink,
        match=r"members \(1: another at 127.0.0.1\) that have not reported which.*"
        r"writes to /lake/t.*group of its own",
    ):
        host.attempt(planner.plan_next(question))
    assert (host.joins, host.offsets, host.asked[-1]) == (
        0,
        {},
        GroupSetting("consumer.session.timeout.ms"),
    )


def test_of_many_members_that_claim_nothing_the_first_are_named(host: PlannerHost) -> None:
    host.members = tuple("dcba")
    planner = make_planner()
    question = asked(host, planner)
    named = "4: a at 127.0.0.1, b at 127.0.0.1, c at 127.0.0.1, ..."
    with pytest.raises(NotReady, match=re.escape(f"it has members ({named}) that have not")):
        host.attempt(planner.plan_next(question))


def test_the_clients_that_a_newcomer_waits_for_are_escaped_and_cut(
    host: PlannerHost,
) -> None:
    host.members = ("\x1b[2J" + "x" * 200,)
    planner = make_planner()
    question = asked(host, planner)
    named = "1: \\x1b[2J" + "x" * 46 + "... at 127.0.0.1"
    with pytest.raises(NotReady, match=re.escape(f"it has members ({named}) that have not")):
        host.attempt(planner.plan_next(question))


def test_a_newcomer_that_stood_still_while_it_looked_looks_again(host: PlannerHost) -> None:
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    with pytest.MonkeyPatch.context() as patcher:
        stands_still(host, patcher)
        waits(host, planner, question)  # the other may have come only now
    for gap_ms in (3_000, 3_000, 3_000):
        host.now_ms += gap_ms
        waits(host, planner, question)
    with pytest.MonkeyPatch.context() as patcher:
        stands_still(host, patcher)
        waits(host, planner, question)  # it may have named its sink meanwhile
    with pytest.raises(AnotherSink, match="have not reported"):
        host.attempt(planner.plan_next(question))


def test_a_newcomer_whose_looks_are_slow_is_refused_too(host: PlannerHost) -> None:
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    with pytest.MonkeyPatch.context() as patcher:
        stands_still(host, patcher)
        for _ in range(3):
            waits(host, planner, question)
        with pytest.raises(AnotherSink, match="have not reported"):
            host.attempt(planner.plan_next(question))


def test_a_newcomer_with_a_long_trigger_interval_is_refused_after_twice_the_time(
    host: PlannerHost,
) -> None:
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    for _ in range(3):
        waits(host, planner, question)
        host.now_ms += 10_000
    with pytest.raises(AnotherSink, match="have not reported"):
        host.attempt(planner.plan_next(question))


def test_a_long_gap_between_two_looks_counts_as_a_short_one(host: PlannerHost) -> None:
    """The host was frozen, and perhaps the queries that are to name their sink with it."""
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    waits(host, planner, question)
    host.now_ms += 10 * (SESSION_MS + GRACE_MS)
    waits(host, planner, question)
    for _ in range(4):  # they have a whole session without the gap
        host.now_ms += SESSION_MS // 4
        waits(host, planner, question)
    host.now_ms += 1
    waits(host, planner, question)
    with pytest.raises(AnotherSink, match="have not reported"):
        host.attempt(planner.plan_next(question))


def test_the_time_of_looks_that_failed_counts_as_a_gap(host: PlannerHost) -> None:
    host.members = ("another",)
    planner = make_planner()
    question = asked(host, planner)
    waits(host, planner, question)
    for failure in (Unanswerable("no broker"), Refused(Code.GROUP_AUTHORIZATION_FAILED)) * 20:
        host.now_ms += 1_000
        host.obstacles = {0: failure}
        with pytest.raises(type(failure)):
            host.attempt(planner.plan_next(question))
    for gap_ms in (0, SESSION_MS, 1):
        host.now_ms += gap_ms
        waits(host, planner, question)
    with pytest.raises(AnotherSink, match="have not reported"):
        host.attempt(planner.plan_next(question))


def test_the_time_of_a_member_begins_anew_once_the_coordinator_may_have_restarted(
    host: PlannerHost,
) -> None:
    """Its session, too, if it is lost; no request of a look has failed for good."""
    host.members = ("lost",)
    planner = make_planner()
    question = asked(host, planner)
    waits(host, planner, question)
    waits_for_a_session(host, planner, question)
    host.interruptions += 1
    waits(host, planner, question)
    waits_for_a_session(host, planner, question)
    with pytest.raises(AnotherSink, match="have not reported"):
        host.attempt(planner.plan_next(question))


def test_a_member_that_has_come_meanwhile_has_its_own_time(host: PlannerHost) -> None:
    host.members = ("lost",)
    planner = make_planner()
    question = asked(host, planner)
    waits(host, planner, question)
    waits_for_a_session(host, planner, question)
    host.members = ("another",)
    waits(host, planner, question)


@pytest.mark.parametrize("proof", ["fences", "a checkpoint", "no topic", "no writer"])
def test_a_writer_with_proof_or_without_need_of_it_does_not_wait(
    host: PlannerHost, proof: str
) -> None:
    host.members = ("another",)
    host.topics = Topics() if proof == "no topic" else host.topics
    host.sees(target=held() if proof == "no topic" else held(P0))
    planner = make_planner()
    before = sorted_span("old", {P0: (10, 10)}) if proof == "a checkpoint" else EMPTY_SPAN
    question = host.attempt(planner.plan_next(before))
    host.report = (
        NO_REPORT if proof == "no writer" else WriterReport(TABLE, has_records=proof == "fences")
    )
    assert host.attempt(planner.plan_next(question)).question_number == 0
    assert LOOK_AT_GROUP not in host.asked


def test_a_newcomer_that_sees_a_member_without_a_sink_commit_meanwhile_gives_up(
    host: PlannerHost,
) -> None:
    planner = make_planner()
    question = asked(host, planner)
    host.sees(target=held(P0))

    def answer(ask: Any, asked: Callable[..., Any] = host.answer) -> Any:
        if isinstance(ask, CommitOffsets):
            # after the first look, at the start of its log
            host.offsets[P1], host.metadata[P1] = 0, ""
        return asked(ask)

    host.answer = answer  # type: ignore[method-assign]
    with pytest.raises(
        AnotherSink, match=r"committed offsets \(t-1: 0\) that did not come from /lake/t"
    ):
        host.attempt(planner.plan_next(question))
    assert host.stored(P0) == OffsetAndMetadata(0, UNREAD_METADATA)


def test_offsets_without_a_name_that_a_newcomer_has_found_are_not_taken_for_new_ones(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P1: 0, P2: 0}, dict.fromkeys(ALL, "")
    planner = make_planner()
    question = asked(host, planner)
    host.sees(target=held(P0, P1))
    assert host.attempt(planner.plan_next(question)) == read("c", {P0: (0, 10), P1: (0, 10)})
    assert host.stored(P1) == OffsetAndMetadata(0, CLAIM)


def test_a_query_without_a_sink_that_sees_a_claim_after_its_first_commit_gives_up(
    host: PlannerHost,
) -> None:
    planner = make_planner()
    question = asked(host, planner, NO_REPORT)
    host.sees(target=held(P0))

    def answer(ask: Any, asked: Callable[..., Any] = host.answer) -> Any:
        if isinstance(ask, CommitOffsets):
            host.offsets[P1], host.metadata[P1] = 0, OTHERS
        return asked(ask)

    host.answer = answer  # type: ignore[method-assign]
    with pytest.raises(AnotherSink, match="belongs to the sink /lake/other"):
        host.attempt(planner.plan_next(question))
    assert host.stored(P0) == OffsetAndMetadata(0, UNREAD_METADATA)


def test_a_query_without_a_sink_looks_for_claims_exactly_when_the_group_changed(
    host: PlannerHost,
) -> None:
    planner = make_planner()
    question = asked(host, planner, NO_REPORT)
    host.sees(target=held(P0))
    batch = host.attempt(planner.plan_next(question))
    host.offsets[P1], host.metadata[P1] = 0, OTHERS
    assert host.attempt(planner.plan_next(batch)) is batch
    assert not [ask for ask in host.asked if isinstance(ask, FetchCommitted | StartMembership)]
    host.sees(epoch=4, owned=held(P0))
    with pytest.raises(AnotherSink, match="belongs to the sink /lake/other"):
        host.attempt(planner.plan_next(batch))
    assert not [ask for ask in host.asked if isinstance(ask, CommitOffsets)]
