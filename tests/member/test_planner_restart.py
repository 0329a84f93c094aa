"""A question to the writers that an earlier process has asked: its answer counts where it leads on,
else it is asked anew.
"""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.machine import Note
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import EndMembership, StartMembership
from apportion.member.batch.span import EMPTY_SPAN, Span, sorted_span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import UNREAD_METADATA, AnotherSink, metadata_of
from apportion.member.queries import CommitOffsets, ExistingTopics, FetchCommitted, ListOffsets
from apportion.wire.messages.list_offsets import EARLIEST, LATEST
from tests.member.planner_host import (
    ALL,
    P0,
    P1,
    P2,
    STARTING,
    TABLE,
    PlannerHost,
    held,
    make_planner,
    read,
)

OTHER = ("/lake/other",)
OTHERS = metadata_of(OTHER)
BOTH = ("/lake/s", "/lake/t")
LOOK = (ExistingTopics(("t",)), FetchCommitted(ALL, 0))
MINE = WriterReport(TABLE)


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def refused(host: PlannerHost, question: Any, planner: BatchPlanner) -> str:
    with pytest.raises(AnotherSink) as refusal:
        host.attempt(planner.plan_next(question))
    return str(refusal.value)


def test_a_refused_query_adopts_the_group_with_the_same_checkpoint(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 4, P1: 7}, {P0: OTHERS, P1: ""}
    host.sees(target=held(P0, P1))
    first = make_planner()
    question = host.attempt(first.plan_next(EMPTY_SPAN))
    host.report = MINE
    assert "the same checkpoint" in refused(host, question, first)
    again = make_planner()
    # what was left by the first process still says no
    asked_anew = host.attempt(again.plan_next(question))
    assert asked_anew == Span("c", {}, question_number=2, unclaimed=(P1,))
    assert host.joins == 0
    host.report = WriterReport(TABLE, adopt=True)
    assert host.attempt(again.plan_next(asked_anew)) == read(
        "c", {P0: (4, 10), P1: (7, 10)}, P0, P1
    )
    assert CommitOffsets({P0: 4, P1: 7}, 0, STARTING) in host.asked


def test_an_adoption_that_somebody_has_asked_for_once_is_not_obeyed_later(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P0: 4}, {P0: OTHERS}
    question = host.attempt(make_planner().plan_next(EMPTY_SPAN))
    # by a run that was refused because the group had members then
    host.report = WriterReport(TABLE, adopt=True)
    again = make_planner()
    asked_anew = host.attempt(again.plan_next(question))
    assert asked_anew is not None
    assert asked_anew.question_number == 2
    host.report = MINE
    assert "belongs to the sink /lake/other" in refused(host, asked_anew, again)
    assert host.stored(P0) == OffsetAndMetadata(4, OTHERS)


def test_an_answer_is_not_asked_for_again_so_that_a_run_of_one_batch_reads(
    host: PlannerHost,
) -> None:
    question = host.attempt(make_planner().plan_next(EMPTY_SPAN))
    host.report = MINE
    host.sees(target=held(P0))
    assert host.attempt(make_planner().plan_next(question)) == read("c", {P0: (0, 10)})


def test_a_question_without_an_answer_is_asked_anew_by_another_process(
    host: PlannerHost,
) -> None:
    question = host.attempt(make_planner().plan_next(EMPTY_SPAN))
    host.sees(target=held(P0))
    later = make_planner()  # on another host: there is no file
    asked_anew = host.attempt(later.plan_next(question))
    assert (asked_anew, host.joins) == (Span("c", {}, question_number=2), 0)
    host.report = MINE
    assert host.attempt(later.plan_next(asked_anew)) == read("c", {P0: (0, 10)})


def test_silence_is_an_answer_at_once_for_the_asker_and_later_for_others(
    host: PlannerHost,
) -> None:
    first = make_planner()
    question = host.attempt(first.plan_next(EMPTY_SPAN))
    host.sees(target=held(P0))
    unnamed = sorted_span("c", {P0: (0, 10)})._replace(sinks=())
    assert host.attempt(first.plan_next(question)) == unnamed
    host = PlannerHost()
    host.sees(target=held(P0))
    second = host.attempt(make_planner().plan_next(question))
    assert second is not None
    assert second.question_number == 2
    assert host.attempt(make_planner().plan_next(second)) == unnamed


def test_silence_in_a_group_of_others_is_never_believed(host: PlannerHost) -> None:
    host.offsets = {P0: 4}
    question = Span("c", {}, question_number=57)
    later = make_planner()
    asked_anew = host.attempt(later.plan_next(question))
    assert (asked_anew, host.joins) == (Span("c", {}, question_number=58), 0)
    assert "belongs to the sink /lake/t" in refused(host, asked_anew, later)


def test_offsets_that_are_set_anew_while_the_question_is_open_are_obeyed(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P0: 9}, {P0: ""}
    planner = make_planner()
    question = host.attempt(planner.plan_next(EMPTY_SPAN))
    host.offsets[P0] = 3
    host.report = WriterReport(TABLE, has_records=True)
    host.sees(target=held(P0))
    assert host.attempt(planner.plan_next(question)) == read("c", {P0: (3, 10)}, P0)
    assert host.stored(P0) == OffsetAndMetadata(3, STARTING)


def test_a_checkpoint_of_before_that_never_wrote_a_row_goes_on_where_it_stands(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = dict.fromkeys((P0, P1), 10), dict.fromkeys((P0, P1), "")
    planner = make_planner(LATEST)
    before = sorted_span("old", {P0: (10, 10), P1: (10, 10)})
    question = host.attempt(planner.plan_next(before))
    host.report = MINE
    host.ends = dict.fromkeys(ALL, 12)
    host.sees(target=held(P0, P1))
    assert host.attempt(planner.plan_next(question)) == read(
        "old", {P0: (10, 12), P1: (10, 12)}, P0, P1
    )


def test_an_offset_where_its_log_begins_skips_nothing_and_one_above_is_refused(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P0: 3, P1: 2, P2: 5}, dict.fromkeys(ALL, "")
    host.starts = {P0: 3, P1: 4, P2: 5}
    host.sees(target=held(P0))
    planner = make_planner()
    question = host.attempt(planner.plan_next(EMPTY_SPAN))
    host.report = MINE
    assert host.attempt(planner.plan_next(question)) == read("c", {P0: (3, 10)}, P0)
    assert host.asked[2] == ListOffsets(ALL, EARLIEST)
    host.starts[P2] = 4
    later = make_planner()
    question = host.attempt(later.plan_next(EMPTY_SPAN))
    host.metadata[P0] = ""
    assert r"(t-2: 5) that did not come from /lake/t" in refused(host, question, later)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_giving_up_returns_only_the_start_positions_of_this_planner(
    host: PlannerHost, is_cut_off: bool
) -> None:
    host.offsets, host.metadata = {P0: 4}, {P0: ""}
    planner = make_planner()
    question = host.attempt(planner.plan_next(EMPTY_SPAN))
    host.report = WriterReport(TABLE, has_records=True)
    host.sees(target=held(P0, P1))

    def answer(ask: Any, asked: Callable[..., Any] = host.answer) -> Any:
        response = asked(ask)
        if isinstance(ask, CommitOffsets) and P1 in ask.offsets:
            host.offsets[P2], host.metadata[P2] = 0, OTHERS
            host.answer = asked  # type: ignore[method-assign]
            if is_cut_off:
                raise TimeoutError
        return response

    host.answer = answer  # type: ignore[method-assign]
    if is_cut_off:
        with pytest.raises(TimeoutError):
            host.attempt(planner.plan_next(question))
    assert "belongs to the sink /lake/other, as the committed offset of t-2" in refused(
        host, question, planner
    )
    assert (host.stored(P0), host.stored(P1)) == (
        OffsetAndMetadata(4, STARTING),
        OffsetAndMetadata(0, UNREAD_METADATA),
    )


def test_a_moved_table_adopts_with_the_checkpoint_of_the_old_one(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P0: 10, P1: 10}, dict.fromkeys(ALL, OTHERS)
    host.ends = dict.fromkeys(ALL, 20)
    host.sees(target=held(P0, P1))
    planner = make_planner()
    old = sorted_span("c", {P0: (0, 10), P1: (10, 10)})._replace(sinks=OTHER)
    batch = host.attempt(planner.plan_next(old))
    assert batch is not None
    assert (batch.sinks, batch.ranges) == (OTHER, {P0: (10, 20), P1: (10, 20)})
    # the writer has written it to the table's new place
    host.report = WriterReport(TABLE, adopt=True)
    question = host.attempt(planner.plan_next(batch))
    assert question == Span("c", {P0: (20, 20), P1: (20, 20)}, question_number=1)
    assert (host.leaves, host.asked[0]) == (1, EndMembership())
    host.ends = dict.fromkeys(ALL, 30)
    assert host.attempt(planner.plan_next(question)) == read(
        "c", {P0: (20, 30), P1: (20, 30)}, P0, P1
    )
    assert [ask for ask in host.asked if isinstance(ask, CommitOffsets | StartMembership)] == [
        CommitOffsets({P0: 10, P1: 10}, 0, STARTING),
        StartMembership(),
        CommitOffsets({P0: 20, P1: 20}, 1, STARTING),
    ]


def test_a_writer_that_is_left_out_is_noticed_before_the_batch_is_committed(
    host: PlannerHost,
) -> None:
    begun = Span("c", {}, BOTH)
    host.report = WriterReport(BOTH)
    host.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    host.sees(target=held(P0))
    planner = make_planner()
    batch = host.attempt(planner.plan_next(begun))
    assert batch is not None
    assert batch.ranges == {P0: (0, 10)}
    host.report = MINE
    question = host.attempt(planner.plan_next(batch))
    assert (question, host.leaves) == (Span("c", {P0: (0, 0)}, question_number=1), 1)
    assert not [ask for ask in host.asked if isinstance(ask, CommitOffsets)]
    with pytest.raises(
        AnotherSink,
        match="a batch was not given to /lake/s: call every writer for every batch, empty ones too",
    ):
        host.attempt(planner.plan_next(question))
    assert host.offsets == {P0: 0}
    corrected = make_planner()
    # what the first process was told is not believed
    asked_anew = host.attempt(corrected.plan_next(question))
    assert asked_anew is not None
    assert asked_anew.question_number == 2
    host.report = WriterReport(BOTH)
    batch_again = host.attempt(corrected.plan_next(asked_anew))
    assert batch_again == batch  # the one drops it by its fences, the other writes it


def test_a_batch_that_no_writer_received_is_planned_again_if_all_writers_answer(
    host: PlannerHost,
) -> None:
    host.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    host.sees(target=held(P0))
    planner = make_planner()
    batch = host.attempt(planner.plan_next(Span("c", {}, BOTH)))
    host.report = WriterReport(("/lake/t",), adopt=True)  # left in from the beginning
    question = host.attempt(planner.plan_next(batch))
    assert question == Span("c", {P0: (0, 0)}, question_number=1)
    host.report = WriterReport(BOTH, adopt=True)
    assert host.attempt(planner.plan_next(question)) == batch
    assert host.stored(P0) == OffsetAndMetadata(0, metadata_of(BOTH, starting=True))


def test_fewer_tables_are_an_adoption_that_is_logged(host: PlannerHost) -> None:
    host.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    host.sees(target=held(P0))
    planner = make_planner()
    batch = host.attempt(planner.plan_next(Span("c", {}, BOTH)))
    host.report = WriterReport(("/lake/t",), adopt=True)
    question = host.attempt(planner.plan_next(batch))
    assert host.attempt(planner.plan_next(question)).sinks == ("/lake/t",)
    note = (
        "adopt=True: the group belonged to /lake/s and /lake/t, and belongs to /lake/t from now on"
    )
    assert Note("warning", note) in host.asked


def test_a_writer_that_adopts_and_is_not_called_for_empty_batches_is_said_once(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0))
    planner = make_planner()
    question = host.attempt(planner.plan_next(EMPTY_SPAN))
    batch = host.attempt(planner.plan_next(question))
    assert batch is not None
    assert batch.sinks == ()
    host.report = WriterReport(TABLE, adopt=True)
    question = host.attempt(planner.plan_next(batch))
    assert question is not None
    assert (question.question_number, host.leaves) == (1, 1)
    host.report = NO_REPORT
    with pytest.raises(
        AnotherSink,
        match=(
            r"not given to /lake/t: call every writer for every batch, empty ones too \(none "
            r"behind"
        ),
    ):
        host.attempt(planner.plan_next(question))


def test_a_query_that_stands_comes_back_where_another_had_adopted_its_group(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P0: 10, P1: 10}, dict.fromkeys(ALL, OTHERS)
    host.ends = dict.fromkeys(ALL, 20)
    host.sees(target=held(P0, P1))
    stood = read("c", {P0: (0, 10), P1: (0, 10)})
    planner = make_planner()
    question = host.attempt(planner.plan_next(stood))
    assert (question, host.joins) == (
        Span("c", {P0: (10, 10), P1: (10, 10)}, question_number=1),
        0,
    )
    host.report = MINE
    assert "belongs to the sink /lake/other" in refused(host, question, planner)
    again = make_planner()
    question = host.attempt(again.plan_next(question))
    host.report = WriterReport(TABLE, adopt=True)
    assert host.attempt(again.plan_next(question)) == read(
        "c", {P0: (10, 20), P1: (10, 20)}, P0, P1
    )
    assert host.stored(P0) == OffsetAndMetadata(10, STARTING)


def test_a_writer_of_a_batch_without_records_need_not_have_been_called(host: PlannerHost) -> None:
    begun = Span("c", {}, BOTH)
    host.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    host.sees(target=held(P0))
    planner = make_planner()
    batch = host.attempt(planner.plan_next(begun))
    host.report = WriterReport(BOTH)
    assert host.attempt(planner.plan_next(batch)) is batch
    host.report = NO_REPORT  # the files are gone, after days without a record
    host.sees(target=held(P0, P1), owned=held(P0))
    host.ends = {**host.ends, P1: 0}
    gained = host.attempt(planner.plan_next(batch))
    assert gained is not None
    assert gained.ranges == {P0: (10, 10), P1: (0, 0)}
    # nothing was to be read, so nobody had to be called
    assert host.attempt(planner.plan_next(gained)) is gained
    host.sees(target=held(P0))  # another process, on another host
    assert host.attempt(make_planner().plan_next(batch)).end_offsets() == batch.end_offsets()
