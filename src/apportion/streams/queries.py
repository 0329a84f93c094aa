"""What a leader must ask the cluster before it can assign. It yields a question and is sent the answer.

Where the cluster cannot say, `errors.Unanswerable` is thrown in; the leader goes on as well as it can.
"""

from dataclasses import dataclass

from apportion.streams.topology import InternalTopic
from apportion.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class CreateInternalTopics:
    """These topics shall exist. The answer, once they do, is a dict of each one's name to its number of partitions.

    A topic that exists already is left as it is, with whatever number of partitions it has.
    """

    topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class ListEndOffsets:
    """Where do these partitions end? The answer is a dict of TopicPartition to int, with all of them."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchCommittedOffsets:
    """What has the group committed for these partitions? The answer is a dict of TopicPartition to int, 0 where it has nothing."""

    partitions: tuple[TopicPartition, ...]


ClusterQuery = CreateInternalTopics | ListEndOffsets | FetchCommittedOffsets
