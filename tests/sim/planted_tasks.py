"""Bugs of the processes of a Streams application in a consumer group, to be found by seeds: see
`planted.py`.
"""

from collections.abc import Iterable

from apportion.member.records.record_consumer import RecordConsumer
from apportion.member.records.streams_consumer import StreamsRecordConsumer
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from tests.sim.bug import Planted


def drop_positions_alone(
    self: StreamsRecordConsumer, dropped: Iterable[TopicIdPartition]
) -> Rule[None]:
    return RecordConsumer.drop_partitions(self, dropped)


TASKS = (
    Planted(
        "tasks-outlive-partitions",
        "Without a position nothing of the task is delivered, and the next report leaves it out.",
        ((StreamsRecordConsumer, "drop_partitions", drop_positions_alone),),
        sizes={"streams": 3, "workers": 0, "readers": 0},
    ),
)
"""The guards of `member.records.streams_consumer`."""
