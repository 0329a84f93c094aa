"""A question to the writers that an earlier process has asked: its answer counts where it leads on,
else it is asked anew.
"""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.machine import Note
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.plan import EARLIEST, LATEST, StartingOffsets
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import (
    CommitOffsets,
    EndMembership,
    FetchCommitted,
    LogStartOffsets,
    StartMembership,
    SubscribedTopics,
)
from apportion.member.batch.sinks import (
    NO_REPORT,
    UNREAD_METADATA,
    AnotherSink,
    WriterReport,
    metadata_of,
)
from apportion.member.batch.span import EMPTY_SPAN, Span, sorted_span
from tests.member.planner_host import ALL, CLAIM, P0, P1, P2, TABLE, Surroundings, held, read

OTHER = ("/lake/other",)
OTHERS = metadata_of(OTHER)
BOTH = ("/lake/s", "/lake/t")
LOOK = (SubscribedTopics(), FetchCommitted(ALL, 0))
MINE = WriterReport(TABLE)


@pytest.fixture
def there() -> Surroundings:
    return Surroundings()


def process(starting: int = EARLIEST) -> BatchPlanner:
    """What one process of the query holds."""
    return BatchPlanner(("t",), checkpoint="c", starting=StartingOffsets(starting))


def refused(there: Surroundings, question: Any, mine: BatchPlanner) -> str:
    with pytest.raises(AnotherSink) as refusal:
        there.attempt(mine.plan_next(question, None))
    return str(refusal.value)


def test_a_refused_query_adopts_the_group_with_the_same_checkpoint(there: Surroundings) -> None:
    there.offsets, there.metadata = {P0: 4, P1: 7}, {P0: OTHERS, P1: ""}
    there.sees(target=held(P0, P1))
    first = process()
    question = there.attempt(first.plan_next(EMPTY_SPAN, None))
    there.report = MINE
    assert "the same checkpoint" in refused(there, question, first)
    again = process()
    # what was left by the first process still says no
    asked_anew = there.attempt(again.plan_next(question, None))
    assert asked_anew == Span("c", {}, question_number=2, unclaimed=(P1,))
    assert there.joins == 0
    there.report = WriterReport(TABLE, adopt=True)
    assert there.attempt(again.plan_next(asked_anew, None)) == read("c", {P0: (4, 10), P1: (7, 10)})
    assert CommitOffsets({P0: 4, P1: 7}, 0, CLAIM) in there.asked


def test_an_adoption_that_somebody_has_asked_for_once_is_not_obeyed_later(
    there: Surroundings,
) -> None:
    there.offsets, there.metadata = {P0: 4}, {P0: OTHERS}
    question = there.attempt(process().plan_next(EMPTY_SPAN, None))
    # by a run that was refused because the group had members then
    there.report = WriterReport(TABLE, adopt=True)
    again = process()
    asked_anew = there.attempt(again.plan_next(question, None))
    assert asked_anew is not None
    assert asked_anew.question_number == 2
    there.report = MINE
    assert "belongs to the sink /lake/other" in refused(there, asked_anew, again)
    assert there.stored(P0) == OffsetAndMetadata(4, OTHERS)


def test_an_answer_is_not_asked_for_again_so_that_a_run_of_one_batch_reads(
    there: Surroundings,
) -> None:
    question = there.attempt(process().plan_next(EMPTY_SPAN, None))
    there.report = MINE
    there.sees(target=held(P0))
    assert there.attempt(process().plan_next(question, None)) == read("c", {P0: (0, 10)})


def test_a_question_without_an_answer_is_asked_anew_by_another_process(there: Surroundings) -> None:
    question = there.attempt(process().plan_next(EMPTY_SPAN, None))
    there.sees(target=held(P0))
    later = process()  # on another host: there is no file
    asked_anew = there.attempt(later.plan_next(question, None))
    assert (asked_anew, there.joins) == (Span("c", {}, question_number=2), 0)
    there.report = MINE
    assert there.attempt(later.plan_next(asked_anew, None)) == read("c", {P0: (0, 10)})


def test_silence_is_an_answer_at_once_for_the_asker_and_later_for_others(
    there: Surroundings,
) -> None:
    first = process()
    question = there.attempt(first.plan_next(EMPTY_SPAN, None))
    there.sees(target=held(P0))
    unnamed = sorted_span("c", {P0: (0, 10)})._replace(sinks=())
    assert there.attempt(first.plan_next(question, None)) == unnamed
    there = Surroundings()
    there.sees(target=held(P0))
    second = there.attempt(process().plan_next(question, None))
    assert second is not None
    assert second.question_number == 2
    assert there.attempt(process().plan_next(second, None)) == unnamed


def test_silence_in_a_group_of_others_is_never_believed(there: Surroundings) -> None:
    there.offsets = {P0: 4}
    question = Span("c", {}, question_number=57)
    later = process()
    asked_anew = there.attempt(later.plan_next(question, None))
    assert (asked_anew, there.joins) == (Span("c", {}, question_number=58), 0)
    assert "belongs to the sink /lake/t" in refused(there, asked_anew, later)


def test_offsets_that_are_set_anew_while_the_question_is_open_are_obeyed(
    there: Surroundings,
) -> None:
    there.offsets, there.metadata = {P0: 9}, {P0: ""}
    mine = process()
    question = there.attempt(mine.plan_next(EMPTY_SPAN, None))
    there.offsets[P0] = 3
    there.report = WriterReport(TABLE, has_records=True)
    there.sees(target=held(P0))
    assert there.attempt(mine.plan_next(question, None)) == read("c", {P0: (3, 10)})
    assert there.stored(P0) == OffsetAndMetadata(3, CLAIM)


def test_a_checkpoint_of_before_that_never_wrote_a_row_goes_on_where_it_stands(
    there: Surroundings,
) -> None:
    there.offsets, there.metadata = dict.fromkeys((P0, P1), 10), dict.fromkeys((P0, P1), "")
    mine = process(LATEST)
    before = sorted_span("old", {P0: (10, 10), P1: (10, 10)})
    question = there.attempt(mine.plan_next(before, None))
    there.report = MINE
    there.ends = dict.fromkeys(ALL, 12)
    there.sees(target=held(P0, P1))
    assert there.attempt(mine.plan_next(question, None)) == read(
        "old", {P0: (10, 12), P1: (10, 12)}
    )


def test_an_offset_where_its_log_begins_skips_nothing_and_one_above_is_refused(
    there: Surroundings,
) -> None:
    there.offsets, there.metadata = {P0: 3, P1: 2, P2: 5}, dict.fromkeys(ALL, "")
    there.starts = {P0: 3, P1: 4, P2: 5}
    there.sees(target=held(P0))
    mine = process()
    question = there.attempt(mine.plan_next(EMPTY_SPAN, None))
    there.report = MINE
    assert there.attempt(mine.plan_next(question, None)) == read("c", {P0: (3, 10)})
    assert there.asked[2] == LogStartOffsets(ALL)
    there.starts[P2] = 4
    later = process()
    question = there.attempt(later.plan_next(EMPTY_SPAN, None))
    there.metadata[P0] = ""
    assert r"(t-2: 5) that did not come from /lake/t" in refused(there, question, later)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_who_gives_up_gives_back_the_start_positions_that_it_made_and_nothing_else(
    there: Surroundings, is_cut_off: bool
) -> None:
    there.offsets, there.metadata = {P0: 4}, {P0: ""}
    mine = process()
    question = there.attempt(mine.plan_next(EMPTY_SPAN, None))
    there.report = WriterReport(TABLE, has_records=True)
    there.sees(target=held(P0, P1))

    def answer(ask: Any, asked: Callable[..., Any] = there.answer) -> Any:
        response = asked(ask)
        if isinstance(ask, CommitOffsets) and P1 in ask.offsets:
            there.offsets[P2], there.metadata[P2] = 0, OTHERS
            there.answer = asked  # type: ignore[method-assign]
            if is_cut_off:
                raise TimeoutError
        return response

    there.answer = answer  # type: ignore[method-assign]
    if is_cut_off:
        with pytest.raises(TimeoutError):
            there.attempt(mine.plan_next(question, None))
    assert "belongs to the sink /lake/other, as the committed offset of t-2" in refused(
        there, question, mine
    )
    assert (there.stored(P0), there.stored(P1)) == (
        OffsetAndMetadata(4, CLAIM),
        OffsetAndMetadata(0, UNREAD_METADATA),
    )


def test_a_moved_table_adopts_with_the_checkpoint_of_the_old_one(there: Surroundings) -> None:
    there.offsets, there.metadata = {P0: 10, P1: 10}, dict.fromkeys(ALL, OTHERS)
    there.ends = dict.fromkeys(ALL, 20)
    there.sees(target=held(P0, P1))
    mine = process()
    old = sorted_span("c", {P0: (0, 10), P1: (10, 10)})._replace(sinks=OTHER)
    batch = there.attempt(mine.plan_next(old, None))
    assert batch is not None
    assert (batch.sinks, batch.ranges) == (OTHER, {P0: (10, 20), P1: (10, 20)})
    # the writer has written it to the table's new place
    there.report = WriterReport(TABLE, adopt=True)
    question = there.attempt(mine.plan_next(batch, None))
    assert question == Span("c", {P0: (20, 20), P1: (20, 20)}, question_number=1)
    assert (there.leaves, there.asked[0]) == (1, EndMembership())
    there.ends = dict.fromkeys(ALL, 30)
    assert there.attempt(mine.plan_next(question, None)) == read("c", {P0: (20, 30), P1: (20, 30)})
    assert [ask for ask in there.asked if isinstance(ask, CommitOffsets | StartMembership)] == [
        CommitOffsets({P0: 10, P1: 10}, 0, CLAIM),
        StartMembership(),
        CommitOffsets({P0: 20, P1: 20}, 1, CLAIM),
    ]


def test_a_writer_that_is_left_out_is_noticed_before_the_batch_is_committed(
    there: Surroundings,
) -> None:
    begun = Span("c", {}, BOTH)
    there.report = WriterReport(BOTH)
    there.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    there.sees(target=held(P0))
    mine = process()
    batch = there.attempt(mine.plan_next(begun, None))
    assert batch is not None
    assert batch.ranges == {P0: (0, 10)}
    there.report = MINE
    question = there.attempt(mine.plan_next(batch, None))
    assert (question, there.leaves) == (Span("c", {P0: (0, 0)}, question_number=1), 1)
    assert not [ask for ask in there.asked if isinstance(ask, CommitOffsets)]
    with pytest.raises(
        AnotherSink,
        match="a batch was not given to /lake/s: call every writer for every batch, empty ones too",
    ):
        there.attempt(mine.plan_next(question, None))
    assert there.offsets == {P0: 0}
    corrected = process()
    # what the first process was told is not believed
    asked_anew = there.attempt(corrected.plan_next(question, None))
    assert asked_anew is not None
    assert asked_anew.question_number == 2
    there.report = WriterReport(BOTH)
    batch_again = there.attempt(corrected.plan_next(asked_anew, None))
    assert batch_again == batch  # the one drops it by its fences, the other writes it


def test_a_batch_that_no_writer_received_is_planned_again_if_all_writers_answer(
    there: Surroundings,
) -> None:
    there.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    there.sees(target=held(P0))
    mine = process()
    batch = there.attempt(mine.plan_next(Span("c", {}, BOTH), None))
    there.report = WriterReport(("/lake/t",), adopt=True)  # left in from the beginning
    question = there.attempt(mine.plan_next(batch, None))
    assert question == Span("c", {P0: (0, 0)}, question_number=1)
    there.report = WriterReport(BOTH, adopt=True)
    assert there.attempt(mine.plan_next(question, None)) == batch
    assert there.stored(P0) == OffsetAndMetadata(0, metadata_of(BOTH))


def test_fewer_tables_are_an_adoption_that_is_logged(there: Surroundings) -> None:
    there.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    there.sees(target=held(P0))
    mine = process()
    batch = there.attempt(mine.plan_next(Span("c", {}, BOTH), None))
    there.report = WriterReport(("/lake/t",), adopt=True)
    question = there.attempt(mine.plan_next(batch, None))
    assert there.attempt(mine.plan_next(question, None)).sinks == ("/lake/t",)
    note = (
        "adopt=True: the group belonged to /lake/s and /lake/t, and belongs to /lake/t from now on"
    )
    assert Note("warning", note) in there.asked


def test_a_writer_that_adopts_and_is_not_called_for_empty_batches_is_said_once(
    there: Surroundings,
) -> None:
    there.sees(target=held(P0))
    mine = process()
    question = there.attempt(mine.plan_next(EMPTY_SPAN, None))
    batch = there.attempt(mine.plan_next(question, None))
    assert batch is not None
    assert batch.sinks == ()
    there.report = WriterReport(TABLE, adopt=True)
    question = there.attempt(mine.plan_next(batch, None))
    assert question is not None
    assert (question.question_number, there.leaves) == (1, 1)
    there.report = NO_REPORT
    with pytest.raises(
        AnotherSink,
        match=(
            r"not given to /lake/t: call every writer for every batch, empty ones too \(none "
            r"behind"
        ),
    ):
        there.attempt(mine.plan_next(question, None))


def test_a_query_that_stands_comes_back_where_another_had_adopted_its_group(
    there: Surroundings,
) -> None:
    there.offsets, there.metadata = {P0: 10, P1: 10}, dict.fromkeys(ALL, OTHERS)
    there.ends = dict.fromkeys(ALL, 20)
    there.sees(target=held(P0, P1))
    stood = read("c", {P0: (0, 10), P1: (0, 10)})
    mine = process()
    question = there.attempt(mine.plan_next(stood, None))
    assert (question, there.joins) == (
        Span("c", {P0: (10, 10), P1: (10, 10)}, question_number=1),
        0,
    )
    there.report = MINE
    assert "belongs to the sink /lake/other" in refused(there, question, mine)
    again = process()
    question = there.attempt(again.plan_next(question, None))
    there.report = WriterReport(TABLE, adopt=True)
    assert there.attempt(again.plan_next(question, None)) == read("c", {P0: (10, 20), P1: (10, 20)})
    assert there.stored(P0) == OffsetAndMetadata(10, CLAIM)


def test_a_writer_of_a_batch_without_records_need_not_have_been_called(there: Surroundings) -> None:
    begun = Span("c", {}, BOTH)
    there.metadata = dict.fromkeys(ALL, metadata_of(BOTH))
    there.sees(target=held(P0))
    mine = process()
    batch = there.attempt(mine.plan_next(begun, None))
    there.report = WriterReport(BOTH)
    assert there.attempt(mine.plan_next(batch, None)) is batch
    there.report = NO_REPORT  # the files are gone, after days without a record
    there.sees(target=held(P0, P1), owned=held(P0))
    there.ends = {**there.ends, P1: 0}
    gained = there.attempt(mine.plan_next(batch, None))
    assert gained is not None
    assert gained.ranges == {P0: (10, 10), P1: (0, 0)}
    # nothing was to be read, so nobody had to be called
    assert there.attempt(mine.plan_next(gained, None)) is gained
    there.sees(target=held(P0))  # another process, on another host
    assert there.attempt(process().plan_next(batch, None)).end_offsets() == batch.end_offsets()
