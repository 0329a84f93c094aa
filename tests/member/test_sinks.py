"""A group belongs to one sink: who may begin in it, who is refused and before what, and how a query
goes back.
"""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.queries import (
    ReadWriterReport,
    StartMembership,
)
from apportion.member.batch.span import Span, sorted_span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import (
    MAX_SHOWN_CHARS,
    UNREAD_METADATA,
    AnotherSink,
    claims_without,
    is_starting,
    metadata_of,
    refuse_consumer,
    sink_names,
    sinks_of,
)
from apportion.member.queries import (
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
)
from apportion.topics import TopicIdPartition
from tests.member.planner_host import (
    ALL,
    BEGUN,
    CLAIM,
    LOOK_AT_GROUP,
    P0,
    P1,
    P2,
    STARTING,
    TABLE,
    PlannerHost,
    asked,
    held,
    make_planner,
    read,
)

OTHERS = metadata_of(("/lake/other",))
LOOK = (ExistingTopics(("t",)), FetchCommitted(ALL, 0))
MINE = WriterReport(TABLE)


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def test_a_new_query_asks_its_writers_before_it_joins_and_claims_before_it_reads(
    host: PlannerHost,
) -> None:
    planner = make_planner()
    asking = asked(host, planner)
    assert (asking, host.asked, host.joins) == (Span("c", {}, question_number=1), [*LOOK], 0)
    host.report = MINE
    host.sees(target=held(P0))
    assert host.attempt(planner.plan_next(asking)) == read("c", {P0: (0, 10)})
    assert (host.joins, host.stored(P0)) == (
        1,
        OffsetAndMetadata(0, '{"sinks":["/lake/t"],"starting":true}'),
    )
    assert host.asked[:4] == [*LOOK, LOOK_AT_GROUP, StartMembership()]
    assert host.asked[-3:] == [
        CommitOffsets({P0: 0}, 1, STARTING),
        ExistingTopics(("t",)),
        FetchCommitted(ALL, 1),
    ]  # did another claim it meanwhile?


def test_without_a_writer_the_query_goes_on_and_claims_nothing(host: PlannerHost) -> None:
    planner = make_planner()
    asking = asked(host, planner)
    host.sees(target=held(P0))
    first = host.attempt(planner.plan_next(asking))
    assert first == sorted_span("c", {P0: (0, 10)})._replace(sinks=())
    assert host.stored(P0) == OffsetAndMetadata(0, "")


def test_the_span_of_the_question_is_followed_by_another_even_where_nothing_is_owned(
    host: PlannerHost,
) -> None:
    planner = make_planner()
    asking = asked(host, planner)
    host.report = MINE
    host.sees(target=held())
    following = host.attempt(planner.plan_next(asking))
    assert following == BEGUN
    assert host.attempt(planner.plan_next(following)) is following


def test_a_checkpoint_of_before_asks_where_it_stands_and_goes_on_there(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 4, P1: 7}, {P0: "", P1: ""}
    planner = make_planner()
    before = sorted_span("old", {P0: (0, 10)})
    asking = host.attempt(planner.plan_next(before))
    assert asking == Span("old", {P0: (10, 10)}, question_number=1, unclaimed=(P0, P1))
    host.report = WriterReport(TABLE, has_records=True)
    host.sees(target=held(P0, P1))
    host.ends = dict.fromkeys(ALL, 20)
    assert host.attempt(planner.plan_next(asking)) == read("old", {P0: (10, 20), P1: (7, 20)}, P1)
    assert host.stored(P0) == OffsetAndMetadata(10, CLAIM)


@pytest.mark.parametrize("report", [WriterReport(("/lake/other",), has_records=True), NO_REPORT])
def test_a_query_with_another_sink_is_refused_before_it_joins(
    host: PlannerHost, report: WriterReport
) -> None:
    host.offsets = {P1: 7}
    planner = make_planner()
    asking = asked(host, planner)
    host.report = report
    with pytest.raises(
        AnotherSink,
        match=r"belongs to the sink /lake/t, as the committed offset of t-1 says.*group of its own",
    ):
        host.attempt(planner.plan_next(asking))
    assert (host.asked, host.joins, host.offsets) == ([*LOOK], 0, {P1: 7})


def test_offsets_that_no_sink_committed_are_foreign_unless_the_table_has_its_records(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P1: 7}, {P1: "of a foreign client"}
    planner = make_planner()
    asking = asked(host, planner)
    assert (asking.ranges, asking.unclaimed) == ({}, (P1,))
    host.report = MINE
    with pytest.raises(
        AnotherSink,
        match=r"committed offsets \(t-1: 7\) that did not come from /lake/t.*adopt=True",
    ):
        host.attempt(planner.plan_next(asking))
    assert host.joins == 0
    host.report = WriterReport(TABLE, has_records=True)
    host.sees(target=held(P0, P1))
    assert host.attempt(make_planner().plan_next(asking)) == read(
        "c", {P0: (0, 10), P1: (7, 10)}, P1
    )


def test_a_partition_that_another_sink_has_claimed_meanwhile_is_not_read(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0))
    planner = make_planner()
    first = host.attempt(planner.plan_next(BEGUN))
    host.offsets[P2], host.metadata[P2] = 3, OTHERS
    host.sees(target=held(P0, P1))
    with pytest.raises(AnotherSink, match="belongs to the sink /lake/other"):
        host.attempt(planner.plan_next(first))
    assert P1 not in host.offsets


def test_of_two_claims_of_a_new_group_the_one_that_sees_the_other_gives_up(
    host: PlannerHost,
) -> None:
    planner = make_planner()
    asking = asked(host, planner)
    host.report = MINE
    host.sees(target=held(P0))

    def answer(ask: Any, asked: Callable[..., Any] = host.answer) -> Any:
        if isinstance(ask, CommitOffsets):
            host.offsets[P1], host.metadata[P1] = 0, OTHERS  # after the first look
        return asked(ask)

    host.answer = answer  # type: ignore[method-assign]
    with pytest.raises(
        AnotherSink, match="belongs to the sink /lake/other, as the committed offset of t-1"
    ):
        host.attempt(planner.plan_next(asking))
    assert host.stored(P0) == OffsetAndMetadata(0, UNREAD_METADATA)
    heir = make_planner()
    host.report = WriterReport(("/lake/other",))
    # what was given up belongs to nobody
    assert host.attempt(heir.plan_next(asking)).ranges == {P0: (0, 10)}


@pytest.mark.parametrize("drops_answers", [False, True])
def test_a_cut_before_the_second_look_does_not_spare_it(drops_answers: bool) -> None:
    def begun(host: PlannerHost) -> tuple[Callable[..., Any], Span]:
        planner = make_planner()
        asking = asked(host, planner)
        host.report = MINE
        host.sees(target=held(P0))
        return planner.plan_next, asking

    whole = PlannerHost()
    following, asking = begun(whole)
    whole.attempt(following(asking))
    for cut in range(len(whole.asked)):
        host = PlannerHost(drops_answers=drops_answers)
        following, asking = begun(host)
        host.obstacles = {cut: Refused(Code.NOT_COORDINATOR)}
        with pytest.raises(Refused):
            host.attempt(following(asking))
        host.offsets[P1], host.metadata[P1] = 0, OTHERS
        with pytest.raises(AnotherSink):
            host.attempt(following(asking))


@pytest.mark.parametrize("is_new_process", [False, True])
def test_a_query_goes_back_where_its_writer_says_and_so_does_the_group(
    host: PlannerHost, is_new_process: bool
) -> None:
    host.sees(target=held(P0, P1))
    planner = make_planner()
    first = host.attempt(planner.plan_next(BEGUN))
    host.report = WriterReport(rewind={P0: 4})
    host.ends = dict.fromkeys(ALL, 20)
    if is_new_process:
        host.offsets, host.metadata = {P0: 9, P1: 10}, {}
    later = make_planner() if is_new_process else planner
    assert host.attempt(later.plan_next(first)) == read("c", {P0: (4, 20), P1: (10, 20)})
    assert (host.stored(P0), host.stored(P1)) == (
        OffsetAndMetadata(4, CLAIM),
        OffsetAndMetadata(10, CLAIM),
    )


def test_a_rewind_is_not_done_if_somebody_has_read_on_since_it_was_requested(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0))
    host.offsets, host.starts, host.ends = (
        {P0: 20},
        dict.fromkeys(ALL, 12),
        dict.fromkeys(ALL, 22),
    )
    host.report = WriterReport(rewind={P0: 5})
    assert host.attempt(make_planner().plan_next(read("c", {P0: (7, 9)}))) == read(
        "c", {P0: (20, 22)}
    )
    assert host.stored(P0) == OffsetAndMetadata(20, CLAIM)


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_word_to_go_back_outlasts_the_question_that_follows(
    host: PlannerHost, is_moved: bool
) -> None:
    host.sees(target=held(P0))
    host.offsets, host.metadata = {P0: 7}, {P0: OTHERS if is_moved else ""}
    host.report = WriterReport(TABLE, adopt=is_moved, has_records=True, rewind={P0: 5})
    # of an earlier process, and its version, or before its table was moved
    last = sorted_span("c", {P0: (7, 10)})
    planner = make_planner()
    asking = host.attempt(
        planner.plan_next(last._replace(sinks=("/lake/other",)) if is_moved else last)
    )
    assert asking == Span("c", {P0: (5, 5)}, question_number=1, unclaimed=() if is_moved else (P0,))
    host.report = WriterReport(TABLE, adopt=is_moved, has_records=True)
    assert host.attempt(planner.plan_next(asking)) == read("c", {P0: (5, 10)}, P0)
    assert host.stored(P0) == OffsetAndMetadata(5, CLAIM)


def test_a_partition_revoked_meanwhile_is_not_sought_back(host: PlannerHost) -> None:
    host.sees(target=held(P0, P1))
    planner = make_planner()
    first = host.attempt(planner.plan_next(BEGUN))
    host.report = WriterReport(rewind={P0: 4})
    host.sees(target=held(P1))
    assert host.attempt(planner.plan_next(first)) == read("c", {P1: (10, 10)})


def test_going_back_to_records_that_are_gone_is_data_loss(host: PlannerHost) -> None:
    host.sees(target=held(P0))
    planner = make_planner()
    first = host.attempt(planner.plan_next(BEGUN))
    host.report, host.starts = WriterReport(rewind={P0: 4}), dict.fromkeys(ALL, 7)
    with pytest.raises(DataLoss, match=r"t-0: offsets \[4, 7\) were deleted"):
        host.attempt(planner.plan_next(first))


def test_the_writers_are_asked_about_the_very_span_that_they_were_given(
    host: PlannerHost,
) -> None:
    assert next(make_planner().plan_next(BEGUN)) == ReadWriterReport(BEGUN)


@pytest.mark.parametrize(
    "metadata", ["", "NONE", "{", "[]", "{}", '{"sinks":3}', '{"sinks":[3]}', "[" * 100_000]
)
def test_metadata_of_others_says_nothing_of_a_sink(metadata: str) -> None:
    assert sinks_of(metadata) is None


def test_metadata_goes_there_and_back_and_has_bounds() -> None:
    assert sinks_of(metadata_of(("/lake/ü", "s3://b/t"))) == ("/lake/ü", "s3://b/t")
    assert metadata_of(()) == metadata_of((), starting=True) == ""
    assert sinks_of(metadata_of(TABLE, starting=True)) == TABLE
    assert (is_starting(metadata_of(TABLE, starting=True)), is_starting(CLAIM)) == (True, False)
    assert sinks_of(UNREAD_METADATA) == ()
    with pytest.raises(AnotherSink, match="has room for 4096"):
        metadata_of(("/" + "x" * 4_090,))


def test_a_consumer_is_refused_by_any_claim_and_by_nothing_else() -> None:
    partition = TopicIdPartition("t", P0.topic_id, 0)
    refuse_consumer(
        "g",
        {
            partition: OffsetAndMetadata(3, ""),
            P1: OffsetAndMetadata(4, UNREAD_METADATA),
            P2: OffsetAndMetadata(None),
        },
    )
    with pytest.raises(
        AnotherSink,
        match=(
            r"group g: it belongs to the sink /lake/t, as the committed offset of t-0 "
            r"says.*group of its own"
        ),
    ):
        refuse_consumer("g", {partition: OffsetAndMetadata(3, CLAIM)})


def test_the_sinks_that_an_error_names_are_escaped_and_cut() -> None:
    names = ("\x1b[2J/lake/a", *("/lake/" + "x" * 100 for _ in range(30)), "/lake/z\n")
    shown = sink_names(names)
    assert len(shown) <= MAX_SHOWN_CHARS
    assert shown.startswith(r"\x1b[2J/lake/a and /lake/xxx")
    assert shown.endswith(r"xxx and /lake/z\n")
    with pytest.raises(AnotherSink, match=r"^group a\\nb: it belongs to the sink \\x1b\[2J"):
        refuse_consumer("a\nb", {P0: OffsetAndMetadata(3, metadata_of(names))})


def test_a_sink_breaks_the_claims_of_queries_without_it() -> None:
    stored = {
        P1: OffsetAndMetadata(5, metadata_of(("/lake/a", "/lake/b"))),
        P0: OffsetAndMetadata(5, metadata_of(("/lake/c",))),
        P2: OffsetAndMetadata(5, "of a consumer"),
    }
    assert claims_without("/lake/b", stored) == {P0: ("/lake/c",)}
    assert list(claims_without("/lake/d", stored)) == [P0, P1]
    assert claims_without("/lake/d", {P0: OffsetAndMetadata(None)}) == {}
