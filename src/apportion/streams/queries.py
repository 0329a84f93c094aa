"""The queries that an assignor may yield before it assigns; the cluster's answers are sent back.

They are public (`apportion.assignors`), and name partitions without topic ids, as assignors do. Any
assignor may yield those about offsets, that of Kafka Streams all of them. `errors.Unanswerable` is
thrown in where the cluster cannot answer now, `errors.Refused` where it never can. A member answers
them (`member/leader_queries.py`) by the queries of `member/queries.py`.
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
class ListStartOffsets(RuleQuery):
    """List the first offsets of these partitions. The answer maps each of them to its offset."""

    partitions: tuple[TopicPartition, ...]


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
