"""Offsets that a foreign client has committed in a sink's group: they bear the sink's name only
after its writer has taken them.
"""

import pytest

from apportion.errors import Code, Refused
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.plan import EARLIEST, StartingOffsets
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.sinks import WriterReport
from apportion.member.batch.span import Span, sorted_span
from tests.member.planner_host import ALL, BEGUN, CLAIM, P0, P1, P2, TABLE, Surroundings, held, read


@pytest.fixture
def there() -> Surroundings:
    return Surroundings()


def batches() -> BatchPlanner:
    return BatchPlanner(("t",), checkpoint="c", starting=StartingOffsets(EARLIEST))


@pytest.mark.parametrize("end", [5, 9])
def test_foreign_offsets_travel_in_the_span_and_get_the_sinks_name_at_its_end(
    there: Surroundings, end: int
) -> None:
    there.ends[P1] = end
    there.sees(target=held(P0))
    mine = batches()
    first = there.attempt(mine.plan_next(BEGUN, None))
    there.offsets[P1], there.metadata[P1] = 5, "java consumer"
    there.sees(target=held(P0, P1))
    doubted = there.attempt(mine.plan_next(first, None))
    assert doubted == read("c", {P0: (10, 10), P1: (5, end)})._replace(unclaimed=(P1,))
    assert there.stored(P1) == OffsetAndMetadata(5, "java consumer")
    # the batch is written, and nothing is new
    assert there.attempt(mine.plan_next(doubted, None)) is doubted
    assert there.stored(P1) == OffsetAndMetadata(end, CLAIM)
    there.ends[P1] = 12
    assert there.attempt(mine.plan_next(doubted, None)) == read("c", {P0: (10, 10), P1: (end, 12)})


def test_a_foreign_commit_of_the_same_offset_on_a_former_partition_is_unclaimed(
    there: Surroundings,
) -> None:
    there.sees(target=held(P0, P1))
    mine = batches()
    both = there.attempt(mine.plan_next(BEGUN, None))
    both = there.attempt(mine.plan_next(both, None))
    there.sees(target=held(P0))
    one = there.attempt(mine.plan_next(both, None))
    there.metadata[P1] = ""  # a foreign client has committed 10 as well
    there.sees(target=held(P0, P1))
    doubted = there.attempt(mine.plan_next(one, None))
    assert doubted is not None
    assert (doubted.unclaimed, there.stored(P1)) == ((P1,), OffsetAndMetadata(10, ""))
    there.attempt(mine.plan_next(doubted, None))
    assert there.stored(P1) == OffsetAndMetadata(10, CLAIM)


def test_it_is_so_after_an_attempt_that_was_cut(there: Surroundings) -> None:
    there.sees(target=held(P0, P1))
    there.offsets, there.metadata = {P1: 5}, {P1: ""}
    mine = batches()
    for cut in range(30):
        there.obstacles = {cut: Refused(Code.NOT_COORDINATOR)}
        try:
            assert there.attempt(mine.plan_next(BEGUN, None)).unclaimed == (P1,)
            break
        except Refused:
            assert there.stored(P1) == OffsetAndMetadata(5, "")
    else:
        raise AssertionError("no attempt came through")


@pytest.mark.parametrize(("offset", "start"), [(0, 0), (5, 5), (3, 5), (10, 0), (8, 0)])
def test_an_offset_that_passes_over_nothing_is_the_sinks_at_once(
    there: Surroundings, offset: int, start: int
) -> None:
    """It is where the log begins, or not above where the checkpoint stands."""
    there.starts = dict.fromkeys(ALL, start)
    there.offsets, there.metadata = {P1: offset}, {P1: ""}
    there.sees(target=held(P1))
    previous = read("c", {P1: (0, 10)}) if offset > start else BEGUN
    mine = BatchPlanner(
        ("t",), checkpoint="c", starting=StartingOffsets(EARLIEST), fail_on_data_loss=False
    )
    assert there.attempt(mine.plan_next(previous, None)).unclaimed == ()
    assert there.stored(P1).metadata == CLAIM


def test_a_query_without_a_named_sink_doubts_nothing(there: Surroundings) -> None:
    there.offsets, there.metadata = {P1: 5}, {P1: "java consumer"}
    there.sees(target=held(P1))
    assert there.attempt(batches().plan_next(Span("c", {}, ()), None)) == Span(
        "c", {P1: (5, 10)}, ()
    )


@pytest.mark.parametrize("is_second", [False, True])
def test_an_upgrade_continues_with_fences_of_the_group_and_partitions_without_row(
    there: Surroundings, is_second: bool
) -> None:
    """P2 has had no row yet, and versions of before set a fence with rows only. Another query may
    have been upgraded first.
    """
    there.offsets, there.metadata = (
        {P0: 4, P1: 7, P2: 6},
        {P0: "", P1: CLAIM if is_second else "", P2: ""},
    )
    mine = batches()
    asking = there.attempt(mine.plan_next(sorted_span("old", {P0: (0, 4)}), None))
    there.report = WriterReport(TABLE, has_records=True)
    there.sees(target=held(P0, P2))
    assert there.attempt(mine.plan_next(asking, None)) == read("old", {P0: (4, 10), P2: (6, 10)})
    assert (there.stored(P0), there.stored(P2)) == (
        OffsetAndMetadata(4, CLAIM),
        OffsetAndMetadata(6, CLAIM),
    )


def test_a_new_checkpoint_doubts_unnamed_offsets_though_the_table_has_fences(
    there: Surroundings,
) -> None:
    there.offsets, there.metadata = {P0: 4, P1: 7, P2: 6}, {P0: "", P1: CLAIM, P2: ""}
    mine = batches()
    asking = there.attempt(mine.plan_next(BEGUN._replace(id="", sinks=None), None))
    there.report = WriterReport(TABLE, has_records=True)
    there.sees(target=held(P0, P2))
    assert there.attempt(mine.plan_next(asking, None)).unclaimed == (P0, P2)
