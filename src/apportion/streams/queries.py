"""The queries that a Streams leader yields before it can assign; the driver sends back the answer.

If the cluster cannot answer, `errors.Unanswerable` is thrown into the generator.
"""

from dataclasses import dataclass

from apportion.rules import RuleQuery
from apportion.streams.topology import InternalTopic
from apportion.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class CreateInternalTopics(RuleQuery):
    """Create those of these topics that are missing.

    The answer maps the name of each topic to its number of partitions. An existing topic stays as
    it is, whatever its number of partitions.
    """

    topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class ListEndOffsets(RuleQuery):
    """List the end offsets of these partitions. The answer maps each of them to its offset."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchCommittedOffsets(RuleQuery):
    """Fetch the group's committed offsets of these partitions.

    The answer maps each of them to its offset, 0 without a commit.
    """

    partitions: tuple[TopicPartition, ...]
