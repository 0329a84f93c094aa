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
    LOOK_AT_GROUP,
    P0,
    P1,
    P2,
    SESSION_MS,
    STARTING,
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


DENIED = Code.GROUP_AUTHORIZATION_FAILED
WAITS = "have not reported which sink they write to"


def waits(host: PlannerHost, planner: BatchPlanner, question: Span) -> None:
    with pytest.raises(NotReady, match=WAITS):
        host.attempt(planner.plan_next(question))
    assert host.joins == 0


class Newcomer:
    """A newcomer that looks, again and again, at a group with a member without a sink.

    slow: each of its looks takes longer than a lost member may stay, so its answers are old.
    """

    def __init__(self, host: PlannerHost) -> None:
        self.host, self.planner = host, make_planner()
        host.members = ("another",)
        self.question = asked(host, self.planner)
        self.answer, self.slow = host.answer, False
        host.answer = self.answer_after_a_while  # type: ignore[method-assign]

    def answer_after_a_while(self, ask: Any) -> Any:
        answered = self.answer(ask)
        if self.slow and ask == LOOK_AT_GROUP:
            self.host.now_ms += SESSION_MS + GRACE_MS + 1
        return answered

    def play(self, timeline: str) -> None:
        """Let pass the times in it, in ms; `waits` and `refused` are looks with that outcome."""
        host = self.host
        for word in timeline.split():
            match word:
                case "waits":
                    waits(host, self.planner, self.question)
                case "session":
                    # It looks now and then, for as long as a lost member may stay. Its next look
                    # begins later.
                    self.play("3000 waits 3000 waits 3000 waits 1 waits")
                case "refused":
                    with pytest.raises(AnotherSink, match="have not reported"):
                        host.attempt(self.planner.plan_next(self.question))
                case "failures":
                    for error in (Unanswerable("no broker"), Refused(DENIED)) * 20:
                        host.now_ms += 1_000
                        host.obstacles = {0: error}
                        with pytest.raises(type(error)):
                            host.attempt(self.planner.plan_next(self.question))
                case "slow" | "quick":
                    self.slow = word == "slow"
                case "interrupted":
                    host.interruptions += 1
                case "unassigned" | "assigned":
                    host.unassigned = host.members if word == "unassigned" else ()
                case "replaced":
                    host.members = ("third",)
                case _:
                    host.now_ms += int(word)


@pytest.mark.parametrize(
    "timeline",
    [
        pytest.param("waits session refused", id="it claims nothing for a session and its grace"),
        # Its time begins with its first partition.
        pytest.param(
            "unassigned session session assigned waits session refused", id="assigned nothing"
        ),
        # The other may have come, or have named its sink, during a slow look.
        pytest.param(
            "slow waits quick 3000 waits 3000 waits 3000 waits slow waits quick refused",
            id="the newcomer stood still",
        ),
        pytest.param("slow waits waits waits refused", id="slow looks"),
        # As a host with a long trigger interval looks: it waits for twice the time.
        pytest.param("waits 10000 waits 10000 waits 10000 refused", id="looks far apart"),
        # The host was frozen, and perhaps the queries that are to name their sink with it: they
        # have a whole session without the gap.
        pytest.param(
            "waits 90000 waits 1000 waits 1000 waits 1000 waits 1000 waits 1 waits refused",
            id="a long gap counts as a short one",
        ),
        pytest.param("waits failures waits 4000 waits 1 waits refused", id="failed looks"),
        # No request of a look has failed for good, yet its session begins anew, too, if it is lost.
        pytest.param(
            "waits session interrupted waits session refused", id="the coordinator restarts"
        ),
        pytest.param("waits session replaced waits", id="another member has its own time"),
    ],
)
def test_a_member_has_a_session_and_its_grace_to_name_its_sink(
    host: PlannerHost, timeline: str
) -> None:
    Newcomer(host).play(timeline)


def test_a_newcomer_is_refused_with_the_members_and_its_own_sink(host: PlannerHost) -> None:
    newcomer = Newcomer(host)
    newcomer.play("waits session")
    with pytest.raises(
        AnotherSink,
        match=r"members \(1: another at 127.0.0.1\) that have not reported which.*"
        r"writes to /lake/t.*group of its own",
    ):
        host.attempt(newcomer.planner.plan_next(newcomer.question))
    assert (host.joins, host.offsets, host.asked[-1]) == (
        0,
        {},
        GroupSetting("consumer.session.timeout.ms"),
    )


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
    assert host.stored(P1) == OffsetAndMetadata(0, STARTING)


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
