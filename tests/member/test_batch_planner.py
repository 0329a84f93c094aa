"""A member that works in batches, its questions answered by hand: which it asks, in which order,
and what comes of the answers.
"""

from dataclasses import replace
from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.log_bounds import LogBounds
from apportion.machine import Note
from apportion.member.batch.membership import BatchOwnership, MembershipFailed
from apportion.member.batch.plan import ReadLimits
from apportion.member.batch.queries import (
    GroupSetting,
    NotReady,
    ReadWriterReport,
    StartMembership,
)
from apportion.member.batch.writer_reports import NO_REPORT
from apportion.member.membership import MembershipState
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MembershipSnapshot,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.topics import Topic, Topics
from apportion.wire.messages.list_offsets import EARLIEST, LATEST
from tests.member.planner_host import (
    ALL,
    BEGUN,
    CLAIM,
    ID,
    P0,
    P1,
    P2,
    SESSION_MS,
    STARTING,
    PlannerHost,
    held,
    make_planner,
    read,
    working,
)

GRACE_MS = 5_000
LOOK_AT_SESSION = (GroupSetting("consumer.session.timeout.ms"), ReadMembership())
ENTRY = (ExistingTopics(("t",)), FetchCommitted(ALL, 0), StartMembership())  # whose group is it?


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def large() -> int:
    """A large number, each time as another object: Python keeps small ones but once."""
    return int("1000")


def test_the_first_plan_commits_its_start_before_the_span(host: PlannerHost) -> None:
    host.sees(target=held(P0, P1))
    host.starts[P1] = 4
    planner = make_planner()
    assert host.attempt(planner.plan_next(BEGUN, ReadLimits(8))) == read(
        "c", {P0: (0, 5), P1: (4, 7)}, P1
    )
    assert host.asked == [
        *ENTRY,
        ReadMembership(),
        ExistingTopics(("t",)),
        *LOOK_AT_SESSION,
        ResolveTopicNames(held(P0, P1)),
        AdoptAssignment(1, held(P0, P1)),
        ExistingTopics(("t",)),
        FetchCommitted(ALL, 1),
        ListOffsets((P0, P1), EARLIEST),
        ListOffsets((P0, P1), LATEST),
        CommitOffsets({P0: 0, P1: 4}, 1, STARTING),
    ]
    assert (planner.ownership, planner.planned_incarnation, planner.logs) == (
        BatchOwnership(1, {P0: None, P1: None}),
        1,
        {P0: LogBounds(0, 10), P1: LogBounds(4, 10)},
    )


def test_a_kept_partition_goes_on_from_the_last_end_which_is_committed_first(
    host: PlannerHost,
) -> None:
    planner, first = working(host, P0)
    host.offsets[P0] = 3
    host.ends[P0] = 12
    assert host.attempt(planner.plan_next(first)) == read("c", {P0: (10, 12)})
    assert host.asked == [
        ReadMembership(),
        CommitOffsets({P0: 10}, 1, CLAIM),
        ResolveTopicNames(held(P0)),
        ListOffsets((P0,), EARLIEST),
        ListOffsets((P0,), LATEST),
    ]


def test_a_life_is_known_by_its_number_however_large(host: PlannerHost) -> None:
    host.sees(incarnation=large())
    planner, first = working(host, P0)
    host.sees(incarnation=large())
    assert host.attempt(planner.plan_next(first)) is first
    assert host.asked == [
        ReadMembership(),
        CommitOffsets({P0: 10}, large(), CLAIM),
        ResolveTopicNames(held(P0)),
        ListOffsets((P0,), EARLIEST),
        ListOffsets((P0,), LATEST),
    ]


def test_nothing_new_gives_the_very_span_and_commits_its_end_once(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    assert host.attempt(planner.plan_next(first)) is first
    assert host.attempt(planner.plan_next(first)) is first
    assert host.asked == [
        ReadMembership(),
        ResolveTopicNames(held(P0)),
        ListOffsets((P0,), EARLIEST),
        ListOffsets((P0,), LATEST),
    ]


def test_a_gained_partition_starts_where_the_group_or_the_last_span_is_further(
    host: PlannerHost,
) -> None:
    host.sees(target=held(*ALL), owned=held(*ALL), state=MembershipState.STABLE)
    host.offsets = {P0: 30, P1: 4, P2: 7}
    host.ends = dict.fromkeys(ALL, 50)
    restarted = make_planner()
    assert host.attempt(restarted.plan_next(read("old", {P0: (0, 10), P1: (0, 10)}))) == read(
        "old", {P0: (30, 50), P1: (10, 50), P2: (7, 50)}
    )
    assert host.asked == [
        *ENTRY,
        ReadMembership(),
        ExistingTopics(("t",)),
        *LOOK_AT_SESSION,
        ResolveTopicNames(held(*ALL)),
        ExistingTopics(("t",)),
        FetchCommitted(ALL, 1),
        CommitOffsets({P1: 10}, 1, CLAIM),  # the group never heard of it
        ListOffsets(ALL, EARLIEST),
        ListOffsets(ALL, LATEST),
    ]


def test_a_revoked_partitions_position_is_committed_before_its_release(
    host: PlannerHost,
) -> None:
    planner, first = working(host, P0, P1)
    host.sees(target=held(P0), state=MembershipState.RECONCILING)
    assert host.attempt(planner.plan_next(first)) == read("c", {P0: (10, 10)})
    assert host.asked == [
        ReadMembership(),
        CommitOffsets({P0: 10, P1: 10}, 1, CLAIM),
        ResolveTopicNames(held(P0)),
        AdoptAssignment(1, held(P0)),
        ExistingTopics(("t",)),  # is what was lost still there?
        ListOffsets((P0,), EARLIEST),
        ListOffsets((P0,), LATEST),
    ]
    assert planner.ownership == BatchOwnership(1, {P0: None})


def test_nothing_is_adopted_when_the_end_of_the_batch_cannot_be_committed(
    host: PlannerHost,
) -> None:
    planner, first = working(host, P0, P1)
    host.sees(target=held(P0), state=MembershipState.RECONCILING)
    host.obstacles = {1: Refused(Code.UNKNOWN_MEMBER_ID)}
    with pytest.raises(Refused):
        host.attempt(planner.plan_next(first))
    assert host.asked == [ReadMembership(), CommitOffsets({P0: 10, P1: 10}, 1, CLAIM)]
    assert (planner.ownership, host.view.owned) == (
        BatchOwnership(1, {P0: None, P1: None}),
        held(P0, P1),
    )


def test_a_partition_that_went_and_came_back_starts_from_the_group_again(
    host: PlannerHost,
) -> None:
    planner, first = working(host, P0, P1)
    host.sees(target=held(P0))
    second = host.attempt(planner.plan_next(first))
    host.offsets[P1] = 25  # another member read on
    host.ends[P1] = 30
    host.sees(target=held(P0, P1))
    assert host.attempt(planner.plan_next(second)) == read("c", {P0: (10, 10), P1: (25, 30)})
    assert FetchCommitted(ALL, 1) in host.asked


def test_a_partition_whose_first_batch_was_never_used_starts_from_the_group_again(
    host: PlannerHost,
) -> None:
    planner, first = working(host, P0)
    host.sees(target=held(P0, P1))
    host.attempt(planner.plan_next(first, ReadLimits(5)))
    assert host.attempt(planner.plan_next(first)) == read("c", {P0: (10, 10), P1: (0, 10)})
    assert host.asked == [
        ReadMembership(),
        ResolveTopicNames(held(P0, P1)),
        ExistingTopics(("t",)),
        FetchCommitted(ALL, 1),
        ListOffsets((P0, P1), EARLIEST),
        ListOffsets((P0, P1), LATEST),
    ]


def test_a_partition_outside_the_new_target_stays_dropped_when_the_target_changes(
    host: PlannerHost,
) -> None:
    planner, first = working(host, P0, P1)
    host.sees(target=held(P0))
    changed = replace(host.view, target=held(P0, P1))
    asking = planner.plan_next(first)
    assert next(asking) == ReadWriterReport(first)
    assert [
        asking.send(NO_REPORT),
        asking.send(MembershipSnapshot(host.view, 1_000, 0)),
        asking.send(None),
        asking.send((P0,)),
    ] == [
        ReadMembership(),
        CommitOffsets({P0: 10, P1: 10}, 1, CLAIM),
        ResolveTopicNames(held(P0)),
        AdoptAssignment(1, held(P0)),
    ]
    with pytest.raises(NotReady, match="has changed this member's assignment"):
        asking.send(changed)
    assert planner.ownership == BatchOwnership(1, {P0: None})
    host.view = changed
    host.attempt(planner.plan_next(first))
    assert FetchCommitted(ALL, 1) in host.asked


@pytest.mark.parametrize(
    ("fields", "now_ms", "why", "looks"),
    [
        (
            {"epoch": 0},
            1_000,
            "the member has no assignment yet: it uses exactly what it is assigned",
            (),
        ),
        (
            {"target": None},
            1_000,
            "the member has no assignment yet: it uses exactly what it is assigned",
            (),
        ),
        (
            {"last_accepted_ms": None},
            1_000,
            "the coordinator has accepted no heartbeat for 4000 ms",
            LOOK_AT_SESSION,
        ),
        (
            {},
            1_000 + SESSION_MS + 1,
            "the coordinator has accepted no heartbeat for 4000 ms",
            LOOK_AT_SESSION,
        ),
    ],
)
def test_without_a_place_or_after_a_silent_session_nothing_can_be_said(
    host: PlannerHost,
    fields: dict[str, int | None],
    now_ms: int,
    why: str,
    looks: tuple[Any, ...],
) -> None:
    planner, first = working(host, P0)
    host.sees(state=MembershipState.STABLE)
    host.now_ms = now_ms
    host.sees(**fields)
    with pytest.raises(NotReady) as refusal:
        host.attempt(planner.plan_next(first))
    assert (str(refusal.value), host.asked, planner.ownership) == (
        why,
        [ReadMembership(), *looks],
        BatchOwnership(1, {P0: None}),
    )


def test_a_member_that_cannot_be_one_says_why_and_asks_the_cluster_nothing(
    host: PlannerHost,
) -> None:
    host.sees(state=MembershipState.FATAL, error="the group is of another kind")
    with pytest.raises(MembershipFailed, match=r"^the group is of another kind$"):
        host.attempt(make_planner().plan_next(BEGUN))
    assert host.asked == [*ENTRY, ReadMembership()]


def test_after_a_lost_incarnation_a_batch_starts_anew_and_commits_no_old_offsets(
    host: PlannerHost,
) -> None:
    planner, first = working(host, P0, P1)
    host.offsets, host.metadata = {P0: 17, P1: 10}, {}
    host.ends = {P0: 20, P1: 20}
    host.sees(incarnation=2, target=held(P0, P1), owned=())
    assert host.attempt(planner.plan_next(first)) == read("c", {P0: (17, 20), P1: (10, 20)})
    assert host.asked == [
        ReadMembership(),
        ResolveTopicNames(held(P0, P1)),
        AdoptAssignment(2, held(P0, P1)),
        ExistingTopics(("t",)),
        FetchCommitted(ALL, 2),
        ListOffsets((P0, P1), EARLIEST),
        ListOffsets((P0, P1), LATEST),
    ]
    assert (planner.ownership, planner.planned_incarnation) == (
        BatchOwnership(2, {P0: None, P1: None}),
        2,
    )


def test_a_new_life_says_again_what_the_old_one_had_committed(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    second = host.attempt(planner.plan_next(first))
    host.offsets = {}  # say, the group was deleted
    host.sees(incarnation=2, owned=())
    assert host.attempt(planner.plan_next(second)) is second
    assert CommitOffsets({P0: 10}, 2, CLAIM) in host.asked


def test_a_topic_that_comes_later_is_told_once_and_read_from_its_beginning(
    host: PlannerHost,
) -> None:
    host.topics = Topics()
    planner = make_planner(LATEST)
    assert host.attempt(planner.plan_next(BEGUN)) is BEGUN
    assert host.asked == [
        ExistingTopics(("t",)),
        StartMembership(),
        ReadMembership(),
        ExistingTopics(("t",)),
        Note(
            "warning",
            "topic t does not exist yet; it is read from its beginning once it does",
            ": is its name right? `apportion topics create t --bootstrap b:9092` creates it",
        ),
        *LOOK_AT_SESSION,
        ResolveTopicNames(()),
        ListOffsets((), EARLIEST),
        ListOffsets((), LATEST),
    ]
    host.topics = Topics([Topic("t", ID, 3)])
    host.sees(target=held(P0))
    assert host.attempt(planner.plan_next(BEGUN)) == read("c", {P0: (0, 10)})


@pytest.mark.parametrize("drops_answers", [False, True])
@pytest.mark.parametrize("obstacle", [Unanswerable(), Refused(Code.NOT_COORDINATOR)])
def test_an_attempt_cut_off_at_any_question_leaves_all_for_the_next_one(
    obstacle: Refused | Unanswerable, drops_answers: bool
) -> None:
    def taken_over(cut: int | None = None) -> tuple[Any, ...]:
        """A first batch, then one in which a partition goes and another comes; the second is cut
        off at the question `cut`.
        """
        host = PlannerHost(drops_answers=drops_answers)
        planner, first = working(host, P0, P1)
        host.ends = dict.fromkeys(ALL, 30)
        host.offsets[P2] = 7
        host.sees(target=held(P1, P2))
        if cut is not None:
            host.obstacles = {cut: obstacle}
            with pytest.raises(type(obstacle)):
                host.attempt(planner.plan_next(first))
        second = host.attempt(planner.plan_next(first))
        return (
            second,
            planner.ownership,
            planner.planned_incarnation,
            host.offsets,
            host.view,
            len(host.asked),
        )

    *whole, questions = taken_over()
    assert (whole[0], questions) == (read("c", {P1: (10, 30), P2: (7, 30)}), 9)
    for cut in range(questions):
        *outcome, _ = taken_over(cut)
        assert outcome == whole, cut
