"""A task is taken up whole or not at all."""

from apportion.member.records.streams_consumer import whole_tasks
from apportion.member.streams.assignor import TaskShare
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
