"""A member that works in batches commits its last batch before it leaves the group."""

import pytest

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.batch.queries import StartMembership
from apportion.member.batch.retries import BatchRetries, QuerySettings
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.batch.writer_reports import WriterReport
from apportion.member.membership import MembershipState
from apportion.member.queries import CommitOffsets, ExistingTopics, FetchCommitted, ReadMembership
from tests.member.planner_host import (
    ALL,
    BEGUN,
    CLAIM,
    P0,
    P1,
    TABLE,
    PlannerHost,
    asked,
    held,
    make_planner,
    read,
    working,
)

REPORT = WriterReport(TABLE, adopt=False, has_records=True, rewind={})
SETTINGS = QuerySettings(
    "g", "b:9092", TopicChoice(("t",)), classic=False, max_poll_interval_ms=300_000
)


def uncommitted(why: str) -> Note:
    """The line in the log on a batch that the group does not know of."""
    return Note(
        "warning",
        f"the group does not know of the last batch, which is in the sink: {why}; it is committed "
        "when the query starts again, and until then the next owner of its partitions reads it "
        "once more",
    )


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def test_the_last_batch_is_committed_and_nothing_is_planned(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.report = REPORT
    assert host.attempt(planner.commit_last(first)) is True
    assert host.asked == [ReadMembership(), CommitOffsets({P0: 10}, 1, CLAIM)]
    assert (host.offsets, planner.ownership.partitions) == ({P0: 10}, {})


def test_a_batch_that_one_of_its_writers_was_not_given_is_not_committed(host: PlannerHost) -> None:
    host.sees(target=held(P0))
    planner = make_planner()
    first = host.attempt(planner.plan_next(BEGUN._replace(sinks=("/lake/t", "/lake/u"))))
    host.report = REPORT
    assert host.attempt(planner.commit_last(first)) is False
    assert host.offsets == {P0: 0}


def test_a_question_is_nothing_to_commit(host: PlannerHost) -> None:
    planner = make_planner()
    question = asked(host, planner)
    host.report = REPORT
    assert host.attempt(planner.commit_last(question)) is True
    assert (host.asked, host.offsets) == ([], {})


def test_a_batch_whose_membership_was_lost_is_not_committed(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.report = REPORT
    host.sees(incarnation=2)
    assert host.attempt(BatchRetries(planner, SETTINGS).commit_last(first)) is False
    assert host.asked == [
        ReadMembership(),
        uncommitted("the member has lost partitions of the batch since"),
    ]
    assert host.offsets == {P0: 0}


def test_a_batch_of_an_earlier_process_is_not_taken_for_committed(host: PlannerHost) -> None:
    earlier = read("c", {P0: (0, 10)})
    why = uncommitted("the query is not a member of its group")
    for previous in (earlier, earlier._replace(question_number=1)):
        retries = BatchRetries(make_planner(), SETTINGS)
        assert host.attempt(retries.commit_last(previous)) is False
        assert host.asked == [why]


def test_a_rewind_of_the_writers_is_committed_before_the_member_leaves(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.ends[P0] = 15
    host.report = REPORT
    second = host.attempt(planner.plan_next(first))
    assert host.offsets == {P0: 10}
    host.report = REPORT._replace(rewind={P0: 4})
    assert host.attempt(planner.commit_last(second)) is True
    assert host.asked == [ReadMembership(), CommitOffsets({P0: 4}, 1, CLAIM)]


def test_a_rewind_of_a_partition_that_was_lost_is_left_to_the_next_run(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.report = REPORT._replace(rewind={P0: 4})
    host.sees(incarnation=2)
    assert host.attempt(BatchRetries(planner, SETTINGS).commit_last(first)) is False
    assert host.offsets == {P0: 0}


def test_a_query_without_a_known_sink_commits_nothing_in_a_group_that_was_claimed(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0))
    host.metadata[P0] = ""
    planner = make_planner()
    begun = BEGUN._replace(sinks=())
    first = host.attempt(planner.plan_next(begun))
    host.offsets[P1], host.metadata[P1] = 3, CLAIM
    host.sees(epoch=4)
    assert host.attempt(BatchRetries(planner, SETTINGS).commit_last(first)) is False
    assert (host.offsets, host.metadata[P0]) == ({P0: 0, P1: 3}, "")


def test_a_member_that_left_joins_again_with_its_next_plan(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.report = REPORT
    host.attempt(planner.commit_last(first))
    host.ends[P0] = 12
    host.sees(owned=held(), state=MembershipState.RECONCILING)
    assert host.attempt(planner.plan_next(first)) == read("c", {P0: (10, 12)})
    assert host.asked[:3] == [
        ExistingTopics(("t",)),
        FetchCommitted(ALL, 0),
        StartMembership(),
    ]


def test_a_batch_that_cannot_be_committed_is_said_and_keeps_no_member(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    retries = BatchRetries(planner, SETTINGS)
    host.report = REPORT
    host.obstacles[1] = Refused(Code.UNKNOWN_MEMBER_ID, "removed")
    assert host.attempt(retries.commit_last(first)) is False
    assert host.asked[-1] == uncommitted("UNKNOWN_MEMBER_ID: removed")
    host.obstacles.clear()
    assert host.attempt(retries.commit_last(first)) is False
    assert host.asked == [uncommitted("the query is not a member of its group")]
