"""A task is taken up whole or not at all."""

from typing import Any

from apportion.member.membership import MembershipState, View
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.member.records.streams_consumer import (
    ReadStreamsMembership,
    StreamsRecordConsumer,
    StreamsSnapshot,
    whole_tasks,
)
from apportion.member.streams.assignor import TaskShare
from apportion.rules import run_rule
from apportion.streams.metadata.model import TaskId
from apportion.topics import TopicIdPartition, TopicPartition

LEFT, RIGHT, OTHER = (
    TopicIdPartition(name, name.encode().rjust(16), 0) for name in ("left", "right", "other")
)
GIVEN = TaskShare(
    1,
    11,
    {
        TaskId(0, 0): (TopicPartition("left", 0), TopicPartition("right", 0)),
        TaskId(1, 0): (TopicPartition("other", 0),),
    },
)


def test_a_tasks_partitions_wait_until_all_its_topics_are_known() -> None:
    assert whole_tasks((LEFT, OTHER), GIVEN) == (OTHER,)
    assert whole_tasks((LEFT, OTHER, RIGHT), GIVEN) == (LEFT, RIGHT, OTHER)


def test_a_poll_takes_up_the_tasks_of_the_snapshot_that_it_has_read() -> None:
    view = View("m", 1, MembershipState.STABLE, 1, (), (), 0, None)
    snapshot = StreamsSnapshot(view, 5, 0, GIVEN)
    rule = StreamsRecordConsumer(RecordConsumerSettings("g", None, None, 1_000, 1_000))

    def answer(query: Any) -> Any:
        return snapshot if query == ReadStreamsMembership() else (LEFT, OTHER)

    assert run_rule(rule.refresh_membership(), answer) == snapshot
    assert run_rule(rule.resolve_partitions(()), answer) == (OTHER,)
