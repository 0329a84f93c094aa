"""Offsets that a foreign client has committed in a sink's group: they bear the sink's name only
after its writer has taken them.
"""

import pytest

from apportion.errors import Code, Refused
from apportion.member.batch.span import Span, sorted_span
from apportion.member.batch.writer_reports import WriterReport
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from tests.member.planner_host import (
    ALL,
    BEGUN,
    CLAIM,
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


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


@pytest.mark.parametrize("end", [5, 9])
def test_foreign_offsets_travel_in_the_span_and_get_the_sinks_name_at_its_end(
    host: PlannerHost, end: int
) -> None:
    host.ends[P1] = end
    host.sees(target=held(P0))
    planner = make_planner()
    first = host.attempt(planner.plan_next(BEGUN))
    host.offsets[P1], host.metadata[P1] = 5, "java consumer"
    host.sees(target=held(P0, P1))
    doubted = host.attempt(planner.plan_next(first))
    assert doubted == read("c", {P0: (10, 10), P1: (5, end)})
    assert host.stored(P1) == OffsetAndMetadata(5, "java consumer")
    # the batch is written, and nothing is new
    assert host.attempt(planner.plan_next(doubted)) is doubted
    assert host.stored(P1) == OffsetAndMetadata(end, CLAIM)
    host.ends[P1] = 12
    assert host.attempt(planner.plan_next(doubted)) == read("c", {P0: (10, 10), P1: (end, 12)})


def test_a_foreign_commit_of_the_same_offset_on_a_former_partition_is_unclaimed(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0, P1))
    planner = make_planner()
    both = host.attempt(planner.plan_next(BEGUN))
    both = host.attempt(planner.plan_next(both))
    host.sees(target=held(P0))
    one = host.attempt(planner.plan_next(both))
    host.metadata[P1] = ""  # a foreign client has committed 10 as well
    host.sees(target=held(P0, P1))
    doubted = host.attempt(planner.plan_next(one))
    assert doubted is not None
    assert (doubted.starting, host.stored(P1)) == ((), OffsetAndMetadata(10, ""))
    host.attempt(planner.plan_next(doubted))
    assert host.stored(P1) == OffsetAndMetadata(10, CLAIM)


def test_it_is_so_after_an_attempt_that_was_cut(host: PlannerHost) -> None:
    host.sees(target=held(P0, P1))
    host.offsets, host.metadata = {P1: 5}, {P1: ""}
    planner = make_planner()
    for cut in range(30):
        host.obstacles = {cut: Refused(Code.NOT_COORDINATOR)}
        try:
            assert host.attempt(planner.plan_next(BEGUN)).starting == ()
            break
        except Refused:
            assert host.stored(P1) == OffsetAndMetadata(5, "")
    else:
        raise AssertionError("no attempt came through")


@pytest.mark.parametrize(
    ("offset", "start", "metadata"),
    [(0, 0, STARTING), (5, 5, STARTING), (3, 5, STARTING), (10, 0, CLAIM), (8, 0, CLAIM)],
)
def test_an_offset_that_passes_over_nothing_is_the_sinks_at_once(
    host: PlannerHost, offset: int, start: int, metadata: str
) -> None:
    """It is where the log begins, or not above where the checkpoint stands."""
    host.starts = dict.fromkeys(ALL, start)
    host.offsets, host.metadata = {P0: 0, P1: offset}, {P1: ""}
    host.sees(target=held(P1))
    previous = read("c", {P1: (0, 10)}) if offset > start else BEGUN
    planner = make_planner(fail_on_data_loss=False)
    expected = (P1,) if start else ()  # below offset 0 there is nothing to miss
    assert host.attempt(planner.plan_next(previous)).starting == expected
    assert host.stored(P1).metadata == metadata


def test_a_query_without_a_named_sink_doubts_nothing(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P1: 5}, {P1: "java consumer"}
    host.sees(target=held(P1))
    assert host.attempt(make_planner().plan_next(Span("c", {}, ()))) == Span("c", {P1: (5, 10)}, ())


@pytest.mark.parametrize("is_second", [False, True])
def test_an_upgrade_continues_with_fences_of_the_group_and_partitions_without_row(
    host: PlannerHost, is_second: bool
) -> None:
    """P2 has had no row yet, and versions of before set a fence with rows only. Another query may
    have been upgraded first.
    """
    host.offsets, host.metadata = (
        {P0: 4, P1: 7, P2: 6},
        {P0: "", P1: CLAIM if is_second else "", P2: ""},
    )
    planner = make_planner()
    asking = host.attempt(planner.plan_next(sorted_span("old", {P0: (0, 4)})))
    host.report = WriterReport(TABLE, has_records=True)
    host.sees(target=held(P0, P2))
    assert host.attempt(planner.plan_next(asking)) == read(
        "old", {P0: (4, 10), P2: (6, 10)}, P0, P2
    )
    assert (host.stored(P0), host.stored(P2)) == (
        OffsetAndMetadata(4, STARTING),
        OffsetAndMetadata(6, STARTING),
    )


def test_a_new_checkpoint_doubts_unnamed_offsets_though_the_table_has_fences(
    host: PlannerHost,
) -> None:
    host.offsets, host.metadata = {P0: 4, P1: 7, P2: 6}, {P0: "", P1: CLAIM, P2: ""}
    planner = make_planner()
    asking = host.attempt(planner.plan_next(BEGUN._replace(id="", sinks=None)))
    host.report = WriterReport(TABLE, has_records=True)
    host.sees(target=held(P0, P2))
    assert host.attempt(planner.plan_next(asking)).starting == ()
