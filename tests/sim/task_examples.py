"""Small examples of the bugs in `planted_tasks.py`: what happens without and with each."""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from apportion.member.queries import AdoptAssignment
from apportion.member.records.streams_consumer import ReportTaskOffsetSums, StreamsRecordConsumer
from apportion.member.streams.assignor import TaskShare
from apportion.streams.metadata.model import TaskId
from apportion.topics import TopicPartition
from tests.member.record_consumer_host import P0, P1, RecordConsumerHost

KEPT, GONE = TaskId(0, 0), TaskId(0, 1)


def tasks_told_before_a_revocation_is_acknowledged() -> list[list[TaskId]]:
    host = RecordConsumerHost()
    host.rule = StreamsRecordConsumer(host.rule.settings)
    host.tasks = TaskShare(
        1, 11, {KEPT: (TopicPartition("t", 0),), GONE: (TopicPartition("t", 1),)}
    )
    host.receives(P0, P1)
    host.poll(limit=0)
    host.queries.clear()
    host.receives(P0, epoch=3)
    host.poll(limit=0)
    queries = host.named(ReportTaskOffsetSums, AdoptAssignment)
    before = takewhile(lambda query: not isinstance(query, AdoptAssignment), queries)
    return [[*query.offset_sums] for query in before]


TASK_EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "tasks-outlive-partitions": (tasks_told_before_a_revocation_is_acknowledged, [[KEPT]], []),
}
