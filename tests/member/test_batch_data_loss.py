"""failOnDataLoss of a batch member: deleted and recreated topics, and offsets deleted unread."""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note
from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.membership import BatchOwnership
from apportion.member.batch.queries import NotReady
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.topics import Topic, TopicIdPartition, Topics
from apportion.wire.messages.list_offsets import EARLIEST, LATEST
from apportion.wire.uuids import uuid_text
from tests.member.planner_host import (
    BEGUN,
    CLAIM,
    ID,
    OTHER_ID,
    P0,
    STARTING,
    PlannerHost,
    held,
    make_planner,
    read,
    working,
)


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


GONE = (
    f"topic t (id {uuid_text(ID)}) was deleted or created again: not read were t-0 from offset 10"
)


def test_a_deleted_topic_is_data_loss(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.topics = Topics()
    host.sees(target=held())
    with pytest.raises(DataLoss) as loss:
        host.attempt(planner.plan_next(first))
    assert str(loss.value) == f"{GONE}. Set failOnDataLoss to false to go on without these records."


def test_without_fail_on_data_loss_a_recreated_topic_is_noted_and_read_from_start(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0))
    planner = make_planner(LATEST, fail_on_data_loss=False)
    first = host.attempt(planner.plan_next(BEGUN))
    new = TopicIdPartition("t", OTHER_ID, 0)
    host.topics, host.starts, host.ends = Topics([Topic("t", OTHER_ID, 1)]), {new: 0}, {new: 5}
    host.sees(target=held(new))
    assert host.attempt(planner.plan_next(first)) == read("c", {new: (0, 5)})
    assert host.asked == [
        ReadMembership(),
        CommitOffsets({P0: 10}, 1, CLAIM),  # the sink has begun with it
        ResolveTopicNames(held(new)),
        AdoptAssignment(1, held(new)),
        ExistingTopics(("t",)),
        Note("warning", f"{GONE}; failOnDataLoss is false, so the query goes on"),
        ExistingTopics(("t",)),
        FetchCommitted((new,), 1),
        ListOffsets((new,), EARLIEST),
        ListOffsets((new,), LATEST),
        CommitOffsets({new: 0}, 1, STARTING),
    ]


def test_offsets_of_a_deleted_topic_are_left_out_and_the_others_committed(
    host: PlannerHost,
) -> None:
    other = TopicIdPartition("u", OTHER_ID, 0)
    host.topics = Topics([Topic("t", ID, 1), Topic("u", OTHER_ID, 1)])
    host.starts[other], host.ends[other] = 0, 20
    host.sees(target=held(P0, other))
    planner = make_planner(topics=TopicChoice(("t", "u")), fail_on_data_loss=False)
    first = host.attempt(planner.plan_next(BEGUN))
    host.topics = Topics([Topic("u", OTHER_ID, 1)])
    host.obstacles = {1: Refused(Code.UNKNOWN_TOPIC_ID), 5: Unanswerable()}
    with pytest.raises(Unanswerable):
        host.attempt(planner.plan_next(first))
    assert host.asked == [
        ReadMembership(),
        CommitOffsets({P0: 10, other: 20}, 1, CLAIM),
        ExistingTopics(("t", "u")),
        Note("warning", f"{GONE}; failOnDataLoss is false, so the query goes on"),
        CommitOffsets({other: 20}, 1, CLAIM),
        ResolveTopicNames(held(P0, other)),  # the group has not heard of it yet
    ]
    assert planner.ownership == BatchOwnership(1, {other: None})
    assert host.attempt(planner.plan_next(first)) == read("c", {other: (20, 20)})


def test_offsets_deleted_unread_are_data_loss(host: PlannerHost) -> None:
    planner, first = working(host, P0)
    host.starts[P0], host.ends[P0] = 15, 20
    with pytest.raises(DataLoss, match=r"^t-0: offsets \[10, 15\) were deleted\. Set"):
        host.attempt(planner.plan_next(first))
    assert planner.ownership == BatchOwnership(1, {P0: None})


def test_a_shorter_log_of_a_recreated_topic_waits_until_the_group_learns_of_it(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0))
    planner = make_planner(fail_on_data_loss=False)
    first = host.attempt(planner.plan_next(BEGUN))
    host.ends[P0] = 2  # offsets are asked for by name: those of the new topic

    def answer(ask: Any, asked: Callable[..., Any] = host.answer) -> Any:
        return Topics([Topic("t", OTHER_ID, 1)]) if isinstance(ask, ExistingTopics) else asked(ask)

    host.answer = answer  # type: ignore[method-assign]
    with pytest.raises(NotReady, match="the group does not know yet that topic t was deleted"):
        host.attempt(planner.plan_next(first))
    assert host.asked[-1] == Note(
        "warning", f"{GONE}; failOnDataLoss is false, so the query goes on"
    )
