"""The rule of a Streams member that reads record by record: when it tells of its tasks."""

from typing import Any

import pytest

from apportion.member.records.streams_consumer import (
    CallTaskListener,
    ReportTaskOffsetSums,
    StreamsRecordConsumer,
)
from apportion.member.streams.assignor import TaskShare
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.topics import TopicPartition
from tests.member.record_consumer_host import P0, P1, RecordConsumerHost

FIRST, SECOND, ELSEWHERE = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)
SHARE = TaskShare(1, 11, {FIRST: (TopicPartition("t", 0),), SECOND: (TopicPartition("t", 1),)})


@pytest.fixture
def host() -> RecordConsumerHost:
    """A member that has been assigned two tasks, and has adopted the first one."""
    made = RecordConsumerHost()
    made.rule = StreamsRecordConsumer(made.rule.settings)
    made.tasks = SHARE
    made.receives(P0)
    made.poll(limit=0)
    return made


def told(host: RecordConsumerHost) -> list[Any]:
    """The tasks of each call of `on_tasks` and the offset sums of each report, since then."""
    queries = host.named(CallTaskListener, ReportTaskOffsetSums)
    host.queries.clear()
    return [
        [*each.share.active] if isinstance(each, CallTaskListener) else dict(each.offset_sums)
        for each in queries
    ]


def test_tasks_are_told_to_the_application_then_to_the_group_and_once(
    host: RecordConsumerHost,
) -> None:
    assert told(host) == [[FIRST], {FIRST: RUNNING}]
    host.poll(limit=0)
    assert told(host) == []
    host.receives(P0, P1)
    host.poll(limit=0)
    assert told(host) == [[FIRST, SECOND], {FIRST: RUNNING, SECOND: RUNNING}]


def test_tasks_that_the_application_has_not_taken_are_told_again(host: RecordConsumerHost) -> None:
    def fail(query: Any) -> None:
        if isinstance(query, CallTaskListener):
            raise OSError("no room for its state")

    told(host)
    host.receives(P0, P1)
    host.before = fail
    with pytest.raises(OSError, match="no room"):
        host.poll(limit=0)
    host.before = lambda query: None
    assert told(host) == []
    host.poll(limit=0)
    assert told(host) == [[FIRST, SECOND], {FIRST: RUNNING, SECOND: RUNNING}]


def test_the_state_of_other_tasks_is_reported_beside_the_running_ones(
    host: RecordConsumerHost,
) -> None:
    told(host)
    rule = host.rule
    assert isinstance(rule, StreamsRecordConsumer)
    host.run(rule.report({ELSEWHERE: 7, FIRST: 5}))
    assert told(host) == [{ELSEWHERE: 7, FIRST: RUNNING}]
