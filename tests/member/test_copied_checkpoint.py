"""A checkpoint that names its sinks, in a group that no sink has claimed: a group of a new name, or
a copied program. The writers see a span that names the sinks before the group is claimed for them.
"""

import pytest

from apportion.member.batch.queries import StartMembership
from apportion.member.batch.span import Span
from apportion.member.batch.writer_reports import NO_REPORT, WriterReport
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import metadata_of
from apportion.member.queries import CommitOffsets
from tests.member.planner_host import (
    ALL,
    P0,
    P1,
    STARTING,
    TABLE,
    PlannerHost,
    held,
    make_planner,
    read,
)

COPIED = read("old", {P0: (0, 5), P1: (5, 10)})
"""The last batch of another query, whose checkpoint was copied."""
PROBE = read("old", {P0: (5, 5), P1: (10, 10)})._replace(question_number=1)
OTHERS = metadata_of(("/lake/other",))
OTHERS_STARTING = metadata_of(("/lake/other",), starting=True)


@pytest.fixture
def host() -> PlannerHost:
    made = PlannerHost()
    made.sees(target=held(P0, P1))
    return made


def test_an_unclaimed_group_is_not_joined_before_the_writers_were_called(
    host: PlannerHost,
) -> None:
    assert host.attempt(make_planner().plan_next(COPIED)) == PROBE
    assert (host.joins, host.offsets) == (0, {})


def test_offsets_of_a_consumer_do_not_claim_the_group_either(host: PlannerHost) -> None:
    host.offsets, host.metadata = {P1: 7}, {P1: ""}
    assert host.attempt(make_planner().plan_next(COPIED)) == PROBE._replace(unclaimed=(P1,))
    assert (host.joins, host.stored(P1)) == (0, OffsetAndMetadata(7, ""))


@pytest.mark.parametrize("report", [WriterReport(TABLE), WriterReport(TABLE, True), NO_REPORT])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_renamed_group_goes_on_where_the_checkpoint_is_and_claims_the_group(
    host: PlannerHost, report: WriterReport, *, is_restarted: bool
) -> None:
    planner = make_planner()
    probe = host.attempt(planner.plan_next(COPIED))
    host.report = report
    planner = make_planner() if is_restarted else planner
    batch = host.attempt(planner.plan_next(probe))
    assert batch == read("old", {P0: (5, 10), P1: (10, 10)}, P0, P1)
    assert (host.joins, host.stored(P0)) == (1, OffsetAndMetadata(5, STARTING))
    host.report = NO_REPORT
    assert host.attempt(planner.plan_next(batch)).end_offsets() == {P0: 10, P1: 10}


def test_with_nothing_to_read_the_probe_is_not_the_last_span_of_the_checkpoint(
    host: PlannerHost,
) -> None:
    """Spark would plan it again for ever, or end with it."""
    host.ends = {**dict.fromkeys(ALL, 10), P0: 5}
    planner = make_planner()
    probe = host.attempt(planner.plan_next(COPIED))
    batch = host.attempt(planner.plan_next(probe))
    assert batch == PROBE._replace(question_number=0, starting=(P0, P1))
    assert host.attempt(planner.plan_next(batch)) is batch


def test_in_a_group_of_the_checkpoints_sinks_no_writer_is_asked(host: PlannerHost) -> None:
    host.offsets = {P0: 5}
    batch = host.attempt(make_planner().plan_next(COPIED))
    assert batch == read("old", {P0: (5, 10), P1: (10, 10)})


def test_a_writer_that_adopts_the_checkpoint_is_asked_for_its_sinks(host: PlannerHost) -> None:
    planner = make_planner()
    probe = host.attempt(planner.plan_next(COPIED))
    host.report = WriterReport(("/lake/other",), adopt=True)
    question = host.attempt(planner.plan_next(probe))
    assert question == PROBE._replace(sinks=None, question_number=2)
    assert (host.joins, host.offsets) == (0, {})
    batch = host.attempt(planner.plan_next(question))
    assert batch is not None
    assert (batch.sinks, host.stored(P0)) == (
        ("/lake/other",),
        OffsetAndMetadata(5, OTHERS_STARTING),
    )


def test_a_group_that_another_sink_claims_meanwhile_is_not_joined(host: PlannerHost) -> None:
    planner = make_planner()
    probe = host.attempt(planner.plan_next(COPIED))
    host.offsets, host.metadata = {P0: 3}, {P0: OTHERS}
    question = host.attempt(make_planner().plan_next(probe))
    assert question == Span("old", PROBE.ranges, question_number=2)
    assert not [ask for ask in host.asked if isinstance(ask, CommitOffsets | StartMembership)]
